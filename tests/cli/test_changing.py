"""`fork`, `rm`, `vacuum`: nothing goes without being asked for."""

import pytest

from tests.cli.conftest import Database


def heads(database: Database) -> dict[str, str]:
    return {line[0]: line[3] for line in database.lines("threads")}


def checkpoints(database: Database, thread: str) -> list[str]:
    return [line[1] for line in database.lines("history", thread)]


def test_fork_starts_a_thread_at_the_head_or_at_a_checkpoint(database: Database) -> None:
    assert database.lines("fork", "parcel", "new") == [["new", "c4000"]]
    assert database.json("fork", "parcel", "earlier", "--at", "head~2") == {
        "thread_id": "earlier",
        "head": "c2000",
    }
    assert checkpoints(database, "earlier") == ["c2000", "c1000"]


def test_fork_onto_an_existing_thread_is_a_conflict(database: Database) -> None:
    result = database.run("fork", "parcel", "other")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: ")
    assert database.run("fork", "nope", "new").exit_code == 1


def test_rm_deletes_a_thread_or_one_checkpoint(database: Database) -> None:
    assert database.lines("rm", "parcel", "head~1", "--yes") == [["parcel", "c3000"]]
    assert checkpoints(database, "parcel") == ["c4000", "c2000", "c1000"]
    assert database.json("rm", "parcel", "--yes") == {"thread_id": "parcel", "checkpoint_id": None}
    assert heads(database) == {"other": "d4000"}
    assert database.run("rm", "parcel", "--yes").exit_code == 1


@pytest.mark.parametrize("command", [["rm", "parcel"], ["vacuum", "--keep-last", "1"]])
def test_nothing_is_deleted_when_nobody_can_confirm(database: Database, command: list[str]) -> None:
    result = database.run(*command, input="y\n")
    assert (result.exit_code, result.stderr) == (2, "error: nobody is there to confirm: add --yes\n")
    assert len(checkpoints(database, "parcel")) == 4


def test_rm_asks_in_a_terminal_and_takes_no_for_an_answer(database: Database) -> None:
    code, seen = database.terminal("rm", "parcel", answer="n\n")
    assert code == 1
    assert "Delete thread 'parcel', last saved 2026-01-04 12:00:00Z (save 4)? [y/N]" in seen
    assert "parcel" in heads(database)


def test_rm_asks_in_a_terminal_and_takes_yes_for_an_answer(database: Database) -> None:
    code, seen = database.terminal("rm", "parcel", "c4000", answer="y\n")
    assert code == 0, seen
    assert "deleted checkpoint 'c4000' of thread 'parcel'" in seen
    assert heads(database)["parcel"] == "c3000"


def test_vacuum_says_in_a_dry_run_what_would_go_and_deletes_nothing(database: Database) -> None:
    database.run("rm", "other", "--yes")
    result = database.run("vacuum", "--keep-last", "2", "--dry-run")
    assert (result.exit_code, result.stdout) == (0, "parcel\tc1000\nparcel\tc2000\n")
    assert result.stderr == "would delete 2 checkpoints of 1 thread\n"
    assert len(checkpoints(database, "parcel")) == 4


def test_vacuum_deletes_what_is_beyond_the_limits_and_lists_it(database: Database) -> None:
    database.run("rm", "other", "--yes")
    document = database.json("vacuum", "--keep-last", "3", "--older-than-days", "1", "--yes")
    assert document == {
        "dry_run": False,
        "count": 1,
        "removed": [{"thread_id": "parcel", "checkpoint_id": "c1000"}],
    }
    assert checkpoints(database, "parcel") == ["c4000", "c3000", "c2000"]


def test_vacuum_spares_what_a_fork_reads(database: Database) -> None:
    assert database.json("vacuum", "--keep-last", "1", "--yes")["count"] == 0


def test_vacuum_deletes_stale_threads_only_when_told_to(database: Database) -> None:
    days = ["--older-than-days", "1"]
    plan = database.json("vacuum", *days, "--stale-threads", "--dry-run")
    assert {removed["thread_id"] for removed in plan["removed"]} == {"parcel", "other"}
    assert set(heads(database)) == {"parcel", "other"}
    assert database.json("vacuum", *days, "--stale-threads", "--yes")["removed"] == plan["removed"]
    assert database.run("threads").exit_code == 1
    assert database.lines("--user", "user-1", "threads")[0][0] == "parcel"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--older-than-days or --keep-last"),
        (["--stale-threads", "--keep-last", "1"], "needs --older-than-days"),
        (["--keep-last", "0"], "--keep-last"),
        (["--older-than-days", "-1"], "--older-than-days"),
        (["--older-than-days", "nan"], "older-than-days"),
    ],
)
def test_vacuum_refuses_to_guess_what_may_go(database: Database, options: list[str], message: str) -> None:
    result = database.run("vacuum", *options, "--yes")
    assert result.exit_code == 2
    assert message in result.stderr

"""`threads`, `history`, `show`: what a reader gets, and how a checkpoint is named."""

import asyncio

import pytest

from holdfast.core.messages import Message
from tests.cli.conftest import Database, save_one


def test_threads_are_listed_last_saved_first_as_tab_separated_lines(database: Database) -> None:
    lines = database.lines("threads")
    assert [line[0] for line in lines] == ["other", "parcel"]
    assert lines[1] == [
        "parcel",
        "4",
        "2026-01-04T12:00:00+00:00",
        "c4000",
        '{"turn": 4, "at": "2026-01-04T12:00:00+00:00"}',
    ]


def test_threads_takes_a_glob_and_a_limit(database: Database) -> None:
    assert [line[0] for line in database.lines("threads", "par*")] == ["parcel"]
    limited = database.run("threads", "--limit", "1")
    assert limited.stdout.startswith("other\t")
    assert "more threads" in limited.stderr


def test_threads_as_json_is_an_array_of_objects_with_iso_times(database: Database) -> None:
    (thread,) = database.json("threads", "parcel")
    assert thread == {
        "thread_id": "parcel",
        "saves": 4,
        "saved_at": "2026-01-04T12:00:00+00:00",
        "head": "c4000",
        "metadata": {"turn": 4, "at": "2026-01-04T12:00:00+00:00"},
    }


def test_no_match_is_an_empty_array_and_exit_code_1(database: Database) -> None:
    result = database.run("threads", "nothing-*", "--json")
    assert (result.exit_code, result.stdout) == (1, "[]\n")
    assert database.run("threads", "nothing-*").stdout == ""


def test_history_lists_checkpoints_newest_first_with_their_parents(database: Database) -> None:
    lines = database.lines("history", "parcel")
    assert [line[:2] for line in lines] == [["4", "c4000"], ["3", "c3000"], ["2", "c2000"], ["1", "c1000"]]
    assert [line[3] for line in lines] == ["c3000", "c2000", "c1000", ""]
    assert [info["checkpoint_id"] for info in database.json("history", "other", "--limit", "2")] == [
        "d4000",
        "c3000",
    ]


def test_history_of_a_missing_thread_is_exit_code_1(database: Database) -> None:
    result = database.run("history", "nope")
    assert (result.exit_code, result.stderr) == (1, "error: no thread 'nope'\n")


def test_show_prints_the_conversation_with_roles_and_tool_calls(database: Database) -> None:
    shown = database.run("show", "parcel").stdout
    assert "checkpoint\tc4000\n" in shown
    assert 'metadata\tturn=4 at="2026-01-04T12:00:00+00:00"\n' in shown
    assert "\nsystem\n  Be helpful.\n" in shown
    assert '\nassistant\n  Let me see.\n  → look_up(order="A-17")  call-1\n' in shown
    assert "\ntool look_up  answers call-1\n  shipped\n" in shown
    assert "\nuser\n  Thanks!\n  And the invoice?\n" in shown


def test_show_at_a_checkpoint_is_the_conversation_as_it_was(database: Database) -> None:
    shown = database.run("show", "parcel", "c1000").stdout
    assert "Where is my parcel?" in shown
    assert "Let me see." not in shown


def test_show_tells_of_errors_confidence_and_pending_writes(database: Database) -> None:
    shown = database.run("show", "other").stdout
    assert "confidence\t0.4\n" in shown
    assert "error\tno parcel\n" in shown
    assert 'pending\ttask[0] messages={"text": "half done"}\n' in shown


def test_show_as_json_has_the_whole_state(database: Database) -> None:
    document = database.json("show", "other")
    assert document["checkpoint_id"] == "d4000"
    assert document["parent_id"] == "c3000"
    assert [message["role"] for message in document["state"]["messages"]][-1] == "assistant"
    assert document["pending_writes"] == [
        {"task_id": "task", "idx": 0, "channel": "messages", "value": {"text": "half done"}}
    ]


@pytest.mark.parametrize(
    ("reference", "checkpoint_id"),
    [
        ("head", "c4000"),
        ("head~0", "c4000"),
        ("head~1", "c3000"),
        ("head~3", "c1000"),
        ("c2000", "c2000"),
        ("c200", "c2000"),
    ],
)
def test_a_checkpoint_is_named_by_id_prefix_or_distance_from_the_head(
    database: Database, reference: str, checkpoint_id: str
) -> None:
    assert database.json("show", "parcel", reference)["checkpoint_id"] == checkpoint_id


@pytest.mark.parametrize(
    ("reference", "code", "message"),
    [
        ("head~4", 1, "no checkpoint head~4: thread 'parcel' has 4"),
        ("zzzz", 1, "no checkpoint 'zzzz' in thread 'parcel'"),
        ("c20", 2, "use at least 4 characters"),
        ("head~x", 1, "no checkpoint 'head~x'"),
    ],
)
def test_a_name_that_fits_no_checkpoint_is_refused(
    database: Database, reference: str, code: int, message: str
) -> None:
    result = database.run("show", "parcel", reference)
    assert result.exit_code == code
    assert message in result.stderr


def test_an_ambiguous_prefix_is_refused_and_names_two(database: Database) -> None:
    for checkpoint_id in ("same-1", "same-2"):
        asyncio.run(save_one(database.path, "twins", Message.user("hi"), checkpoint_id))
    result = database.run("show", "twins", "same")
    assert result.exit_code == 2
    assert "'same-2' and 'same-1'" in result.stderr


def test_a_whole_id_wins_over_every_other_reading(database: Database) -> None:
    for checkpoint_id in ("head", "newest", "newest-of-all"):
        asyncio.run(save_one(database.path, "odd", Message.user(checkpoint_id), checkpoint_id))
    assert database.json("show", "odd", "head")["checkpoint_id"] == "head"
    assert database.json("show", "odd", "newest")["checkpoint_id"] == "newest"


def test_a_scope_sees_only_its_own_threads_by_either_name_of_the_option(database: Database) -> None:
    assert [line[3] for line in database.lines("--scope", "user-1", "threads")] == ["u1000"]
    assert [line[3] for line in database.lines("threads", "--user", "user-1")] == ["u1000"]
    assert database.run("--user", "", "threads").exit_code == 2
    assert database.run("--user", "user-2", "show", "parcel").exit_code == 1

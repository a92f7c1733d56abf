"""`memory forget`, `export` and `import`."""

import gzip
import json
from typing import Any

import pytest

from holdfast.memory.agent_memory import AgentMemory
from holdfast.memory.rights import Receipt
from tests.cli.conftest import Database
from tests.cli.memories import HARBOUR, memories

__all__ = ["memories"]

ALICE = ("--user", "alice")


def episodes(database: Database, user: str = "alice") -> list[str]:
    result = database.run("memory", "list", "--user", user)
    return [line.split("\t")[3] for line in result.stdout.splitlines()]


def test_forget_removes_a_user_and_prints_the_receipt(memories: Database) -> None:
    result = memories.run("memory", "forget", *ALICE, "--yes")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["blocks\t1\t0", "episodes\t3\t0", "facts\t3\t0", "sessions\t2\t0"]
    assert result.stderr == "a second look found nothing\n"
    assert episodes(memories) == []
    assert episodes(memories, "bob") == ["I live in Rome."]
    assert memories.run("memory", "facts", *ALICE).exit_code == 1
    again = memories.run("memory", "forget", *ALICE, "--yes")
    assert (again.exit_code, again.stderr) == (1, "nothing is kept of user 'alice'\n")


def test_forget_leaves_no_byte_behind_in_a_process_of_its_own(memories: Database) -> None:
    assert memories.process("memory", "forget", *ALICE, "--threads", "--yes").returncode == 0
    files = list(memories.path.parent.glob(f"{memories.path.name}*"))
    assert files
    for word in (b"Biscuit", b"harbour", b"alice"):
        assert not any(word in file.read_bytes() for file in files), word


def test_forget_takes_a_session_or_what_is_older(memories: Database) -> None:
    document = memories.json("memory", "forget", *ALICE, "--session", "spring", "--yes")
    assert document["complete"] is True
    assert (document["user"], document["removed"]["episodes"], document["removed"]["facts"]) == (
        "alice",
        1,
        1,
    )
    assert len(episodes(memories)) == 2
    assert memories.run("memory", "forget", *ALICE, "--before", "2024-07-15", "--yes").exit_code == 0
    assert episodes(memories) == ["I moved to Oslo."]
    assert memories.lines("memory", "list", *ALICE, "--show", "blocks") == [["style", "Short answers."]]


def test_forget_takes_threads_only_when_told_to(memories: Database) -> None:
    assert memories.run("memory", "forget", *ALICE, "--session", "spring", "--yes").exit_code == 0
    assert memories.run("threads", *ALICE).exit_code == 0
    document = memories.json("memory", "forget", *ALICE, "--session", "summer", "--threads", "--yes")
    assert document["removed"]["threads"] == 1
    assert memories.run("threads", *ALICE).exit_code == 1


def test_forget_is_not_done_if_the_second_look_found_something(
    memories: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(*args: Any, **kwargs: Any) -> Receipt:
        return Receipt({"episodes": 2}, {"episodes": 1})

    monkeypatch.setattr(AgentMemory, "forget", forget)
    result = memories.run("memory", "forget", *ALICE, "--yes")
    assert (result.exit_code, result.stdout) == (3, "episodes\t2\t1\n")
    assert "run it again" in result.stderr
    as_json = memories.run("memory", "forget", *ALICE, "--yes", "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)["complete"]) == (3, False)


def test_nothing_is_forgotten_when_nobody_can_confirm_or_says_no(memories: Database) -> None:
    result = memories.run("memory", "forget", *ALICE, input="y\n")
    assert (result.exit_code, result.stderr) == (2, "error: nobody is there to confirm: add --yes\n")
    code, seen = memories.terminal("memory", "forget", *ALICE, answer="n\n")
    assert code == 1
    assert "Forget all of user 'alice' in 'default' (3 episodes, 1 block, all facts)?" in seen
    assert len(episodes(memories)) == 3
    code, seen = memories.terminal("memory", "forget", *ALICE, "--threads", answer="y\n", NO_COLOR="1")
    assert code == 0
    assert "and their threads?" in seen
    assert "remaining" in seen
    assert episodes(memories) == []


@pytest.mark.parametrize(
    "options",
    [
        [*ALICE, "--threads", "--before", "2024-01-01"],
        ["--anonymous", "--threads"],
        [*ALICE, "--before", "soon"],
    ],
)
def test_forget_refuses_what_it_can_not_mean(memories: Database, options: list[str]) -> None:
    assert memories.run("memory", "forget", *options, "--yes").exit_code == 2
    assert len(episodes(memories)) == 3


def test_an_export_is_put_back_whole(memories: Database) -> None:
    target = memories.path.with_name("alice.jsonl.gz")
    assert memories.lines("memory", "export", *ALICE, str(target)) == [["alice", "9", str(target)]]
    assert HARBOUR.encode() in gzip.decompress(target.read_bytes())
    new = Database(memories.path.with_name("new.db"))
    assert new.lines("memory", "import", str(target), "--user", "copy", "--embedder", "hash") == [
        ["copy", "9"]
    ]
    assert episodes(new, "copy") == episodes(memories)
    assert len(new.json("memory", "facts", "--user", "copy", "--history")) == 3
    (hit, *_) = new.json("memory", "search", "Where do I live?", "--user", "copy")
    assert "meaning" in hit["parts"]


def test_an_import_stays_with_the_embedder_of_what_is_there(memories: Database) -> None:
    exported = memories.run("memory", "export", *ALICE)
    assert exported.exit_code == 0
    assert exported.stderr == "exported 9 items of user 'alice'\n"
    result = memories.run("memory", "import", "-", "--user", "copy", input=exported.stdout)
    assert result.exit_code == 0, result.output
    (hit, *_) = memories.json("memory", "search", "Where do I live?", "--user", "copy")
    assert "meaning" in hit["parts"]
    other = memories.run("memory", "import", "-", *ALICE, "--embedder", "hash", input=exported.stdout)
    assert (other.exit_code, "holdfast reembed" in other.stderr) == (2, True)


def test_an_export_of_nothing_and_an_import_of_nonsense_say_so(memories: Database) -> None:
    assert memories.run("memory", "export", "--user", "nobody").exit_code == 1
    result = memories.run("memory", "import", "-", *ALICE, input="nonsense\n")
    assert result.exit_code in (2, 4)
    assert result.stderr.startswith("error: ")
    assert len(episodes(memories)) == 3

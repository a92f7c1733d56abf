"""`reembed`: another embedder for what is stored."""

import pytest

from holdfast.memory.episodes import Episode
from holdfast.resolving import LazyMemory
from tests.cli.conftest import Database
from tests.cli.memories import memories, on

__all__ = ["memories"]

HASH = ("--embedder", "hash")


def parts(database: Database, user: str) -> set[str]:
    """By what signals something is found with the embedder `hash`."""
    (hit, *_) = database.json("memory", "search", "Where do I live?", "--user", user, *HASH)
    return set(hit["parts"])


def test_all_users_get_vectors_of_the_new_embedder_and_a_second_run_has_nothing_to_do(
    memories: Database,
) -> None:
    assert "meaning" not in parts(memories, "alice")
    result = memories.run("reembed", *HASH)
    assert (result.exit_code, result.stdout) == (0, "hash\t2\t4\t4\t0\n"), result.output
    assert (
        result.stderr == "embedded 4 episodes of 2 users with hash; 4 vectors of another one were given up\n"
    )
    assert "meaning" in parts(memories, "alice")
    again = memories.run("reembed", *HASH)
    assert (again.exit_code, again.stdout) == (0, "hash\t0\t0\t0\t0\n")
    assert again.stderr == "nothing to do: every episode has a vector of hash\n"


def test_a_dry_run_changes_nothing(memories: Database) -> None:
    document = memories.json("reembed", *HASH, "--dry-run")
    assert document == {
        "embedder": "hash",
        "users": 2,
        "dropped": 4,
        "embedded": 4,
        "skipped": 0,
        "dry_run": True,
    }
    assert "meaning" not in parts(memories, "alice")


def test_one_user_or_nobody_or_another_namespace_can_be_done_alone(memories: Database) -> None:
    async def say(memory: LazyMemory) -> None:
        await memory.remember(Episode(text="Whoever lives here."))

    on(memories, say)
    assert memories.json("reembed", *HASH, "--namespace", "other")["embedded"] == 0
    assert memories.json("reembed", *HASH, "--anonymous")["embedded"] == 1
    assert memories.json("reembed", *HASH, "--user", "alice")["embedded"] == 3
    assert memories.json("reembed", *HASH)["embedded"] == 1
    wrong = memories.run("reembed", *HASH, "--user", "alice", "--anonymous")
    assert (wrong.exit_code, "exclude" in wrong.stderr) == (2, True)


def test_a_terminal_shows_a_bar_and_a_process_that_nobody_watches_none(memories: Database) -> None:
    code, seen = memories.terminal("reembed", *HASH, NO_COLOR="1")
    assert code == 0
    assert "4/4" in seen
    assert "✓ embedded 4 episodes of 2 users with hash" in seen
    result = memories.process("reembed", *HASH, "--json")
    assert result.returncode == 0
    assert b"\x1b" not in result.stderr
    assert result.stdout.startswith(b"{")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--embedder"),
        (["--embedder", "none"], "name one"),
        (["--embedder", "opnai"], "did you mean"),
        (["--embedder", "openai"], "OPENAI_API_KEY"),
    ],
)
def test_an_embedder_must_be_named(memories: Database, options: list[str], message: str) -> None:
    result = memories.run("reembed", *options)
    assert result.exit_code == 2
    assert message in result.stderr

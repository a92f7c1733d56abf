"""A database with what is remembered of some users, for the tests of `memory` and `reembed`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.core.state import AgentState
from holdfast.memory.embedder import HashEmbedder
from holdfast.memory.episodes import Episode
from holdfast.memory.facts import Fact
from holdfast.resolving import LazyMemory
from tests.cli.conftest import Database

pytest.importorskip("numpy", reason="needs numpy")

T = TypeVar("T")
HARBOUR = (
    "I live in Lisbon, near the old harbour from where the ferries leave for the other side of the river."
)
SAID = [
    Episode(text=HARBOUR, speaker="user", session_id="spring", occurred_at=datetime(2024, 3, 1, tzinfo=UTC)),
    Episode(
        text="My dog is called Biscuit.",
        speaker="user",
        session_id="summer",
        occurred_at=datetime(2024, 7, 1, 9, 30, tzinfo=UTC),
    ),
    Episode(
        text="I moved to Oslo.",
        speaker="user",
        session_id="summer",
        occurred_at=datetime(2024, 8, 1, tzinfo=UTC),
        checkpoint="c1000",
    ),
]


def on(database: Database, work: Callable[[LazyMemory], Awaitable[T]], *, dimension: int = 64) -> T:
    """Do something with the memory in a database's file."""

    async def scenario() -> T:
        async with LazyMemory(database.url, embedder=HashEmbedder(dimension)) as memory:
            return await work(memory)

    return asyncio.run(scenario())


async def fill(memory: LazyMemory) -> None:
    """Alice moved from Lisbon to Oslo; of Bob there is an episode; nobody in particular has a block."""
    assert memory.facts is not None
    assert memory.checkpointer is not None
    lisbon, dog, oslo = await memory.remember_all(SAID, user_id="alice")

    async def add(fact: Fact, episode: Episode, author: str | None = None) -> None:
        assert memory.facts is not None
        await memory.facts.add(
            fact, user_id="alice", source=episode.id, author=author, checkpoint=episode.checkpoint
        )

    await add(Fact("user", "lives_in", "Lisbon", valid_from=SAID[0].occurred_at), lisbon, "extraction")
    await add(Fact("user", "has_pet", "Biscuit", confidence=0.9), dog)
    await add(Fact("user", "lives_in", "Oslo", valid_from=SAID[2].occurred_at), oslo)
    await memory.update_block("style", "Short answers.", user_id="alice")
    await memory.remember("I live in Rome.", user_id="bob")
    await memory.update_block("note", "Nobody's.")
    await memory.checkpointer.scoped("alice").save(AgentState(), "summer", "a1000")


@pytest.fixture
def memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    for name in ("HOLDFAST_EMBEDDER", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    database = Database(tmp_path / "bot.db")
    on(database, fill)
    return database

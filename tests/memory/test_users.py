"""Who has memories, page by page; and what happened last."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.memory import AgentMemory, Episode, Fact
from holdfast.memory.store import BaseStore, InMemoryStore
from holdfast.memory.store_backends import SQLiteStore

USERS = ["alice", "ALICE", "a/b", "a", "a!", "u:alice", "anonymous", "~", "é" * 60, "shared", "\udc80", None]


def stores(folder: Path) -> list[BaseStore]:
    return [InMemoryStore(), SQLiteStore(folder / "memory.db")]


async def everybody(memory: AgentMemory, limit: int) -> list[str | None]:
    found: list[str | None] = []
    after = None
    while True:
        page = await memory.users(limit, after=after)
        assert len(page) <= limit
        found += page
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("index", [0, 1])
def test_every_user_is_listed_once_whatever_is_kept_of_them(index: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AgentMemory(stores(tmp_path)[index]) as memory:
            assert await memory.users() == []
            for number, user in enumerate(USERS):
                if number % 2:
                    await memory.remember("Hello.", user_id=user)
                if number % 3:
                    await memory.update_block("b", "x", user_id=user)
                if number % 6 in (0, 4):
                    assert memory.facts is not None
                    await memory.facts.add(Fact("user", "is", "here"), user_id=user)
            assert memory.facts is not None
            await memory.facts.declare("likes", "many")  # of no user
            await AgentMemory(memory.store, namespace="other").remember("Hello.", user_id="elsewhere")
            whole = await everybody(memory, 1000)
            assert set(whole) == set(USERS)
            assert len(whole) == len(USERS)
            assert whole[0] is None
            for limit in (1, 2, 5, 11, 12, 13):
                assert await everybody(memory, limit) == whole
            assert await memory.users(0) == []
            with pytest.raises(InvalidInput, match="after"):
                await memory.users(after="nonsense")

    asyncio.run(scenario())


@pytest.mark.parametrize("index", [0, 1])
def test_users_that_come_and_go_meanwhile_move_nobody(index: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AgentMemory(stores(tmp_path)[index]) as memory:
            for number in range(0, 40, 2):
                await memory.remember("Hello.", user_id=f"user{number:02}")
            found: list[str | None] = []
            after = None
            for step in range(100):
                page = await memory.users(3, after=after)
                found += page
                after = page.next
                if after is None:
                    break
                await memory.forget(user_id=page[-1])  # the very one that the cursor names
                await memory.remember("Hello.", user_id=f"user{step:02}x")
            stayed = {f"user{number:02}" for number in range(0, 40, 2)}
            assert stayed <= set(found)
            assert len(found) == len(set(found))

    asyncio.run(scenario())


@pytest.mark.parametrize("index", [0, 1])
def test_the_latest_are_those_that_happened_last(index: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AgentMemory(stores(tmp_path)[index]) as memory:
            for day in (3, 9, 1, 7, 5):
                moment = datetime(2026, 5, day, tzinfo=UTC)
                session = "odd" if day in (1, 9) else "other"
                episode = Episode(text=f"day {day}", occurred_at=moment, session_id=session)
                await memory.remember(episode, user_id="alice")
            await memory.remember("of bob", user_id="bob")

            async def texts(limit: int, session_id: str | None = None) -> list[str]:
                return [e.text for e in await memory.latest(limit, user_id="alice", session_id=session_id)]

            assert await texts(3) == ["day 9", "day 7", "day 5"]
            assert await texts(100) == ["day 9", "day 7", "day 5", "day 3", "day 1"]
            assert await texts(5, "odd") == ["day 9", "day 1"]
            assert await texts(0) == []

    asyncio.run(scenario())

"""The document shape, over the reference, a file and a real PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import Agent
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import InvalidInput
from holdfast.memory.backends import (
    DocumentBackend,
    MemoryCheckpointer,
    PostgreSQLBackend,
    SQLiteCheckpointer,
)
from holdfast.testing.clock import FrozenClock
from holdfast.testing.models import ScriptedModel

Run = Callable[[Callable[[DocumentBackend, FrozenClock], Awaitable[None]]], None]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    clock = FrozenClock(datetime(2026, 5, 1, tzinfo=UTC))
    url = request.getfixturevalue("postgres").url if request.param == "postgres" else ""

    def opened() -> DocumentBackend:
        if request.param == "postgres":
            return PostgreSQLBackend(dsn=url, clock=clock)
        if request.param == "sqlite":
            return DocumentBackend(SQLiteCheckpointer(tmp_path / "d.db", clock=clock))
        return DocumentBackend(MemoryCheckpointer(clock=clock))

    def run_scenario(scenario: Callable[[DocumentBackend, FrozenClock], Awaitable[None]]) -> None:
        async def within() -> None:
            async with opened() as backend:
                await scenario(backend, clock)

        asyncio.run(within())

    return run_scenario


def test_a_document_comes_back_as_it_was_and_the_last_one_is_the_current_one(run: Run) -> None:
    async def scenario(backend: DocumentBackend, _: FrozenClock) -> None:
        first = {"step": 1, "deep": {"list": [1, 2.5, None, "x\0y"], "when": datetime(2026, 1, 2)}}
        assert await backend.load("t") is None
        saved = await backend.save("t", first, metadata={"kind": "plan"})
        assert await backend.load("t") == first
        await backend.save("t", {"step": 2})
        assert await backend.load("t") == {"step": 2}
        assert await backend.load("t", saved) == first
        assert await backend.exists("t") is True
        assert await backend.delete("t") is True
        assert await backend.delete("t") is False
        assert await backend.exists("t") is False

    run(scenario)


def test_a_dumped_state_is_an_agents_thread_and_both_orders_of_arguments_work(run: Run) -> None:
    async def scenario(backend: DocumentBackend, _: FrozenClock) -> None:
        state = AgentState(agent_id="agent-123").with_message(Message.user("hello there"))
        await backend.save("dumped", state.model_dump())
        await backend.save(state, "stated")
        for thread_id in ("dumped", "stated"):
            assert await backend.load(thread_id) == state.model_dump()
            assert await backend.checkpointer.load(thread_id) == state
        assert {hit["thread_id"] for hit in await backend.search("hello")} == {"dumped", "stated"}

    run(scenario)


def test_documents_are_found_by_what_is_in_them(run: Run) -> None:
    async def scenario(backend: DocumentBackend, _: FrozenClock) -> None:
        await backend.save(
            "a", {"agent_id": "x", "tags": [{"name": "red"}, {"name": "blue"}]}, metadata={"n": 1}
        )
        await backend.save("b", {"agent_id": "y", "tags": []}, metadata={"n": 1})
        await backend.save("b", {"agent_id": "y", "tags": []}, metadata={"n": True})
        await backend.save("c/1", {"agent_id": 1}, metadata={"n": 2})

        async def ids(found: Awaitable[list[dict[str, Any]]]) -> list[str]:
            return [row["thread_id"] for row in await found]

        assert await ids(backend.search_data("agent_id", "x")) == ["a"]
        assert await ids(backend.search_data("agent_id", 1)) == ["c/1"]
        assert await ids(backend.search_data("agent_id", True)) == []
        assert await ids(backend.search_data("tags.name", "blue")) == ["a"]
        assert await ids(backend.search_data("tags.0.name", "blue")) == []
        assert (await backend.search_data("agent_id", "x"))[0]["data"]["tags"][1] == {"name": "blue"}
        assert await ids(backend.query_by_metadata("n", 1)) == [
            "a"
        ]  # b's document says something else by now
        assert await ids(backend.get_by_metadata("n", True)) == ["b"]
        assert await backend.get_metadata("c/1") == {"n": 2}
        assert await backend.count() == 3
        assert await backend.count("c/*") == 1
        assert list(await backend.list_threads("[ab]*")) == []
        assert list(await backend.list_threads()) == ["c/1", "b", "a"]

    run(scenario)


def test_vacuum_removes_old_versions_and_documents_that_nobody_saved_since(run: Run) -> None:
    async def scenario(backend: DocumentBackend, clock: FrozenClock) -> None:
        await backend.save("old", {"n": 1})
        await backend.save("used", {"n": 1})
        clock.advance(timedelta(days=40).total_seconds())
        await backend.save("used", {"n": 2})
        assert await backend.vacuum(older_than_days=30) == 2
        assert list(await backend.list_threads()) == ["used"]
        assert await backend.load("used") == {"n": 2}

    run(scenario)


def test_an_agent_takes_a_document_backend_as_its_checkpointer(run: Run) -> None:
    async def scenario(backend: DocumentBackend, _: FrozenClock) -> None:
        agent = Agent(model=ScriptedModel(["Good day."]), checkpointer=backend)
        await agent.run("Hello", thread_id="t")
        document = await backend.load("t")
        assert document is not None
        assert [message["content"] for message in document["messages"]][-2:] == ["Hello", "Good day."]

    run(scenario)


def test_what_is_not_a_document_is_refused(run: Run) -> None:
    async def scenario(backend: DocumentBackend, _: FrozenClock) -> None:
        for wrong in ("text", None, [1]):
            with pytest.raises(InvalidInput, match="data"):
                await backend.save("t", wrong)
        with pytest.raises(InvalidInput, match="thread_id"):
            await backend.save("", {})
        with pytest.raises(InvalidInput, match="path"):
            await backend.search_data("", 1)

    run(scenario)

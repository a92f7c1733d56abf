"""A third party's subclass that overrides only `save`, `load` and `list_checkpoints` works."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from holdfast.core.errors import Closed, InvalidInput, Unsupported
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.records import Page


class DictCheckpointer(BaseCheckpointer):
    """What somebody writes after reading ten lines of documentation: not even `super().__init__()`."""

    def __init__(self) -> None:
        self.saved: dict[str, dict[str, dict[str, Any]]] = {}

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent: str | UnsetType | None = UNSET,
    ) -> str:
        self._check("compare_and_set" if parent is not UNSET else None)
        checkpoints = self.saved.setdefault(thread_id, {})
        name = checkpoint_id or f"c{len(checkpoints) + 1}"
        checkpoints[name] = state.to_checkpoint()
        return name

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        self._check()
        checkpoints = self.saved.get(thread_id, {})
        name = checkpoint_id or next(reversed(checkpoints), None)
        return AgentState.from_checkpoint(checkpoints[name]) if name in checkpoints else None

    async def list_checkpoints(
        self, thread_id: str, limit: int = 10, *, after: str | None = None
    ) -> Page[str]:
        return Page(list(self.saved.get(thread_id, {}))[::-1][:limit])


def state_of(*texts: str) -> AgentState:
    return AgentState().with_messages([Message.user(text) for text in texts])


def test_it_saves_loads_lists_and_knows_what_exists() -> None:
    async def scenario() -> None:
        async with DictCheckpointer() as checkpointer:
            assert await checkpointer.exists("t") is False
            first, second = state_of("a"), state_of("a", "b")
            assert await checkpointer.save(first, "t") == "c1"
            assert await checkpointer.save(second, "t", "mine", {"n": 1}) == "mine"
            assert await checkpointer.load("t") == second
            assert await checkpointer.load("t", "c1") == first
            assert await checkpointer.load("missing") is None
            assert await checkpointer.list_checkpoints("t") == ["mine", "c1"]
            assert await checkpointer.exists("t") is True
            assert await checkpointer.exists("t", "c2") is False

    asyncio.run(scenario())


def test_what_it_did_not_override_says_so() -> None:
    calls: list[Callable[[BaseCheckpointer], Awaitable[object]]] = [
        lambda c: c.get("t"),
        lambda c: c.head("t"),
        lambda c: c.history("t"),
        lambda c: c.delete("t"),
        lambda c: c.stats(),
        lambda c: c.diff("t", "c1"),
        lambda c: c.search("word"),
        lambda c: c.vacuum(),
        lambda c: c.copy_thread("a", "b"),
        lambda c: c.put_writes("t", "c1", "task", []),
        lambda c: c.save(state_of("a"), "t", parent=None),
    ]

    async def scenario() -> None:
        checkpointer = DictCheckpointer()
        for call in calls:
            with pytest.raises(Unsupported, match="DictCheckpointer"):
                await call(checkpointer)

    asyncio.run(scenario())


def test_it_declares_nothing_unless_it_says_so() -> None:
    assert DictCheckpointer().capabilities == CheckpointerCapabilities()
    assert CheckpointerCapabilities.all_but("search", "ttl") == CheckpointerCapabilities(
        metadata_query=True,
        vacuum=True,
        branching=True,
        list_threads=True,
        list_with_metadata=True,
        persistent_checkpoint_ids=True,
        compare_and_set=True,
        pending_writes=True,
        scopes=True,
        shared_forks=True,
        retention=True,
        export=True,
    )
    with pytest.raises(InvalidInput, match="flying"):
        CheckpointerCapabilities.all_but("flying")


def test_it_can_be_closed_twice_and_is_closed_then() -> None:
    async def scenario() -> None:
        checkpointer = DictCheckpointer()
        await checkpointer.close()
        await checkpointer.close()
        with pytest.raises(Closed, match="DictCheckpointer"):
            await checkpointer.load("t")

    asyncio.run(scenario())

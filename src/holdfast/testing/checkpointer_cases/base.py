"""What the cases share: how they open a backend, and a few words to talk about threads."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

import pytest

from holdfast.core.clock import Clock
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import CheckpointInfo, Page
from holdfast.testing.running import Suite


class OpenCheckpointer(Protocol):
    """What the fixture gives: each call opens a new object on the same storage, empty for each test."""

    def __call__(
        self, *, clock: Clock | None = None, ttl_seconds: float | None = None
    ) -> BaseCheckpointer: ...


class CheckpointerCases(Suite):
    """Base of all cases."""

    shared_storage: ClassVar[bool] = True
    """Whether two objects that the fixture opens see the same threads. Not so for what is only in memory."""

    required: ClassVar[frozenset[str]] = frozenset()
    """Capabilities that this backend must declare: it can't get green by declaring less."""

    def share(self, open_checkpointer: OpenCheckpointer) -> OpenCheckpointer:
        """The same function, for tests that open a second object."""
        if not self.shared_storage:
            pytest.skip("each object has a storage of its own: there is nothing to share")
        return open_checkpointer


def requires(checkpointer: BaseCheckpointer, *capabilities: str) -> None:
    """Skip the test if the backend doesn't declare all of these."""
    for capability in capabilities:
        if not getattr(checkpointer.capabilities, capability):
            pytest.skip(f"{type(checkpointer).__name__} does not declare '{capability}'")


def chat(*texts: str) -> AgentState:
    """A state with these messages of the user."""
    return AgentState().with_messages([Message.user(text) for text in texts])


def say(state: AgentState, *texts: str) -> AgentState:
    """The state with these messages added."""
    return state.with_messages([Message.user(text) for text in texts])


def with_texts(state: AgentState, messages: Iterable[Message]) -> AgentState:
    """The state with other messages: an edited history."""
    return state.model_copy(update={"messages": tuple(messages)})


def texts(state: AgentState | None) -> list[str | None]:
    """What was said."""
    assert state is not None
    return [message.content for message in state.messages]


async def grow(
    checkpointer: BaseCheckpointer, thread_id: str, count: int, *, start: int = 1
) -> dict[str, AgentState]:
    """Save ``count`` checkpoints ``c<n>``, each with one message ``m<n>`` more, on top of the head, if any.

    Gives the states by id, oldest first.
    """
    state = await checkpointer.load(thread_id) or AgentState()
    states: dict[str, AgentState] = {}
    for number in range(start, start + count):
        state = say(state, f"m{number}")
        states[await checkpointer.save(state, thread_id, f"c{number}", {"n": number})] = state
    return states


async def check_thread(
    checkpointer: BaseCheckpointer, thread_id: str, expected: Mapping[str, AgentState]
) -> None:
    """Assert that the thread has exactly these checkpoints, in this order, each with exactly this state."""
    history = await all_history(checkpointer, thread_id)
    assert [info.checkpoint_id for info in history] == list(expected)[::-1]
    assert [info.sequence for info in history] == sorted({info.sequence for info in history}, reverse=True)
    for checkpoint_id, state in expected.items():
        assert await checkpointer.load(thread_id, checkpoint_id) == state, checkpoint_id
    newest = list(expected.values())[-1] if expected else None
    assert await checkpointer.load(thread_id) == newest
    head = await checkpointer.head(thread_id)
    assert repr(head) == repr(history[0] if history else None)  # printed: NaN does not equal itself
    assert await checkpointer.exists(thread_id) is bool(expected)


async def all_history(checkpointer: BaseCheckpointer, thread_id: str) -> list[CheckpointInfo]:
    """The whole history, newest first."""
    page = await checkpointer.history(thread_id, 10_000)
    assert page.next is None
    return list(page)


async def all_threads(checkpointer: BaseCheckpointer, pattern: str = "*") -> list[str]:
    """All threads, last saved first."""
    page = await checkpointer.list_threads(10_000, pattern)
    assert page.next is None
    return list(page)


async def hits(checkpointer: BaseCheckpointer, query: str, limit: int = 1000) -> set[tuple[str, str]]:
    """The ``(thread_id, checkpoint_id)`` that a search finds, each once."""
    found = await checkpointer.search(query, limit)
    pairs = [(hit["thread_id"], hit["checkpoint_id"]) for hit in found]
    for hit in found:
        assert set(hit) == {"thread_id", "checkpoint_id", "score", "snippet"}
    return set(pairs)


async def export(checkpointer: BaseCheckpointer, pattern: str = "*") -> list[str]:
    """All lines of an export."""
    return [line async for line in checkpointer.export_threads(pattern)]


def ids_of(page: Page[dict[str, Any]]) -> list[tuple[str, str]]:
    """The ``(thread_id, checkpoint_id)`` of a listing with metadata."""
    return [(item["thread_id"], item["checkpoint_id"]) for item in page]

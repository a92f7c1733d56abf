"""Who a tool works for: the run that called it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.core.frozen import EMPTY

__all__ = ["RunContext", "current_context", "get_run_context", "run_context"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a tool was called by. ``metadata`` is what the caller gave to ``run``.

    ``run_id`` and ``tool_call_id`` stay the same when a turn is resumed and the call is run again. ``checkpoint_id`` is
    where the thread stood when this try of it began.
    """

    user_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    agent_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    tool_call_id: str | None = None
    checkpoint_id: str | None = None

    @property
    def idempotency_key(self) -> str:
        """The same for every try of this very call: for services that take such a key."""
        return f"{self.run_id}:{self.tool_call_id}"

    @property
    def session_id(self) -> str | None:
        """The same as ``thread_id``."""
        return self.thread_id


current_context: ContextVar[RunContext | None] = ContextVar("holdfast_run_context", default=None)


def get_run_context() -> RunContext:
    """The run that is calling this tool. A run that is started inside it works for the same user, with the same
    metadata, unless told otherwise."""
    context = current_context.get()
    if context is None:
        raise InvalidInput(
            "get_run_context() works while an agent runs a tool; to call the tool from a test,"
            " do so inside `with holdfast.agent.run_context(user_id=...)`"
        )
    return context


@contextmanager
def run_context(
    *,
    user_id: str | None = None,
    thread_id: str | None = None,
    run_id: str | None = None,
    agent_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tool_call_id: str | None = None,
) -> Iterator[RunContext]:
    """What `get_run_context` gives inside the block: for tests of a tool by itself."""
    context = RunContext(
        user_id, thread_id, run_id, agent_id, EMPTY if metadata is None else metadata, tool_call_id
    )
    token = current_context.set(context)
    try:
        yield context
    finally:
        current_context.reset(token)

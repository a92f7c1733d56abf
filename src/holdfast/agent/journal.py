"""One thread as one run sees it: every save is a compare-and-set on the head that this run knows.

So a run that was overtaken finds out before its next tool starts: that is the fence, there are no leases.
"""

from asyncio import Lock
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.agent.events import CheckpointEvent, Event, ForkEvent
from holdfast.agent.progress import debts, fold, owing, read_result, stored_result, unanswered
from holdfast.core.errors import Conflict, HoldfastError, InvalidInput
from holdfast.core.ids import new_id
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.state import AgentState

if TYPE_CHECKING:
    from holdfast.agent.telemetry import AnySpan, AnyTelemetry
    from holdfast.agent.threads import ThreadCache
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.records import Checkpoint, PendingWrite

__all__ = ["Journal", "is_settled", "settle_at", "with_results"]

RESULT_CHANNEL = "tool_result"
RELEASED_CHANNEL = "not_started"
SETTLED_CHANNEL = "memory_settled"
_MEMORY_TASK = "holdfast.memory"
MAX_ID = 255


class Journal:
    """Reads and writes one thread. Without a checkpointer it keeps nothing, and all else is the same.

    ``events`` collects what happened here, for the run to hand out.
    """

    def __init__(
        self,
        checkpointer: "BaseCheckpointer | None",
        thread_id: str,
        *,
        cache: "ThreadCache",
        telemetry: "AnyTelemetry",
        metadata: Mapping[str, Any],
        fork_on_conflict: bool = False,
    ) -> None:
        self._checkpointer = checkpointer
        self._cache = cache
        self._telemetry = telemetry
        self._metadata = metadata
        self._fork_on_conflict = fork_on_conflict
        capabilities = None if checkpointer is None else checkpointer.capabilities
        self._fenced = capabilities is not None and capabilities.compare_and_set
        self._has_writes = capabilities is not None and capabilities.pending_writes
        self._branches = capabilities is not None and capabilities.branching
        self._written: list[tuple[str, str]] = []
        self._parent_span: AnySpan | None = None
        self._one_at_a_time = Lock()
        self.thread_id = thread_id
        self.head: str | None = None
        self._settled: str | None = None
        self.events: list[Event] = []

    def within(self, span: "AnySpan") -> None:
        """From now on checkpoints are shown as part of that span."""
        self._parent_span = span

    def drain(self) -> list[Event]:
        """What happened since the last time."""
        events, self.events = self.events, []
        return events

    async def read(self) -> AgentState | None:
        """The thread's state now, or ``None`` if it doesn't exist."""
        checkpointer = self._checkpointer
        if checkpointer is None:
            return None
        if not self._fenced:  # it may be no more than save, load and list_checkpoints
            return await checkpointer.load(self.thread_id)
        known = self._cache.get(checkpointer.scope, self.thread_id)
        if known is not None:
            info = await checkpointer.head(self.thread_id)
            if info is not None and info.checkpoint_id == known[0]:
                self.head = known[0]
                self._settled = known[0] if known[2] else None
                return known[1]
        checkpoint = await checkpointer.get(self.thread_id)
        self.head = None if checkpoint is None else checkpoint.info.checkpoint_id
        return None if checkpoint is None else checkpoint.state

    async def last_of(self, run_id: str, since: str) -> "Checkpoint | None":
        """The newest checkpoint of that run, if the thread still has one. ``since`` is one of them."""
        assert self._checkpointer is not None
        after: str | None = None
        while True:
            page = await self._checkpointer.history(self.thread_id, 50, after=after)
            for info in page:
                if info.checkpoint_id == since or info.metadata.get("run_id") == run_id:
                    return await self._checkpointer.get(self.thread_id, info.checkpoint_id)
            after = page.next
            if after is None:
                return None

    async def results(self, calls: Sequence[ToolCall]) -> tuple[dict[str, ToolResult], set[str]]:
        """The results of these calls that were stored, but not yet made part of the conversation; and the ids of
        those that are known not to have started."""
        if not self._has_writes or self.head is None:
            return {}, set()
        assert self._checkpointer is not None
        writes = await self._checkpointer.get_writes(self.thread_id, self.head)
        released = {write.task_id for write in writes if write.channel == RELEASED_CHANNEL}
        return _results(calls, writes), released

    async def release(self, calls: Sequence[ToolCall]) -> None:
        """Say of these calls, whose intent is stored, that they have not started and won't in this run."""
        if not self._has_writes or self.head is None:
            return
        assert self._checkpointer is not None
        for call in calls:
            self._written.append((self.head, call.id))
            with suppress(HoldfastError):  # then their outcome counts as unknown, which is safe
                await self._checkpointer.put_writes(
                    self.thread_id, self.head, call.id, [(RELEASED_CHANNEL, True)]
                )

    @property
    def keeps_notes(self) -> bool:
        """Whether it can be noted beside the head that the memory has heard of all up to there."""
        return self._fenced and self._has_writes

    async def settled(self) -> bool:
        """Whether that is noted."""
        if self.head is None or not self.keeps_notes:
            return False
        if self._settled != self.head:
            assert self._checkpointer is not None
            writes = await self._checkpointer.get_writes(self.thread_id, self.head)
            self._settled = self.head if is_settled(writes) else None
        return self._settled == self.head

    async def settle(self) -> bool:
        """Note it. The next save takes the note away. ``False`` if the thread was moved on meanwhile."""
        head, checkpointer = self.head, self._checkpointer
        if head is None or checkpointer is None or not self.keeps_notes:
            return True
        settled = await settle_at(checkpointer, self.thread_id, head)
        self._settled = head
        self._cache.settle(checkpointer.scope, self.thread_id, head)
        return settled

    async def save(self, state: AgentState, step: str) -> None:
        """Store the state. `Conflict` if the thread was moved on by somebody else, unless that forks it."""
        if self._checkpointer is None:
            return
        with self._telemetry.checkpoint(step, self._parent_span):
            try:
                checkpoint_id = await self._append(state, step)
            except Conflict:
                await self._withdraw()
                if not self._fork_on_conflict:
                    raise
                await self._fork_away()
                checkpoint_id = await self._append(state, step)
        self.head = checkpoint_id
        self._written.clear()
        if self._fenced:
            self._cache.put(self._checkpointer.scope, self.thread_id, checkpoint_id, state)
        self.events.append(CheckpointEvent(checkpoint_id, step))

    async def record(self, folded: Callable[[], AgentState], call: ToolCall, result: ToolResult) -> None:
        """Store the result of one call. ``folded`` gives the state with all results so far, this one included."""
        if self._has_writes and self.head is not None:
            assert self._checkpointer is not None
            self._written.append((self.head, call.id))
            try:
                await self._checkpointer.put_writes(
                    self.thread_id, self.head, call.id, [(RESULT_CHANNEL, stored_result(result))]
                )
            except Conflict:  # the checkpoint is gone
                if not self._fork_on_conflict:  # else the next save takes the result along
                    raise
        else:
            async with self._one_at_a_time:
                await self.save(folded(), "tools")

    @property
    def saves_each_result(self) -> bool:
        """Whether `record` makes a checkpoint: without pending writes, each result is a save of its own."""
        return self._checkpointer is not None and not self._has_writes

    async def _append(self, state: AgentState, step: str) -> str:
        assert self._checkpointer is not None
        metadata = {**self._metadata, "step": step, "run_id": state.run_id}
        if not self._fenced:
            return await self._checkpointer.save(state, self.thread_id, metadata=metadata)
        return await self._checkpointer.save(state, self.thread_id, metadata=metadata, parent=self.head)

    async def abandon(self) -> None:
        """The run ends here, without a save: if somebody else has moved the thread on, take back what it wrote."""
        if not self._written or self._checkpointer is None:
            return
        with suppress(HoldfastError):  # what ended the run is what the caller must hear of
            info = await self._checkpointer.head(self.thread_id)
            if info is None or info.checkpoint_id != self.head:
                await self._withdraw()

    async def _withdraw(self) -> None:
        """Take back results that were written beside a head which is none any more: nobody will fold them."""
        assert self._checkpointer is not None
        written, self._written = self._written, []
        for checkpoint_id, task_id in written:
            with suppress(HoldfastError):  # the conflict is what the caller must hear of
                await self._checkpointer.put_writes(self.thread_id, checkpoint_id, task_id, [])

    async def _fork_away(self) -> None:
        """Go on in a new thread, from the last checkpoint that this run knows."""
        assert self._checkpointer is not None
        source, suffix = self.thread_id, f"~{new_id()}"
        self.thread_id = source[: MAX_ID - len(suffix)] + suffix
        if self.head is not None and self._branches:
            try:
                await self._checkpointer.fork(source, self.head, self.thread_id)
            except InvalidInput:  # it was deleted: the whole state begins the new thread
                self.head = None
        else:
            self.head = None
        self.events.append(ForkEvent(self.thread_id, source))


async def with_results(checkpointer: "BaseCheckpointer", checkpoint: "Checkpoint") -> AgentState:
    """The state of a checkpoint with what was stored beside it, results and that the memory has heard of all: what is
    made of the state is saved at another place, where nobody would find them."""
    state, info = checkpoint.state, checkpoint.info
    calls = unanswered(state)
    if not checkpointer.capabilities.pending_writes or not (calls or debts(state, None)):
        return state
    writes = await checkpointer.get_writes(info.thread_id, info.checkpoint_id)
    if is_settled(writes):
        state = owing(state, ())
    results = _results(calls, writes)
    return fold(state, [(call, results[call.id]) for call in calls if call.id in results])


async def settle_at(checkpointer: "BaseCheckpointer", thread_id: str, head: str) -> bool:
    """Note beside the head that the memory has heard of all up to there; ``False`` if it is the head no more."""
    with suppress(Conflict):  # the checkpoint was deleted meanwhile
        await checkpointer.put_writes(thread_id, head, _MEMORY_TASK, [(SETTLED_CHANNEL, True)])
        info = await checkpointer.head(thread_id)
        if info is not None and info.checkpoint_id == head:
            return True
        await checkpointer.put_writes(thread_id, head, _MEMORY_TASK, [])  # nobody would take it away
    return False


def is_settled(writes: Sequence["PendingWrite"]) -> bool:
    """Whether it is noted among these that the memory has heard of all up to there."""
    return any(write.channel == SETTLED_CHANNEL for write in writes)


def _results(calls: Sequence[ToolCall], writes: Sequence["PendingWrite"]) -> dict[str, ToolResult]:
    stored = {write.task_id: write.value for write in writes if write.channel == RESULT_CHANNEL}
    return {call.id: read_result(call, stored[call.id]) for call in calls if call.id in stored}

"""Threads that go back and branch off, and memories that go with them if they are to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.agent.journal import settle_at, with_results
from holdfast.agent.progress import FOLLOW, debts, owing
from holdfast.core.errors import InvalidInput
from holdfast.memory.branches import REWIND

if TYPE_CHECKING:
    from holdfast.agent.memories import Memories
    from holdfast.core.state import AgentState
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.records import Checkpoint, CheckpointInfo

__all__ = ["TimeTravel"]


class TimeTravel:
    """The threads of one user."""

    def __init__(self, threads: "BaseCheckpointer", memories: "Memories", user_id: str | None) -> None:
        self._threads = threads
        self._memories = memories
        self._user = user_id

    async def rewind(self, thread_id: str, checkpoint_id: str) -> str:
        """Put the thread back to a checkpoint; returns the new head."""
        target = await self._threads.get(thread_id, checkpoint_id)
        head = await self._threads.get(thread_id)
        if target is None or head is None:
            raise InvalidInput(f"thread {thread_id!r} has no checkpoint {checkpoint_id!r} to go back to")
        parent = head.info.checkpoint_id
        owed = debts(await with_results(self._threads, head), parent)
        state = await with_results(self._threads, target)
        end = len(state.messages)
        follows = self._memories.follows
        if not follows:  # what was said is learned, also if the thread no longer has it
            lost = [debt for debt in owed if debt.end > end]
            await self._memories.learn(lost, head.state, thread_id, self._user)
        state = owing(state, [debt for debt in owed if debt.end <= end])
        notes = {"step": "rewind", "to": checkpoint_id, REWIND: target.info.sequence}
        state = state.with_metadata({FOLLOW: True}) if follows else state
        saved = await self._threads.save(state, thread_id, metadata=notes, parent=parent)
        await self.follow(state, thread_id, saved)
        return saved

    async def back_to(self, head: "Checkpoint", state: "AgentState") -> dict[str, Any]:
        """What to note of an update that takes messages away again, if it makes the thread what it was before."""
        wanted, now = state.messages, head.state.messages
        if not self._memories.follows or len(wanted) >= len(now) or now[: len(wanted)] != wanted:
            return {}
        target = await self._where(head.info.thread_id, wanted)
        return {} if target is None else {"to": target.checkpoint_id, REWIND: target.sequence}

    async def _where(self, thread_id: str, messages: Sequence[Any]) -> "CheckpointInfo | None":
        """The newest checkpoint with just these messages."""
        after: str | None = None
        while True:
            page = await self._threads.history(thread_id, 20, after=after)
            for info in page:
                state = await self._threads.load(thread_id, info.checkpoint_id)
                if state is not None and state.messages == messages:
                    return info
            after = page.next
            if after is None:
                return None

    async def follow(self, state: "AgentState", thread_id: str, head: str) -> None:
        """Let the memories follow to where the thread was put. If that is cut short, the next run goes on with it."""
        if FOLLOW not in state.metadata or not await self._memories.follow(thread_id, self._user):
            return
        if not debts(state, None):
            await settle_at(self._threads, thread_id, head)

    async def fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> None:
        """Branch off."""
        following = self._memories.following(self._user)
        if following is None:
            await self._threads.fork(thread_id, checkpoint_id, new_thread_id)
        else:
            await following.fork(thread_id, checkpoint_id, new_thread_id)

"""Writers on a server that fails them, and what must be there in the end."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Conflict, Unavailable
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.sync import SyncCheckpointer


def said(*words: str) -> AgentState:
    return AgentState().with_messages([Message.user(word) for word in words])


class Writers:
    """Each saves states to a thread of its own, each with one message more. ``padding``: what a message also has."""

    def __init__(self, saves: int, *, count: int = 8, padding: Callable[[], str] = str) -> None:
        self._saves = saves
        self._padding = padding
        self.acknowledged: dict[str, list[str]] = {f"t{number}": [] for number in range(count)}
        self.told: list[Unavailable] = []
        """The errors that writers got, in their order. Any other error ends the writer."""

    @property
    def done(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not reached():
                await asyncio.sleep(0.01)

    async def save(self, checkpointer: BaseCheckpointer, name: str) -> None:
        """Do all saves of one; after an outage, look what became of the last one."""
        done = 0
        parent: str | None = None
        while done < self._saves:
            state = said(*(f"{name} {number} {self._padding()}" for number in range(done + 1)))
            try:
                parent = await checkpointer.save(state, name, parent=parent)
            except (Unavailable, Conflict) as error:
                if isinstance(error, Unavailable):
                    self.told.append(error)
                head = await self._head(checkpointer, name, done)
                if head is not None:
                    parent, done = head.info.checkpoint_id, len(head.state.messages)
                continue
            done += 1
            self.acknowledged[name].append(parent)

    async def _head(self, checkpointer: BaseCheckpointer, name: str, done: int) -> Any:
        while True:
            try:
                head = await checkpointer.get(name)
            except Unavailable as error:
                self.told.append(error)
                await asyncio.sleep(0.01)
                continue
            assert head is not None or not done, "what was acknowledged is gone"
            return head

    def check(self, checkpointer: SyncCheckpointer) -> None:
        """All that was acknowledged is there, in order, and each save once."""
        for name, ids in self.acknowledged.items():
            stored = [info.checkpoint_id for info in checkpointer.history(name, limit=1000)][::-1]
            assert set(ids) <= set(stored), "what was acknowledged is there"
            assert [checkpoint_id for checkpoint_id in stored if checkpoint_id in ids] == ids
            lengths = []
            for checkpoint_id in stored:
                state = checkpointer.load(name, checkpoint_id)
                assert state is not None
                lengths.append(len(state.messages))
            assert lengths == list(range(1, self._saves + 1)), "each was saved just once"

"""Which threads are branches of one another, and what each of them does not see: for memories that follow a thread.

A branch has an item of its own: the episodes that it inherited, each with the checkpoint that it was learned at, and
those that it turned away from although another branch still has them.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Conflict
from holdfast.memory.buckets import bucket_of
from holdfast.memory.store import BaseStore

if TYPE_CHECKING:
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.records import CheckpointInfo

__all__ = ["Branch", "Branches", "Lineage", "View", "lineage"]

REWIND = "rewind"
"""The key in a checkpoint's metadata that says to which sequence number the thread went back there."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The checkpoints that lead to where a thread stands, and those that it turned away from: sequences by id."""

    kept: Mapping[str, int]
    left: Mapping[str, int]


async def lineage(threads: "BaseCheckpointer", thread_id: str, at: str | None = None) -> Lineage:
    """That of the thread's head, or of one of its checkpoints."""
    kept: dict[str, int] = {}
    left: dict[str, int] = {}
    limit: int | None = None
    async for info in _history(threads, thread_id):
        if not kept and at is not None and info.checkpoint_id != at:
            continue  # newer than that
        if limit is not None and info.sequence > limit:
            left[info.checkpoint_id] = info.sequence
            continue
        kept[info.checkpoint_id] = info.sequence
        to = info.metadata.get(REWIND)
        limit = to if isinstance(to, int) else limit
    return Lineage(kept, left)


async def _history(threads: "BaseCheckpointer", thread_id: str) -> "AsyncIterator[CheckpointInfo]":
    after: str | None = None
    while True:
        page = await threads.history(thread_id, 200, after=after)
        for info in page:
            yield info
        after = page.next
        if after is None:
            return


@dataclass(frozen=True, slots=True)
class Branch:
    """What is noted of a thread. ``family`` is the thread that all its relatives descend from, ``sequence`` that of the
    last checkpoint that it inherited."""

    family: str
    sequence: int = 0
    inherits: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    def value(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "sequence": self.sequence,
            "inherits": dict(self.inherits),
            "hidden": sorted(self.hidden),
        }


@dataclass(frozen=True, slots=True)
class View:
    """The memories that a thread sees: all of the user's, but of its relatives only what it inherited."""

    thread_id: str
    relatives: frozenset[str] = frozenset()
    inherits: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether there is nothing that it does not see."""
        return not self.relatives and not self.hidden

    def shows(self, session_id: str, episode_id: str) -> bool:
        if episode_id in self.hidden:
            return False
        return session_id not in self.relatives or episode_id in self.inherits

    def has(self, session_id: str) -> bool:
        """Whether what was said there is part of this thread, or of one that it must not see."""
        return session_id == self.thread_id or session_id in self.relatives


class Branches:
    """The branches of all users, each in a bucket of their own."""

    def __init__(self, store: BaseStore, space: str) -> None:
        self._store = store
        self._space = space

    def at(self, user_id: str | None) -> tuple[str, ...]:
        return (*bucket_of(self._space, user_id), "branches")

    async def all(self, user_id: str | None) -> dict[str, Branch]:
        """Every branch by its thread."""
        return {item.key: _branch(item.value) async for item in self._store.iterate(self.at(user_id))}

    async def view(self, thread_id: str, user_id: str | None) -> View:
        """What a thread sees."""
        branches = await self.all(user_id)
        mine = branches.get(thread_id, Branch(thread_id))
        relatives = {name for name, branch in branches.items() if branch.family == mine.family}
        relatives |= {mine.family}
        if relatives == {thread_id}:
            return View(thread_id, hidden=mine.hidden)
        return View(thread_id, frozenset(relatives - {thread_id}), frozenset(mine.inherits), mine.hidden)

    async def add(self, thread_id: str, branch: Branch, user_id: str | None) -> bool:
        """Note a new one; ``False`` if there is a note of it."""
        try:
            await self._store.put(self.at(user_id), thread_id, branch.value(), expected_version=0)
        except Conflict:
            return False
        return True

    async def hide(self, thread_id: str, hidden: Iterable[str], user_id: str | None) -> None:
        """Say what a thread turned away from, in place of what was said before."""
        away = frozenset(hidden)
        item = await self._store.get_item(self.at(user_id), thread_id)
        before = Branch(thread_id) if item is None else _branch(item.value)
        if before.hidden != away:
            after = Branch(before.family, before.sequence, before.inherits, away)
            await self._store.put(self.at(user_id), thread_id, after.value())

    async def remove(self, thread_id: str, user_id: str | None) -> None:
        await self._store.delete(self.at(user_id), thread_id)


def _branch(value: Mapping[str, Any]) -> Branch:
    return Branch(
        value["family"], int(value["sequence"]), dict(value["inherits"]), frozenset(value["hidden"])
    )

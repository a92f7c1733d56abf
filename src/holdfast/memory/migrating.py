"""Everything from one database into another, between any two backends, on the two contracts alone.

First what is not there is copied, in the order in which it was written, so that what was killed goes on where it
stopped. Then both sides are read again and compared by digests: of each thread, and of each namespace of the store.
What is there already and equal is left alone; what is there and differs is a conflict, and replaced only if that was
asked for. One thread, or one portion of items, is in memory at a time.
"""

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from holdfast.core import codec
from holdfast.core.errors import Conflict
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.requests import DumpRecord, ThreadDump

__all__ = ["Difference", "Progress", "Tally", "ThreadMigration", "digest_of"]

_PAGE: Final = 1000
_SHOWN: Final = 100
"""That many differences are kept to be shown; all are counted."""

Progress = Callable[[int, int], None]
"""Is told how many are done, and how many there are."""


def _nobody(done: int, total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Difference:
    """What is not in the destination as it is in the source."""

    kind: Literal["thread", "item", "vectors"]
    place: tuple[str | None, ...]
    """A scope and a thread, or the parts of a namespace and a key."""
    why: Literal["differs", "missing"]


@dataclass(slots=True)
class Tally:
    """Of one kind of things: how many there are, and what became of them."""

    found: int = 0
    copied: int = 0
    replaced: int = 0
    skipped: int = 0
    conflicts: int = 0
    verified: int = 0


@dataclass(slots=True)
class Differences:
    """All are counted, the first ones kept."""

    count: int = 0
    shown: list[Difference] = field(default_factory=list)

    def add(self, difference: Difference) -> None:
        self.count += 1
        if len(self.shown) < _SHOWN:
            self.shown.append(difference)


class ThreadMigration:
    """All threads of all scopes, with their checkpoints, ids, metadata and pending writes.

    A fork becomes a thread of its own, with all that it shows. When a thread expires is a matter of the checkpointer
    that saves it, and not copied.
    """

    def __init__(
        self,
        source: BaseCheckpointer,
        destination: BaseCheckpointer,
        *,
        overwrite: bool = False,
        dry_run: bool = False,
    ) -> None:
        for side in (source, destination):
            side._check("export")
            side._check("list_threads")
        self._source, self._destination = source, destination
        self._overwrite, self._dry_run = overwrite, dry_run
        self.threads, self.checkpoints = Tally(), Tally()
        self.conflicts, self.differences = Differences(), Differences()

    async def copy(self, progress: Progress = _nobody) -> None:
        """Bring what is not there. In the destination, too, the threads are then in the order of their last save."""
        total = 0 if progress is _nobody else await self._total()
        progress(0, total)
        async for source, destination in self._scopes():
            for thread_id in reversed(await _thread_ids(source)):
                dump = await source._dump(thread_id)
                if dump is None:  # deleted since it was listed
                    continue
                self._count("found", dump)
                self._count(await self._copy_one(destination, dump), dump)
                progress(self.threads.found, max(total, self.threads.found))

    async def verify(self, progress: Progress = _nobody) -> None:
        """Read both sides and compare them, thread by thread."""
        total, done = 0 if progress is _nobody else await self._total(), 0
        progress(0, total)
        async for source, destination in self._scopes():
            for thread_id in await _thread_ids(source):
                dump = await source._dump(thread_id)
                if dump is None:
                    continue
                copy = await destination._dump(thread_id)
                if copy is not None and digest_of(copy) == digest_of(dump):
                    self._count("verified", dump)
                else:
                    why: Literal["missing", "differs"] = "missing" if copy is None else "differs"
                    self.differences.add(Difference("thread", (source.scope, thread_id), why))
                done += 1
                progress(done, max(total, done))

    async def _copy_one(self, destination: BaseCheckpointer, dump: ThreadDump) -> str:
        """Which count it belongs to."""
        there = await destination._dump(dump.thread_id)
        if there is None:
            try:
                if not self._dry_run:
                    await destination._restore(dump)
                return "copied"
            except Conflict:  # somebody else was first, with the same or something else
                there = await destination._dump(dump.thread_id)
        if there is not None and digest_of(there) == digest_of(dump):
            return "skipped"
        if not self._overwrite:
            self.conflicts.add(Difference("thread", (destination.scope, dump.thread_id), "differs"))
            return "conflicts"
        if not self._dry_run:
            # Killed in between, the next run finds it missing and copies it.
            await destination.delete(dump.thread_id)
            await destination._restore(dump)
        return "replaced"

    def _count(self, name: str, dump: ThreadDump) -> None:
        setattr(self.threads, name, getattr(self.threads, name) + 1)
        setattr(self.checkpoints, name, getattr(self.checkpoints, name) + len(dump.records))

    async def _scopes(self) -> AsyncIterator[tuple[BaseCheckpointer, BaseCheckpointer]]:
        """Both sides, scope by scope."""
        if not self._source.capabilities.scopes:
            yield self._source, self._destination
            return
        for scope in await self._source.admin().scopes():
            if scope is not None:
                self._destination._check("scopes")
            yield self._source._view(scope), self._destination._view(scope)

    async def _total(self) -> int:
        if not self._source.capabilities.scopes:
            return (await self._source.stats()).threads
        return sum([each.threads for each in (await self._source.admin().stats()).values()])


async def _thread_ids(checkpointer: BaseCheckpointer) -> list[str]:
    """Of a scope, last saved first: only the ids are held."""
    found: dict[str, None] = {}
    after = None
    while True:
        page = await checkpointer.list_threads(_PAGE, after=after)
        for thread_id in page:  # one that was saved while pages were read comes again
            found.setdefault(thread_id)
        after = page.next
        if after is None:
            return list(found)


# ── digests ───────────────────────────────────────────────────────────────────────────────────────────


def digest_of(dump: ThreadDump) -> str:
    """SHA-256 over all that a thread holds, whatever way a backend says what changed from checkpoint to checkpoint."""
    whole = hashlib.sha256()
    _feed(whole, dump.thread_id, dump.created_us)
    lists: dict[str, list[bytes]] = {}
    for record in dump.records:
        lists = _grown(lists, record)
        _feed(
            whole,
            record.checkpoint_id,
            record.parent_id,
            record.created_us,
            codec.dumps(dict(record.metadata)),
            record.head,
            *(part for name in sorted(lists) for part in (name, len(lists[name]), lists[name][-1].hex())),
        )
        for write in sorted(record.writes, key=lambda write: write[:2]):
            _feed(whole, *write[:3], codec.dumps(write[3]))
    return whole.hexdigest()


def _grown(before: dict[str, list[bytes]], record: DumpRecord) -> dict[str, list[bytes]]:
    """For each list that is not empty, a digest of its beginning up to each element: each is worked on once."""
    after: dict[str, list[bytes]] = {}
    for name, delta in record.lists.items():
        chain = before.get(name, [])
        del chain[delta.keep :]
        for element in delta.add:
            text = element.encode("utf-8", "surrogatepass")
            chain.append(hashlib.sha256((chain[-1] if chain else b"") + text).digest())
        if chain:
            after[name] = chain
    return after


def _feed(digest: Any, *parts: str | int | None) -> None:
    """Each with its kind and length, so that no two sequences of parts are alike."""
    for part in parts:
        data = b"" if part is None else str(part).encode("utf-8", "surrogatepass")
        digest.update(f"{type(part).__name__} {len(data)} ".encode() + data)

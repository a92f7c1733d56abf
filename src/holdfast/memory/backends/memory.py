"""The contract in plain Python: the reference that every other backend is compared with. Nothing is on disk.

Stored values are kept as the codec's text, so that what is given and what is handed out are copies. No
operation awaits anything: on one event loop each is atomic.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core import codec
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Conflict
from holdfast.core.ids import new_id
from holdfast.core.state import LOGGED_FIELDS, decode_state, encode_head
from holdfast.core.unset import UNSET
from holdfast.memory import validate
from holdfast.memory.backends.memory_threads import (
    Lists,
    Row,
    Storage,
    Thread,
    Words,
    delta,
    encode_lists,
    expired,
    fits,
    info_of,
    read_by_forks,
    removable,
    words_of,
    writes_at,
)
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.glob import compile_glob
from holdfast.memory.paging import RecencyCursor
from holdfast.memory.ranking import bm25
from holdfast.memory.records import Checkpoint, CheckpointerStats, CheckpointInfo, Page, PendingWrite
from holdfast.memory.requests import DumpRecord, ListDelta, PruneRequest, SaveRequest, ThreadDump
from holdfast.memory.text import query_terms, snippet

_CAPABILITIES = CheckpointerCapabilities.all_but()
_EMPTIED = ListDelta(0, ())


class MemoryCheckpointer(BaseCheckpointer):
    """Threads in this process's memory: for tests, examples and whatever may be forgotten."""

    def __init__(self, *, ttl_seconds: float | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(clock=clock, ttl_seconds=ttl_seconds)
        self._storage = Storage()

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return _CAPABILITIES

    # ── beyond the contract ───────────────────────────────────────────────────────────────────────

    def clear(self) -> None:
        """Forget every thread of this scope."""
        self._check()
        self._storage.scopes.pop(self._scope, None)

    def get_thread_ids(self) -> list[str]:
        """The ids of all threads, last saved first."""
        self._check()
        return [thread_id for thread_id, _ in self._live()]

    def get_checkpoint_count(self, thread_id: str | None = None) -> int:
        """How many checkpoints that thread has, or all together."""
        self._check()
        if thread_id is None:
            return sum(len(thread.rows) for _, thread in self._live())
        thread = self._find(validate.identifier(thread_id, "thread_id"))
        return 0 if thread is None else len(thread.rows)

    # ── saving, loading, deleting ─────────────────────────────────────────────────────────────────

    async def _save(self, request: SaveRequest) -> str:
        thread = self._find(request.thread_id)
        checkpoint_id = request.checkpoint_id or new_id()
        head_id = None if thread is None else thread.head.checkpoint_id
        metadata, head = codec.dumps(request.metadata), encode_head(request.state)
        lists = encode_lists(request.state, None if thread is None else thread.last_saved)
        known = None if thread is None else thread.rows.get(checkpoint_id)
        if known is not None:
            same_parent = request.parent is UNSET or request.parent == known.parent_id
            if same_parent and (known.metadata, known.head, known.lists) == (metadata, head, lists):
                return known.checkpoint_id  # the answer to the first try was lost
            raise Conflict(
                f"thread {request.thread_id!r} already has another checkpoint {checkpoint_id!r}",
                expected=None,
                actual=known.checkpoint_id,
            )
        if request.parent is not UNSET and request.parent != head_id:
            raise Conflict(
                f"the head of thread {request.thread_id!r} is {head_id!r}, expected {request.parent!r}",
                expected=request.parent,
                actual=head_id,
            )
        if thread is None:
            thread = self._begin(request.thread_id, request.now_us)
        elif request.parent is not UNSET:
            thread.drop_writes(thread.head.checkpoint_id)
        thread.rows[checkpoint_id] = Row(
            checkpoint_id, head_id, thread.next_sequence, request.now_us, metadata, head, lists
        )
        thread.next_sequence += 1
        thread.last_saved = (request.state, lists)
        self._touch(thread, request.now_us)
        return checkpoint_id

    async def _read(self, thread_id: str, checkpoint_id: str | None) -> Checkpoint | None:
        row = self._row(thread_id, checkpoint_id)
        if row is None:
            return None
        state = decode_state(row.head, row.lists, lazily_at=f"checkpoint {row.checkpoint_id!r}")
        return Checkpoint(state, info_of(thread_id, row))

    async def _info(self, thread_id: str, checkpoint_id: str | None) -> CheckpointInfo | None:
        row = self._row(thread_id, checkpoint_id)
        return None if row is None else info_of(thread_id, row)

    async def _history(self, thread_id: str, limit: int, before: int | None) -> list[CheckpointInfo]:
        thread = self._find(thread_id)
        rows = [] if thread is None else reversed(thread.rows.values())
        found = [row for row in rows if before is None or row.sequence < before]
        return [info_of(thread_id, row) for row in found[:limit]]

    async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
        thread = self._find(thread_id)
        if thread is None:
            return False
        if checkpoint_id is None:
            self._remove(thread_id)
            return True
        if checkpoint_id not in thread.rows:
            return False
        thread.drop(checkpoint_id)
        if not thread.rows:
            self._remove(thread_id)
        return True

    # ── pending writes ────────────────────────────────────────────────────────────────────────────

    async def _put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        thread = self._find(thread_id)
        if thread is None or checkpoint_id not in thread.rows:
            raise Conflict(
                f"thread {thread_id!r} has no checkpoint {checkpoint_id!r} (any more)",
                expected=checkpoint_id,
                actual=None if thread is None else thread.head.checkpoint_id,
            )
        thread.writes.pop((checkpoint_id, task_id), None)
        if writes:
            thread.writes[checkpoint_id, task_id] = [
                (channel, codec.dumps(value)) for channel, value in writes
            ]

    async def _get_writes(
        self, thread_id: str, checkpoint_id: str | None, task_id: str | None
    ) -> list[PendingWrite]:
        thread = self._find(thread_id)
        row = None if thread is None else thread.find(checkpoint_id)
        if thread is None or row is None:
            return []
        found = writes_at(thread, row.checkpoint_id)
        return [PendingWrite(*write) for write in found if task_id is None or write[0] == task_id]

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        newest, matches = self._storage.saves, compile_glob(pattern).fullmatch
        cursor = RecencyCursor.open(after, "threads", newest)
        found = [(thread_id, thread) for thread_id, thread in self._from(cursor) if matches(thread_id)]
        page, more = found[:limit], len(found) > limit
        return Page(
            [thread_id for thread_id, _ in page],
            cursor.behind(page[-1][1].number, newest).encode("threads") if more else None,
        )

    async def _infos(
        self, limit: int, after: str | None, where: tuple[str, Any] | None
    ) -> Page[CheckpointInfo]:
        newest, page = self._storage.saves, Page[CheckpointInfo]()
        cursor = last = RecencyCursor.open(after, "checkpoints", newest)
        for thread_id, thread in self._from(cursor):
            for row in reversed(thread.rows.values()):
                info = info_of(thread_id, row)
                if not cursor.has(thread.number, row.sequence) or not fits(info.metadata, where):
                    continue
                if len(page) == limit:
                    page.next = last.encode("checkpoints")
                    return page
                page.append(info)
                last = cursor.behind(thread.number, newest, sequence=row.sequence)
        return page

    async def _search(self, query: str, limit: int) -> list[dict[str, Any]]:
        terms = query_terms(query)
        documents = list(self._documents())
        frequencies = {term: sum(term in words.counts for _, _, words in documents) for term in terms}
        average = sum(words.length for _, _, words in documents) / max(1, len(documents))
        hits: list[dict[str, Any]] = [
            {
                "thread_id": thread_id,
                "checkpoint_id": checkpoint_id,
                "score": bm25(words.counts, words.length, frequencies, len(documents), average),
                "snippet": snippet(words.text, terms),
            }
            for thread_id, checkpoint_id, words in documents
            if any(term in words.counts for term in terms)
        ]
        return sorted(hits, key=lambda hit: -hit["score"])[:limit]

    def _documents(self) -> Iterator[tuple[str, str, Words]]:
        """Every different message of every thread, with the first checkpoint that has it."""
        for thread_id, thread in self._live():
            seen: set[str] = set()
            for row in thread.rows.values():
                for text in row.lists["messages"]:
                    if text not in seen:
                        seen.add(text)
                        yield thread_id, row.checkpoint_id, words_of(text)

    # ── branching ─────────────────────────────────────────────────────────────────────────────────

    async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
        source = self._find(thread_id)
        at = None if source is None else source.find(checkpoint_id)
        if source is None or at is None:
            return None
        self._must_be_free(new_thread_id)
        now_us = self._clock.now_us()
        fork = self._begin(new_thread_id, now_us)
        fork.rows = {row.checkpoint_id: row for row in source.rows.values() if row.sequence <= at.sequence}
        fork.writes = {key: list(writes) for key, writes in source.writes.items() if key[0] in fork.rows}
        fork.inherited, fork.next_sequence = at.sequence, at.sequence + 1
        fork.ancestors = {life: min(upto, at.sequence) for life, upto in source.ancestors.items()}
        fork.ancestors[source.life] = at.sequence
        self._touch(fork, now_us)
        return at.checkpoint_id

    # ── retention ─────────────────────────────────────────────────────────────────────────────────

    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        live = self._live()
        stale = {
            thread_id
            for thread_id, thread in live
            if request.stale_before is not None and thread.updated_us < request.stale_before
        }
        read = read_by_forks(thread for thread_id, thread in live if thread_id not in stale)
        removed: list[tuple[str, str]] = []
        for thread_id, thread in live:
            if thread_id in stale:
                gone = list(thread.rows)
            else:
                gone = removable(thread, request, read.get(thread.life, 0))
            removed += [(thread_id, checkpoint_id) for checkpoint_id in gone]
        if not request.dry_run:
            for thread_id, checkpoint_id in removed:
                self._threads_here()[thread_id].drop(checkpoint_id)
            kept = {thread_id: thread for thread_id, thread in live if thread.rows}
            self._storage.scopes[self._scope] = kept  # without the expired ones
        return removed

    # ── moving threads ────────────────────────────────────────────────────────────────────────────

    async def _dump(self, thread_id: str) -> ThreadDump | None:
        thread = self._find(thread_id)
        if thread is None:
            return None
        records: list[DumpRecord] = []
        before: Lists = dict.fromkeys(LOGGED_FIELDS, ())
        for row in thread.rows.values():
            records.append(
                DumpRecord(
                    checkpoint_id=row.checkpoint_id,
                    parent_id=row.parent_id,
                    created_us=row.created_us,
                    metadata=codec.loads(row.metadata),
                    head=row.head,
                    lists={name: delta(before[name], row.lists[name]) for name in LOGGED_FIELDS},
                    writes=writes_at(thread, row.checkpoint_id),
                )
            )
            before = row.lists
        return ThreadDump(thread_id, thread.created_us, records)

    async def _restore(self, dump: ThreadDump) -> None:
        self._must_be_free(dump.thread_id)
        thread = self._begin(dump.thread_id, dump.created_us)
        lists: Lists = dict.fromkeys(LOGGED_FIELDS, ())
        for record in dump.records:
            changes = {name: record.lists.get(name, _EMPTIED) for name in LOGGED_FIELDS}
            lists = {name: (*lists[name][: new.keep], *new.add) for name, new in changes.items()}
            thread.rows[record.checkpoint_id] = Row(
                checkpoint_id=record.checkpoint_id,
                parent_id=record.parent_id,
                sequence=thread.next_sequence,
                created_us=record.created_us,
                metadata=codec.dumps(dict(record.metadata)),
                head=record.head,
                lists=lists,
            )
            thread.next_sequence += 1
            for task_id, _, channel, value in record.writes:
                key = (record.checkpoint_id, task_id)
                thread.writes.setdefault(key, []).append((channel, codec.dumps(value)))
        self._touch(thread, self._clock.now_us())

    # ── counting and scopes ───────────────────────────────────────────────────────────────────────

    async def _stats(self) -> CheckpointerStats:
        threads = [thread for _, thread in self._live()]
        entries = {
            (name, text)
            for thread in threads
            for row in thread.rows.values()
            for name, texts in row.lists.items()
            for text in texts
        }
        return CheckpointerStats(
            threads=len(threads),
            checkpoints=sum(len(thread.rows) for thread in threads),
            entries=len(entries),
            pending_writes=sum(len(writes) for thread in threads for writes in thread.writes.values()),
        )

    async def _scopes(self) -> list[str | None]:
        return [scope for scope in self._storage.scopes if self._view(scope)._live()]

    async def _delete_scope(self) -> int:
        count = len(self._live())
        self._storage.scopes.pop(self._scope, None)
        return count

    # ── the dicts ─────────────────────────────────────────────────────────────────────────────────

    def _threads_here(self) -> dict[str, Thread]:
        return self._storage.scopes.get(self._scope, {})

    def _live(self) -> list[tuple[str, Thread]]:
        """The threads of this scope that have not expired, last saved first."""
        now_us = self._clock.now_us()
        threads = [item for item in self._threads_here().items() if not expired(item[1], now_us)]
        return sorted(threads, key=lambda item: item[1].number, reverse=True)

    def _from(self, cursor: RecencyCursor) -> Iterator[tuple[str, Thread]]:
        """The threads that a listing has still before it, in its order."""
        live = self._live()
        for lowest, highest in cursor.spans(self._storage.saves):
            yield from [item for item in live if lowest <= item[1].number <= highest]

    def _find(self, thread_id: str) -> Thread | None:
        thread = self._threads_here().get(thread_id)
        return None if thread is None or expired(thread, self._clock.now_us()) else thread

    def _row(self, thread_id: str, checkpoint_id: str | None) -> Row | None:
        thread = self._find(thread_id)
        return None if thread is None else thread.find(checkpoint_id)

    def _must_be_free(self, thread_id: str) -> None:
        thread = self._find(thread_id)
        if thread is not None:
            raise Conflict(f"thread {thread_id!r} exists", expected=None, actual=thread.head.checkpoint_id)

    def _begin(self, thread_id: str, created_us: int) -> Thread:
        """A new life of that id, in place of an expired one if there is one."""
        self._storage.lives += 1
        thread = Thread(self._storage.lives, created_us)
        self._storage.scopes.setdefault(self._scope, {})[thread_id] = thread
        return thread

    def _touch(self, thread: Thread, now_us: int) -> None:
        self._storage.saves += 1
        thread.number, thread.updated_us = self._storage.saves, now_us
        thread.expires_us = None if self._ttl_us is None else now_us + self._ttl_us

    def _remove(self, thread_id: str) -> None:
        del self._storage.scopes[self._scope][thread_id]

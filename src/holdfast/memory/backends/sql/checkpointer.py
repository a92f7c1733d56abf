"""The Checkpointer contract on any SQL engine: each hook is one plan."""

# Plans are defined inside methods: their annotations must not be evaluated on every call.
from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

from holdfast.core import codec
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.state import LOGGED_FIELDS, decode_state
from holdfast.memory.backends.sql import branching, deleting, dumping, finding, reading, saving, text_index
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.foresight import foreseen
from holdfast.memory.backends.sql.forks import count_inherited
from holdfast.memory.backends.sql.heads import Heads, KnownHead, ThreadKey
from holdfast.memory.backends.sql.keys import STATE_NS, decode_scope, encode_scope, scope_prefix
from holdfast.memory.backends.sql.lineage import THREAD_COLUMNS, thread_row
from holdfast.memory.backends.sql.plan import Engine, Plan, fetch
from holdfast.memory.backends.sql.writes import get_writes, put_writes
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.log import KnownList, Path, split_state
from holdfast.memory.records import Checkpoint, CheckpointerStats, CheckpointInfo, Page, PendingWrite
from holdfast.memory.requests import PruneRequest, SaveRequest, ThreadDump
from holdfast.memory.text import query_terms

_WITH_SEARCH = CheckpointerCapabilities.all_but()
_WITHOUT_SEARCH = CheckpointerCapabilities.all_but("search")


class SqlCheckpointer(BaseCheckpointer):
    """Versioned threads in the tables of `sql.schema`."""

    def __init__(
        self,
        engine: Engine,
        tables: Tables,
        *,
        clock: Clock = SYSTEM_CLOCK,
        ttl_seconds: float | None = None,
        text_index: bool = True,
        owns_engine: bool = True,
    ) -> None:
        super().__init__(clock=clock, ttl_seconds=ttl_seconds)
        self._everywhere = engine
        self._engine = engine.within(encode_scope(None))
        self._owns_engine = owns_engine
        self._tables = tables
        self._heads = Heads()
        self._saver = saving.new_saver(tables, self._heads)
        self._index_text = text_index
        self._unindexed = [0]  # shared with the scoped views

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return _WITH_SEARCH if self._index_text else _WITHOUT_SEARCH

    def _view(self, scope: str | None) -> Self:
        view = super()._view(scope)
        view._engine = self._everywhere.within(encode_scope(scope))
        return view

    # ── saving and loading ────────────────────────────────────────────────────────────────────────

    async def _save(self, request: SaveRequest) -> str:
        thread_id, state, checkpoint_id, metadata, parent, now = request
        key = self._key(thread_id)

        text = codec.dumps(metadata) if metadata else "{}"
        new = saving.NewCheckpoint(
            key, checkpoint_id, text, split_state(state), parent, now, self._expires(now)
        )
        saved = await self._engine.write(partial(self._saver.save, new))
        if saved.head is not None:
            self._heads.remember(key, saved.head, saved=True)
            self._note_unindexed(saved.entries)
        return saved.checkpoint_id

    async def _read(self, thread_id: str, checkpoint_id: str | None) -> Checkpoint | None:
        key, now = self._key(thread_id), self._clock.now_us()
        encoded = None if checkpoint_id is None else encode_id(checkpoint_id)

        def plan() -> Plan[Checkpoint | None]:
            found = yield from reading.find(self._tables, key, encoded, now)
            if found is None:
                return None
            thread, row = found
            stored, lists = yield from reading.read_lists(self._tables, row)
            state = reading.decode(row, lists, partial(decode_state, lazily_at=row.place))
            if row.seq == thread.head_seq:
                self._heads.remember(key, _known(thread.life, thread.next_seq, row, stored, state))
            return Checkpoint(state, row.info(thread_id))

        return await self._engine.read(partial(foreseen, self._tables, key, encoded, plan))

    async def _info(self, thread_id: str, checkpoint_id: str | None) -> CheckpointInfo | None:
        key, now = self._key(thread_id), self._clock.now_us()
        encoded = None if checkpoint_id is None else encode_id(checkpoint_id)
        found = await self._engine.read(
            lambda: foreseen(
                self._tables, key, encoded, lambda: reading.find(self._tables, key, encoded, now), lists=False
            )
        )
        return None if found is None else found[1].info(thread_id)

    async def _history(self, thread_id: str, limit: int, before: int | None) -> list[CheckpointInfo]:
        def plan() -> Plan[list[CheckpointInfo]]:
            rows = yield from reading.newest(self._tables, self._key(thread_id), limit, before, now)
            return [row.info(thread_id) for row in rows]

        now = self._clock.now_us()
        return await self._engine.read(plan)

    async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
        key, now = self._key(thread_id), self._clock.now_us()
        encoded = None if checkpoint_id is None else encode_id(checkpoint_id)

        def plan() -> Plan[bool]:
            thread = yield from reading.find_thread(self._tables, key, now, lock=True)
            if thread is None:
                return False
            if encoded is None:  # without a look at its checkpoints: a damaged thread can be deleted
                yield from deleting.delete_thread(self._tables, thread)
                return True
            row = yield from reading.find_checkpoint(self._tables, thread, encoded)
            if row is not None:
                yield from deleting.delete_checkpoint(self._tables, thread, row.seq)
            return row is not None

        self._heads.forget(key)
        return await self._engine.write(plan)

    # ── pending writes ────────────────────────────────────────────────────────────────────────────

    async def _put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        key, now = self._key(thread_id), self._clock.now_us()
        await self._engine.write(lambda: put_writes(self._tables, key, checkpoint_id, task_id, writes, now))

    async def _get_writes(
        self, thread_id: str, checkpoint_id: str | None, task_id: str | None
    ) -> list[PendingWrite]:
        key, now = self._key(thread_id), self._clock.now_us()
        return await self._engine.read(lambda: get_writes(self._tables, key, checkpoint_id, task_id, now))

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    async def _search(self, query: str, limit: int) -> list[dict[str, Any]]:
        terms = query_terms(query)
        if not terms:
            return []
        scope, now = self._key("x")[0], self._clock.now_us()
        await self._catch_up()
        prefix = scope_prefix(scope)
        return await self._engine.read(
            lambda: finding.search(self._tables, scope, STATE_NS, prefix, terms, limit, now)
        )

    async def _threads(self, limit: int, pattern: str, after: str | None) -> Page[str]:
        scope, now = self._key("x")[0], self._clock.now_us()
        return await self._engine.read(
            lambda: finding.list_threads(self._tables, scope, STATE_NS, pattern, limit, after, now)
        )

    async def _infos(
        self, limit: int, after: str | None, where: tuple[str, Any] | None
    ) -> Page[CheckpointInfo]:
        scope, now = self._key("x")[0], self._clock.now_us()
        return await self._engine.read(
            lambda: finding.list_infos(self._tables, scope, STATE_NS, limit, after, where, now)
        )

    async def _stats(self) -> CheckpointerStats:
        scope, now = self._key("x")[0], self._clock.now_us()
        return await self._engine.read(lambda: stats(self._tables, scope, now))

    # ── branching, retention, moving ──────────────────────────────────────────────────────────────

    async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
        now = self._clock.now_us()
        source, dest = self._key(thread_id), self._key(new_thread_id)
        return await self._engine.write(
            lambda: branching.fork(self._tables, source, checkpoint_id, dest, now, self._expires(now))
        )

    async def _prune(self, request: PruneRequest) -> list[tuple[str, str]]:
        scope, now = self._key("x")[0], self._clock.now_us()
        try:
            removed = await self._engine.write(
                lambda: branching.prune(self._tables, scope, STATE_NS, request, now)
            )
        except branching.DryRun as outcome:
            removed = outcome.removed
        return [(decode_id(key[2]), checkpoint_id) for key, checkpoint_id in removed]

    async def _dump(self, thread_id: str) -> ThreadDump | None:
        def plan() -> Plan[ThreadDump | None]:
            thread = yield from reading.find_thread(self._tables, self._key(thread_id), now)
            if thread is None:
                return None
            dump = yield from dumping.dump_thread(self._tables, thread)
            return ThreadDump(thread_id, thread.created_at, dump.records)

        now = self._clock.now_us()
        return await self._engine.read(plan)

    async def _restore(self, dump: ThreadDump) -> None:
        now, key = self._clock.now_us(), self._key(dump.thread_id)
        prefix = scope_prefix(key[0])
        await self._engine.write(
            lambda: branching.restore(self._tables, key, dump, prefix, now, self._expires(now))
        )
        self._note_unindexed(
            sum(len(delta.add) for record in dump.records for delta in record.lists.values())
        )

    # ── scopes and life ───────────────────────────────────────────────────────────────────────────

    async def _scopes(self) -> list[str | None]:
        now = self._clock.now_us()
        found = await self._everywhere.read(
            lambda: fetch(
                f"SELECT DISTINCT scope FROM {self._tables.threads} WHERE ns = ?"
                " AND (expires_at IS NULL OR expires_at > ?)",
                *(STATE_NS, now),
            )
        )
        return [decode_scope(scope) for (scope,) in found]

    async def _delete_scope(self) -> int:
        scope = self._key("x")[0]

        def plan() -> Plan[int]:
            removed = yield from deleting.delete_scope(self._tables, scope, STATE_NS)
            yield from text_index.compact(self._tables)
            return removed

        removed = await self._engine.write(plan)
        await self._engine.scrub()
        return removed

    async def _close(self) -> None:
        if self._index_text and self._unindexed[0]:
            self._engine.later(partial(text_index.catch_up, self._tables, 4 * text_index.CATCH_UP_ROWS))
        if self._owns_engine:
            await self._engine.close()

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────

    def _key(self, thread_id: str) -> ThreadKey:
        return (encode_scope(self._scope), STATE_NS, encode_id(thread_id))

    def _expires(self, now: int) -> int | None:
        return None if self._ttl_us is None else now + self._ttl_us

    def _note_unindexed(self, entries: int) -> None:
        """Let the index catch up now and then, so that no search has to do it all."""
        self._unindexed[0] += entries
        if self._index_text and self._unindexed[0] >= text_index.CATCH_UP_ROWS:
            self._unindexed[0] = 0
            self._engine.later(partial(text_index.catch_up, self._tables, 2 * text_index.CATCH_UP_ROWS))

    async def _catch_up(self) -> None:
        self._unindexed[0] = 0
        while await self._engine.read(lambda: text_index.lag(self._tables)) > 0:
            if await self._engine.write(partial(text_index.catch_up, self._tables)) == text_index.NOT_MINE:
                await self._index_anew()

    async def _index_anew(self) -> None:
        """Another analyser made the index, and the database keeps tenants apart: for each of them, by an operator."""
        found = await self._everywhere.read(
            lambda: fetch(f"SELECT DISTINCT scope FROM {self._tables.threads}")
        )
        for (scope,) in found:
            await self._everywhere.within(scope).write(partial(text_index.list_all, self._tables))
        await self._everywhere.write(partial(text_index.note_analyser, self._tables))


def stats(t: Tables, scope: str, now: int) -> Plan[CheckpointerStats]:
    """Counts within a scope."""
    live = "t.scope = ? AND t.ns = ? AND (t.expires_at IS NULL OR t.expires_at > ?)"
    place = (scope, STATE_NS, now)
    hidden = f"NOT EXISTS (SELECT 1 FROM {t.hidden} h WHERE h.life = t.life AND h.seq = c.seq)"
    counts: list[int] = []
    for rest in (
        f"WHERE {live}",
        f"JOIN {t.checkpoints} c ON c.life = t.life WHERE {live} AND {hidden}",
        f"JOIN {t.writes} w ON w.life = t.life WHERE {live}",
    ):
        ((count,),) = yield from fetch(f"SELECT COUNT(*) FROM {t.threads} t {rest}", *place)
        counts.append(int(count))
    prefix = scope_prefix(scope)
    ((entries, size),) = yield from fetch(
        f"SELECT COALESCE(SUM(size), 0), COALESCE(SUM(LENGTH(body)), 0) FROM {t.entries} WHERE life BETWEEN ? AND ?",
        *(prefix + b"\x00" * 10, prefix + b"\xff" * 10),
    )
    threads, own, writes = counts
    found = yield from fetch(
        f"SELECT t.thread_id, {THREAD_COLUMNS} FROM {t.threads} t WHERE t.base IS NOT NULL AND {live}", *place
    )
    forks = [thread_row((scope, STATE_NS, thread_id), columns) for thread_id, *columns in found]
    inherited = yield from count_inherited(t, forks)
    return CheckpointerStats(threads, own + inherited, int(entries), writes, int(size))


def _known(
    life: bytes, next_seq: int, row: reading.CheckpointRow, stored: dict[str, Path], state: Any
) -> KnownHead:
    """What a load teaches about the head. Whether a log can be appended to is not known: a save asks."""
    lists: dict[str, KnownList] = {
        str(name): KnownList(stored[name], getattr(state, name), False)
        for name in LOGGED_FIELDS
        if name in stored
    }
    return KnownHead(life, row.seq, next_seq, row.checkpoint_id, lists)

"""The versioned saver on any SQL engine: the checkpointer's tables and plans, with dicts for states."""

# Plans are defined inside methods: their annotations must not be evaluated on every call.
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core import codec
from holdfast.core.clock import SYSTEM_CLOCK, Clock, from_us
from holdfast.core.errors import Conflict
from holdfast.core.unset import UNSET
from holdfast.memory.backends.sql import deleting, reading
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.heads import Heads, ThreadKey
from holdfast.memory.backends.sql.keys import DEFAULT_SCOPE, saver_ns
from holdfast.memory.backends.sql.lineage import visible
from holdfast.memory.backends.sql.plan import Engine, Plan, fetch
from holdfast.memory.backends.sql.saving import NewCheckpoint, Saved, new_saver
from holdfast.memory.backends.sql.writes import get_writes, put_writes
from holdfast.memory.encoding import encode_id
from holdfast.memory.log import load_lists
from holdfast.memory.log_documents import join_document, split_document
from holdfast.memory.saver import BaseCheckpointSaver

Place = tuple[str, str]


class SqlCheckpointSaver(BaseCheckpointSaver):
    """Dict checkpoints in the tables of `sql.schema`, apart from the checkpointer's threads by their namespace."""

    def __init__(
        self, engine: Engine, tables: Tables, *, clock: Clock = SYSTEM_CLOCK, owns_engine: bool = True
    ) -> None:
        super().__init__(clock=clock)
        self._engine = engine.within(DEFAULT_SCOPE)
        self._owns_engine = owns_engine
        self._tables = tables
        self._saver = new_saver(tables, Heads())

    async def _put(
        self,
        place: Place,
        checkpoint_id: str,
        data: Mapping[str, Any],
        parent_id: str | None,
        metadata: dict[str, Any],
    ) -> None:
        key, now = _key(place), self._clock.now_us()
        split_document(data)  # what can't be stored is refused before anything is read

        def plan() -> Plan[Saved]:
            found = yield from reading.find(self._tables, key, None, now, lock=True)
            logged: Sequence[str] = ()
            if found is not None:
                thread, newest = found
                twin = yield from reading.find_checkpoint(self._tables, thread, encode_id(checkpoint_id))
                if twin is not None:
                    raise Conflict(f"checkpoint {checkpoint_id!r} exists already", actual=checkpoint_id)
                logged = list(load_lists(newest.lists, newest.life, newest.place))
            new = NewCheckpoint(
                key=key,
                checkpoint_id=checkpoint_id,
                metadata=codec.dumps(metadata),
                parts=split_document(data, logged),
                parent=UNSET,
                now=now,
                expires=None,
                recorded_parent=parent_id,
            )
            return (yield from self._saver.save(new))

        await self._engine.write(plan)

    async def _get(self, place: Place, checkpoint_id: str | None) -> dict[str, Any] | None:
        key, now = _key(place), self._clock.now_us()

        def plan() -> Plan[dict[str, Any] | None]:
            encoded = None if checkpoint_id is None else encode_id(checkpoint_id)
            found = yield from reading.find(self._tables, key, encoded, now)
            return None if found is None else (yield from self._document(found[1]))

        return await self._engine.read(plan)

    async def _list(self, place: Place, limit: int, before: str | None) -> list[dict[str, Any]]:
        key, now = _key(place), self._clock.now_us()

        def plan() -> Plan[list[dict[str, Any]]]:
            thread = yield from reading.find_thread(self._tables, key, now)
            if thread is None:
                return []
            condition, params = visible(self._tables, thread)
            if before is not None:
                mark = yield from reading.find_checkpoint(self._tables, thread, encode_id(before))
                if mark is None:
                    return []
                condition, params = f"{condition} AND c.seq < ?", [*params, mark.seq]
            found = yield from fetch(
                f"SELECT {reading.CHECKPOINT_COLUMNS} FROM {self._tables.checkpoints} c"
                f" WHERE {condition} ORDER BY c.seq DESC LIMIT ?",
                *(*params, limit),
            )
            documents: list[dict[str, Any]] = []
            for row in map(reading.checkpoint_row, found):
                document = yield from self._document(row)
                documents.append(document)
            return documents

        return await self._engine.read(plan)

    async def _put_writes(
        self, place: Place, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        key, now = _key(place), self._clock.now_us()
        await self._engine.write(lambda: put_writes(self._tables, key, checkpoint_id, task_id, writes, now))

    async def _get_writes(
        self, place: Place, checkpoint_id: str, task_id: str | None
    ) -> list[dict[str, Any]]:
        key, now = _key(place), self._clock.now_us()
        writes = await self._engine.read(lambda: get_writes(self._tables, key, checkpoint_id, task_id, now))
        return [{"task_id": w.task_id, "idx": w.idx, "channel": w.channel, "value": w.value} for w in writes]

    async def _delete_thread(self, thread_id: str) -> bool:
        t = self._tables

        def plan() -> Plan[bool]:
            encoded = encode_id(thread_id)
            found = yield from fetch(
                f"SELECT ns FROM {t.threads} WHERE scope = ? AND ns >= ? AND thread_id = ?",
                *(DEFAULT_SCOPE, saver_ns(""), encoded),
            )
            namespaces = [ns for (ns,) in found if ns.startswith(saver_ns(""))]
            for ns in namespaces:
                thread = yield from reading.find_thread(t, (DEFAULT_SCOPE, ns, encoded), lock=True)
                if thread is not None:
                    yield from deleting.delete_thread(t, thread)
            return bool(namespaces)

        return await self._engine.write(plan)

    async def _close(self) -> None:
        if self._owns_engine:
            await self._engine.close()

    def _document(self, row: reading.CheckpointRow) -> Plan[dict[str, Any]]:
        _, lists = yield from reading.read_lists(self._tables, row)
        return {
            "checkpoint_id": row.checkpoint_id,
            "parent_checkpoint_id": row.parent_id,
            "checkpoint": reading.decode(row, lists, join_document),
            "metadata": row.info("").metadata,
            "created_at": from_us(row.created_at).isoformat(),
        }


def _key(place: Place) -> ThreadKey:
    thread_id, ns = place
    return (DEFAULT_SCOPE, saver_ns(ns), encode_id(thread_id))

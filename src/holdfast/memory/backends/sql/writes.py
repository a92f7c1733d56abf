"""Pending writes of a step: by task and index, at one checkpoint of one thread."""

from collections.abc import Sequence
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import Conflict
from holdfast.memory.backends.sql import reading
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.plan import Plan, change, execute, many
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.records import PendingWrite


def put_writes(
    t: Tables, key: ThreadKey, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]], now: int
) -> Plan[None]:
    """Replace a task's pending writes."""
    found = yield from reading.find(t, key, encode_id(checkpoint_id), now, lock=True)
    if found is None:
        thread_id = decode_id(key[2])
        raise Conflict(
            f"thread {thread_id!r} has no checkpoint {checkpoint_id!r}: it was deleted, or never saved",
            expected=checkpoint_id,
        )
    thread, row = found
    place = (thread.life, row.seq, encode_id(task_id))
    yield from execute(
        change(f"UPDATE {t.threads} SET pending = 1 WHERE scope = ? AND ns = ? AND thread_id = ?", *key),
        change(f"DELETE FROM {t.writes} WHERE life = ? AND seq = ? AND task_id = ?", *place),
        many(
            f"INSERT INTO {t.writes} (life, seq, task_id, idx, channel, value) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (*place, idx, encode_id(channel), codec.dumps(value))
                for idx, (channel, value) in enumerate(writes)
            ],
        ),
    )


def get_writes(
    t: Tables, key: ThreadKey, checkpoint_id: str | None, task_id: str | None, now: int
) -> Plan[list[PendingWrite]]:
    """Pending writes at the head or at that checkpoint."""
    found = yield from reading.find(t, key, None if checkpoint_id is None else encode_id(checkpoint_id), now)
    if found is None:
        return []
    thread, row = found
    task = None if task_id is None else encode_id(task_id)
    return (yield from reading.read_writes(t, thread.life, row.seq, task))

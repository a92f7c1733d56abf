"""Fork and copy: one row that points into what is there. Retention: what may go, thread by thread."""

from collections.abc import Sequence

from holdfast.core.errors import Conflict
from holdfast.core.ids import new_key
from holdfast.memory.backends.sql.deleting import delete_thread, hide, read_by_forks
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.dumping import dump_thread, restore_thread
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.keys import SCOPE_BYTES
from holdfast.memory.backends.sql.lineage import (
    THREAD_COLUMNS,
    ThreadRow,
    count_save,
    dump_lineage,
    new_thread,
    thread_row,
    visible,
)
from holdfast.memory.backends.sql.plan import Plan, change, execute, fetch, many
from holdfast.memory.backends.sql.reading import find, find_thread
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.requests import PruneRequest, ThreadDump

MAX_SPANS = 32


def fork(
    t: Tables, source: ThreadKey, checkpoint_id: str | None, dest: ThreadKey, now: int, expires: int | None
) -> Plan[str | None]:
    """The new thread's head, or ``None`` if there is no such checkpoint."""
    encoded = None if checkpoint_id is None else encode_id(checkpoint_id)
    found = yield from find(t, source, encoded, now, lock=True)
    if found is None:
        return None
    thread, checkpoint = found
    yield from make_room(t, dest, now)
    spans = thread.until(checkpoint.seq)
    if len(spans) > MAX_SPANS:
        # A fork of a fork of a fork ...: begin anew, so that no thread is a long chain of lives.
        dump = yield from dump_thread(t, thread, checkpoint.seq)
        yield from restore_thread(
            t, dest, dump.records, dump.sequences, thread.life[:SCOPE_BYTES], now, expires
        )
        return checkpoint.checkpoint_id
    life = new_key(thread.life[:SCOPE_BYTES])
    yield from execute(
        new_thread(t, dest, life, checkpoint.seq, now, expires, pending=1, lineage=dump_lineage(spans)),
        many(
            f"INSERT INTO {t.forks} (base, life, upto, scope, ns, thread_id) VALUES (?, ?, ?, ?, ?, ?)",
            [(span.life, life, span.last, *dest) for span in spans],
        ),
        change(
            f"INSERT INTO {t.hidden} (life, seq) SELECT ?, seq FROM {t.hidden} WHERE life = ? AND seq <= ?",
            *(life, thread.life, checkpoint.seq),
        ),
        change(
            f"INSERT INTO {t.writes} (life, seq, task_id, idx, channel, value)"
            f" SELECT ?, seq, task_id, idx, channel, value FROM {t.writes} WHERE life = ? AND seq <= ?",
            *(life, thread.life, checkpoint.seq),
        ),
        *count_save(t, dest),
    )
    return checkpoint.checkpoint_id


def restore(
    t: Tables, dest: ThreadKey, dump: ThreadDump, prefix: bytes, now: int, expires: int | None
) -> Plan[None]:
    """Write a dumped thread as a new one."""
    yield from make_room(t, dest, now)
    yield from restore_thread(t, dest, dump.records, None, prefix, now, expires, created=dump.created_us)


def make_room(t: Tables, dest: ThreadKey, now: int) -> Plan[None]:
    """:class:`Conflict` if the thread exists; one that has expired is removed."""
    existing = yield from find_thread(t, dest, lock=True)
    if existing is None:
        return
    if not existing.expired(now):
        raise Conflict(f"thread {decode_id(dest[2])!r} exists already", actual=decode_id(dest[2]))
    yield from delete_thread(t, existing)


# ── retention ─────────────────────────────────────────────────────────────────────────────────────


def prune(
    t: Tables, scope: str, ns: str, request: PruneRequest, now: int
) -> Plan[list[tuple[ThreadKey, str]]]:
    """Remove what the request names; returns it, thread by thread, last saved first."""
    found = yield from fetch(
        f"SELECT thread_id, {THREAD_COLUMNS} FROM {t.threads} WHERE scope = ? AND ns = ? ORDER BY saved DESC",
        scope,
        ns,
    )
    threads = [thread_row((scope, ns, thread_id), columns) for thread_id, *columns in found]
    gone: dict[str, list[tuple[int, str]]] = {}
    for thread in threads:
        if _stale(thread, request) or thread.expired(now):
            locked = yield from _still(t, thread)
            if locked is not None and (_stale(locked, request) or locked.expired(now)):
                gone[thread.thread_id] = [] if locked.expired(now) else (yield from _all_of(t, locked))
                yield from delete_thread(t, locked)
    for thread in threads:
        if thread.thread_id not in gone:
            found = yield from _removable(t, thread, request)
            locked = (yield from _still(t, thread)) if found else None
            if locked is not None:
                if locked != thread:  # it was saved meanwhile
                    found = yield from _removable(t, locked, request)
                gone[thread.thread_id] = found
                yield from hide(t, locked, [seq for seq, _ in found])
    removed = [
        ((scope, ns, thread.thread_id), decode_id(checkpoint_id))
        for thread in threads
        for _, checkpoint_id in gone.get(thread.thread_id, ())
    ]
    if request.dry_run:
        raise DryRun(removed)
    return removed


def _stale(thread: ThreadRow, request: PruneRequest) -> bool:
    return request.stale_before is not None and thread.updated_at < request.stale_before


def _still(t: Tables, thread: ThreadRow) -> Plan[ThreadRow | None]:
    """The thread as it is now, locked. Where one writes at a time, it is as it was."""
    if not t.dialect.lock:
        return thread
    return (yield from find_thread(t, (thread.scope, thread.ns, thread.thread_id), lock=True))


class DryRun(Exception):
    """Carries the result of a plan whose effects are to be undone."""

    def __init__(self, removed: list[tuple[ThreadKey, str]]) -> None:
        super().__init__()
        self.removed = removed


def _all_of(t: Tables, thread: ThreadRow) -> Plan[list[tuple[int, str]]]:
    condition, params = visible(t, thread)
    found = yield from fetch(
        f"SELECT c.seq, c.checkpoint_id FROM {t.checkpoints} c WHERE {condition} ORDER BY c.seq", *params
    )
    return [(seq, checkpoint_id) for seq, checkpoint_id in found]


def _removable(t: Tables, thread: ThreadRow, request: PruneRequest) -> Plan[list[tuple[int, str]]]:
    pinned = yield from read_by_forks(t, thread.life)
    newest: Sequence[int] = ()
    if request.keep_last is not None:
        condition, params = visible(t, thread)
        found = yield from fetch(
            f"SELECT c.seq FROM {t.checkpoints} c WHERE {condition} ORDER BY c.seq DESC LIMIT ?",
            *(*params, request.keep_last),
        )
        newest = [seq for (seq,) in found]
    bound = min(newest) if newest else thread.head_seq
    cutoff = "" if request.older_than is None else " AND c.created_at < ?"
    found = yield from fetch(
        f"SELECT c.seq, c.checkpoint_id FROM {t.checkpoints} c WHERE c.life = ? AND c.seq >= ? AND c.seq > ?"
        f" AND c.seq < ? AND c.seq <> ?{cutoff}"
        f" AND NOT EXISTS (SELECT 1 FROM {t.hidden} h WHERE h.life = c.life AND h.seq = c.seq)"
        f" AND NOT EXISTS (SELECT 1 FROM {t.writes} w WHERE w.life = c.life AND w.seq = c.seq) ORDER BY c.seq",
        *(thread.life, thread.own.first, pinned, bound, thread.head_seq),
        *(() if request.older_than is None else (request.older_than,)),
    )
    return [(seq, checkpoint_id) for seq, checkpoint_id in found]

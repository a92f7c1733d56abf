"""Delete: a thread, a checkpoint, what retention says, a scope. What a fork still reads stays.

Nothing counts references. What may go is asked for: a life's checkpoints are needed while its thread shows them or
up to the highest sequence that a fork reads; its entries, while one of its remaining checkpoints has them. A life is
read by the threads and ghosts that name it as their base; what those read of earlier lives is the base's affair.
"""

from collections.abc import Iterable

from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.forks import lock_bases, read_by_forks
from holdfast.memory.backends.sql.lineage import ThreadRow, load_lineage, visible
from holdfast.memory.backends.sql.plan import Plan, change, execute, fetch, fetch_one, many, rows
from holdfast.memory.backends.sql.text_index import remove_entries
from holdfast.memory.log import load_lists


def delete_thread(t: Tables, thread: ThreadRow) -> Plan[None]:
    """Remove the thread, which is locked, and all that only it had."""
    life = thread.life
    yield from lock_bases(t, thread)
    yield from execute(
        change(
            f"DELETE FROM {t.threads} WHERE scope = ? AND ns = ? AND thread_id = ?",
            *(thread.scope, thread.ns, thread.thread_id),
        ),
        change(f"DELETE FROM {t.lives} WHERE life = ?", life),
        change(f"DELETE FROM {t.hidden} WHERE life = ?", life),
        change(f"DELETE FROM {t.writes} WHERE life = ?", life),
    )
    if (yield from _trim_dead_life(t, life)):
        base = (thread.inherited[-1].life, thread.inherited[-1].last) if thread.inherited else (None, 0)
        ghost = change(f"INSERT INTO {t.ghosts} (life, base, upto) VALUES (?, ?, ?)", life, *base)
        yield from execute(ghost)
        return
    for span in reversed(thread.inherited):
        alive = yield from fetch_one(f"SELECT 1 FROM {t.lives} WHERE life = ?", span.life)
        if alive is not None:
            yield from _remove_hidden(t, span.life)
            return
        if (yield from _trim_dead_life(t, span.life)):
            return
        yield from execute(change(f"DELETE FROM {t.ghosts} WHERE life = ?", span.life))


def delete_checkpoint(t: Tables, thread: ThreadRow, seq: int) -> Plan[None]:
    """Remove one checkpoint from what the thread shows; if it was the last, the thread."""
    yield from hide(t, thread, [seq])
    condition, params = visible(t, thread)
    ((head,),) = yield from fetch(f"SELECT MAX(c.seq) FROM {t.checkpoints} c WHERE {condition}", *params)
    if head is None:
        yield from delete_thread(t, thread)
        return
    yield from execute(
        change(
            f"UPDATE {t.threads} SET head_seq = ?, pending = 1 WHERE scope = ? AND ns = ? AND thread_id = ?",
            *(head, thread.scope, thread.ns, thread.thread_id),
        )
    )


def hide(t: Tables, thread: ThreadRow, sequences: Iterable[int]) -> Plan[None]:
    """Make the thread no longer show these; remove those that nobody else reads."""
    sequences = list(sequences)
    if not sequences:
        return
    pinned = yield from read_by_forks(t, thread.life)
    own: list[tuple[bytes, int]] = []
    others: list[tuple[bytes, int]] = []
    for seq in sequences:
        (own if seq >= thread.own.first and seq > pinned else others).append((thread.life, seq))
    yield from execute(
        many(f"DELETE FROM {t.writes} WHERE life = ? AND seq = ?", own + others),
        many(f"INSERT INTO {t.hidden} (life, seq) VALUES (?, ?)", others),
        many(f"DELETE FROM {t.checkpoints} WHERE life = ? AND seq = ?", own),
    )
    if own:
        yield from collect_entries(t, thread.life)


def collect_entries(t: Tables, life: bytes) -> Plan[None]:
    """Remove the life's entries that none of its remaining checkpoints has."""
    needed: dict[int, int] = {}
    found = yield from fetch(f"SELECT seq, lists FROM {t.checkpoints} WHERE life = ?", life)
    for seq, text in found:
        for path in load_lists(text, life, f"life {life.hex()}, seq {seq}").values():
            for segment in path:
                if segment.life == life:
                    needed[segment.log] = max(needed.get(segment.log, 0), segment.end)
    logs = yield from fetch(f"SELECT log, MAX(pos) FROM {t.entries} WHERE life = ? GROUP BY log", life)
    for log, last in logs:
        if last >= needed.get(log, 0):
            place = (life, log, needed.get(log, 0))
            yield from remove_entries(t, "life = ? AND log = ? AND pos >= ?", place)


def _trim_dead_life(t: Tables, life: bytes) -> Plan[bool]:
    """After its thread is gone: keep only what forks read. Whether there is any."""
    pinned = yield from read_by_forks(t, life)
    yield from execute(change(f"DELETE FROM {t.checkpoints} WHERE life = ? AND seq > ?", life, pinned))
    if pinned:
        yield from collect_entries(t, life)
        return True
    yield from remove_entries(t, "life = ?", (life,))
    return False


def _remove_hidden(t: Tables, life: bytes) -> Plan[None]:
    """After a fork is gone: the life's own checkpoints that were kept only for it. What it inherited stays hidden."""
    pinned = yield from read_by_forks(t, life)
    found = yield from fetch(
        f"SELECT c.seq FROM {t.checkpoints} c JOIN {t.hidden} h ON h.life = c.life AND h.seq = c.seq"
        " WHERE c.life = ? AND c.seq > ?",
        *(life, pinned),
    )
    if found:
        gone = [(life, seq) for (seq,) in found]
        yield from execute(
            many(f"DELETE FROM {t.checkpoints} WHERE life = ? AND seq = ?", gone),
            many(f"DELETE FROM {t.hidden} WHERE life = ? AND seq = ?", gone),
        )
        yield from collect_entries(t, life)


def delete_scope(t: Tables, scope: str, ns: str) -> Plan[int]:
    """Remove every thread of a scope. Sharing never crosses scopes, so nothing has to be kept."""
    mine = "scope = ? AND ns = ?"
    # Threads that are made while this goes on are not of this life of the scope: only what was there then is removed.
    while True:
        threads, forks = yield [
            rows(
                f"SELECT thread_id, life, lineage FROM {t.threads} WHERE {mine} ORDER BY thread_id{t.dialect.lock}",
                *(scope, ns),
            ),
            rows(f"SELECT life FROM {t.threads} WHERE {mine} AND base IS NOT NULL", scope, ns),
        ]
        if {life for _, life, _ in threads}.issuperset(life for (life,) in forks):
            break  # else a fork was finished while its source was waited for
    lives = {span.life for _, life, text in threads for span in load_lineage(text, life)}
    keys = [(life,) for life in sorted(lives)]
    for key in keys:
        yield from remove_entries(t, "life = ?", key)
    yield from execute(
        *(
            many(f"DELETE FROM {table} WHERE life = ?", keys)
            for table in (t.checkpoints, t.writes, t.hidden, t.lives, t.ghosts)
        ),
        many(
            f"DELETE FROM {t.threads} WHERE scope = ? AND ns = ? AND thread_id = ?",
            [(scope, ns, thread_id) for thread_id, _, _ in threads],
        ),
    )
    return len(threads)

"""Delete: a thread, a checkpoint, what retention says, a scope. What a fork still reads stays.

Nothing counts references. What may go is asked for: a life's checkpoints are needed while its thread shows them or
up to the highest sequence that a fork reads; its entries, while one of its remaining checkpoints has them.
"""

from collections.abc import Iterable, Sequence

from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.lineage import ThreadRow, visible
from holdfast.memory.backends.sql.plan import Plan, Statement, change, execute, fetch, fetch_one, many, rows
from holdfast.memory.backends.sql.text_index import remove_entries
from holdfast.memory.log import load_lists


def delete_thread(t: Tables, thread: ThreadRow) -> Plan[None]:
    """Remove the thread, which is locked, and all that only it had."""
    life = thread.life
    yield from _lock_family(t, thread)
    yield from execute(
        change(
            f"DELETE FROM {t.threads} WHERE scope = ? AND ns = ? AND thread_id = ?",
            *(thread.scope, thread.ns, thread.thread_id),
        ),
        change(f"DELETE FROM {t.lives} WHERE life = ?", life),
        change(f"DELETE FROM {t.hidden} WHERE life = ?", life),
        change(f"DELETE FROM {t.writes} WHERE life = ?", life),
        *(
            change(f"DELETE FROM {t.forks} WHERE base = ? AND life = ?", s.life, life)
            for s in thread.inherited
        ),
    )
    yield from _trim_dead_life(t, life)
    for span in thread.inherited:
        alive = yield from fetch_one(f"SELECT 1 FROM {t.lives} WHERE life = ?", span.life)
        if alive is None:
            yield from _trim_dead_life(t, span.life)
        else:
            yield from _remove_hidden(t, span.life)


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


def read_by_forks(t: Tables, life: bytes) -> Plan[int]:
    """The highest sequence of this life that a fork reads; 0 if there is none.

    Until this transaction ends, none of these forks goes: or two that go at once would each leave all to the other.
    """
    *_, ((highest,),) = yield [
        *_lock_forks(t, [life]),
        rows(f"SELECT MAX(upto) FROM {t.forks} WHERE base = ?", life),
    ]
    return 0 if highest is None else int(highest)


def _lock_family(t: Tables, thread: ThreadRow) -> Plan[None]:
    """The threads that this one inherits from, whose unread rows go with it, and all forks of theirs and of its own.

    The threads first, from this one up to its ancestors: no two transactions wait for each other.
    """
    if not t.dialect.lock:
        return
    bases = [span.life for span in thread.inherited]
    marks = ", ".join("?" * len(bases))
    ancestors = rows(
        f"SELECT life FROM {t.threads} WHERE (scope, ns, thread_id) IN"
        f" (SELECT scope, ns, thread_id FROM {t.lives} WHERE life IN ({marks}))"
        f" ORDER BY scope, ns, thread_id{t.dialect.lock}",
        *bases,
    )
    yield [*([ancestors] if bases else ()), *_lock_forks(t, [*bases, thread.life])]


def _lock_forks(t: Tables, bases: Sequence[bytes]) -> list[Statement]:
    if not t.dialect.lock:
        return []
    marks = ", ".join("?" * len(bases))
    query = f"SELECT life FROM {t.forks} WHERE base IN ({marks}) ORDER BY base, life{t.dialect.lock}"
    return [rows(query, *bases)]


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


def _trim_dead_life(t: Tables, life: bytes) -> Plan[None]:
    """After its thread is gone: keep only what forks read."""
    pinned = yield from read_by_forks(t, life)
    yield from execute(change(f"DELETE FROM {t.checkpoints} WHERE life = ? AND seq > ?", life, pinned))
    if pinned:
        yield from collect_entries(t, life)
        return
    yield from remove_entries(t, "life = ?", (life,))


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
                f"SELECT thread_id, life FROM {t.threads} WHERE {mine} ORDER BY thread_id{t.dialect.lock}",
                scope,
                ns,
            ),
            rows(f"SELECT base, life FROM {t.forks} WHERE {mine}", scope, ns),
        ]
        lives = {life for _, life in threads}
        if lives.issuperset(life for _, life in forks):
            break  # else a fork was finished while its source was waited for
    keys = [(life,) for life in {*lives, *(base for base, _ in forks)}]
    for key in keys:
        yield from remove_entries(t, "life = ?", key)
    yield from execute(
        *(
            many(f"DELETE FROM {table} WHERE life = ?", keys)
            for table in (t.checkpoints, t.writes, t.hidden, t.lives)
        ),
        many(f"DELETE FROM {t.forks} WHERE base = ? AND life = ?", forks),
        many(
            f"DELETE FROM {t.threads} WHERE scope = ? AND ns = ? AND thread_id = ?",
            [(scope, ns, thread_id) for thread_id, _ in threads],
        ),
    )
    return len(threads)

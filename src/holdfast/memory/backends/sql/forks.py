"""Who reads whom. A fork names the life that it was forked from as its base; what that one reads of still earlier lives
it reads too. A life whose thread is gone, but which forks read, is a ghost: it keeps its own base."""

from collections.abc import Sequence

from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.lineage import ThreadRow
from holdfast.memory.backends.sql.plan import Plan, fetch, rows

_BASES_A_QUERY = 500


def read_by_forks(t: Tables, life: bytes) -> Plan[int]:
    """The highest sequence of this life that a fork reads; 0 if there is none."""
    found = yield from fetch(
        f"SELECT MAX(upto) FROM {t.threads} WHERE base = ?"
        f" UNION ALL SELECT MAX(upto) FROM {t.ghosts} WHERE base = ?",
        *(life, life),
    )
    return max(int(highest or 0) for (highest,) in found)


def lock_bases(t: Tables, thread: ThreadRow) -> Plan[None]:
    """Before a thread goes: what it was forked from is locked, its base first, then that one's, as long as there are
    threads or ghosts. Who holds a life's row is the only one to see its forks come to an end; so of two that go at the
    same time, the second finds what the first left. All lock from a fork upwards: nobody waits in a circle.
    """
    if not t.dialect.lock or not thread.inherited:
        return
    yield [
        statement
        for span in reversed(thread.inherited)
        for statement in (
            rows(
                f"SELECT life FROM {t.threads} WHERE (scope, ns, thread_id) IN"
                f" (SELECT scope, ns, thread_id FROM {t.lives} WHERE life = ?){t.dialect.lock}",
                span.life,
            ),
            # A thread that was waited for, and is gone now, may have left a ghost.
            rows(f"SELECT life FROM {t.ghosts} WHERE life = ?{t.dialect.lock}", span.life),
        )
    ]


def readers(t: Tables, life: bytes, seq: int) -> Plan[list[ThreadKey]]:
    """The threads that were forked, directly or not, from this life at that sequence or later."""
    keys: list[ThreadKey] = []
    bases, least = [life], seq
    while bases:
        some, bases = bases[:_BASES_A_QUERY], bases[_BASES_A_QUERY:]
        marks = ", ".join("?" * len(some))
        threads, ghosts = yield [
            rows(
                f"SELECT life, scope, ns, thread_id FROM {t.threads} WHERE base IN ({marks}) AND upto >= ?",
                *(*some, least),
            ),
            rows(f"SELECT life FROM {t.ghosts} WHERE base IN ({marks}) AND upto >= ?", *some, least),
        ]
        keys += [(scope, ns, thread_id) for _, scope, ns, thread_id in threads]
        bases += [row[0] for row in (*threads, *ghosts)]
        least = 0  # a fork of a fork reads all that the fork reads
    return keys


def count_inherited(t: Tables, forks: Sequence[ThreadRow]) -> Plan[int]:
    """How many checkpoints these threads show that are not their own."""
    spans = list(dict.fromkeys(span for thread in forks for span in thread.inherited))
    if not spans:
        return 0
    counts = yield [
        rows(
            f"SELECT COUNT(*) FROM {t.checkpoints} WHERE life = ? AND seq BETWEEN ? AND ?",
            *(span.life, span.first, span.last),
        )
        for span in spans
    ]
    there = {span: int(count) for span, ((count,),) in zip(spans, counts, strict=True)}
    hidden = yield [
        rows(f"SELECT COUNT(*) FROM {t.hidden} WHERE life = ? AND seq < ?", thread.life, thread.own.first)
        for thread in forks
    ]
    shown = sum(there[span] for thread in forks for span in thread.inherited)
    return shown - sum(int(count) for ((count,),) in hidden)

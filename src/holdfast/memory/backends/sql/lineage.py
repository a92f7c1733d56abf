"""What a thread sees: its own checkpoints, and those that it inherited from the lives it was forked from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import Corrupt
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.keys import scope_number
from holdfast.memory.backends.sql.plan import Statement
from holdfast.memory.backends.sql.slots import SLOTS

FOREVER = 2**62

THREAD_COLUMNS = "life, head_seq, next_seq, saved, created_at, updated_at, expires_at, pending, lineage"


@dataclass(frozen=True, slots=True)
class Span:
    """Checkpoints of one life from a first to a last sequence."""

    life: bytes
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A row of the table of threads.

    ``pending``: its head may have pending writes. ``spans``: all that the thread can see, oldest first, its own last.
    """

    scope: str
    ns: str
    thread_id: str
    life: bytes
    head_seq: int
    next_seq: int
    saved: int
    created_at: int
    updated_at: int
    expires_at: int | None
    pending: int
    spans: tuple[Span, ...]

    @property
    def own(self) -> Span:
        return self.spans[-1]

    @property
    def inherited(self) -> tuple[Span, ...]:
        return self.spans[:-1]

    def owner(self, seq: int) -> bytes:
        """The life whose checkpoint has that sequence here."""
        return next(span.life for span in self.spans if seq <= span.last)

    def until(self, seq: int) -> tuple[Span, ...]:
        """What the thread could see when that sequence was its newest."""
        return tuple(Span(s.life, s.first, min(s.last, seq)) for s in self.spans if s.first <= seq)

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def thread_row(key: tuple[str, str, str], row: Sequence[Any]) -> ThreadRow:
    """From the columns in :data:`THREAD_COLUMNS`."""
    life, head_seq, next_seq, saved, created_at, updated_at, expires_at, pending, lineage = row
    numbers = (head_seq, next_seq, saved, created_at, updated_at, expires_at, pending)
    return ThreadRow(*key, life, *numbers, load_lineage(lineage, life))


def dump_lineage(inherited: Sequence[Span]) -> str:
    return json.dumps([[span.life.hex(), span.last] for span in inherited], separators=(",", ":"))


def load_lineage(text: str, life: bytes) -> tuple[Span, ...]:
    if text == "[]":
        return (Span(life, 1, FOREVER),)
    spans: list[Span] = []
    first = 1
    try:
        for base, last in json.loads(text):
            spans.append(Span(bytes.fromhex(base), first, last))
            first = last + 1
    except (ValueError, TypeError) as error:
        place = f"life {life.hex()}"
        raise Corrupt(f"the lineage of {place} can't be read: {text!r}", place=place) from error
    spans.append(Span(life, first, FOREVER))
    return tuple(spans)


def visible(t: Tables, row: ThreadRow) -> tuple[str, list[Any]]:
    """A condition, with its parameters, on checkpoints ``c``: what this thread shows."""
    parts = " OR ".join(["(c.life = ? AND c.seq BETWEEN ? AND ?)"] * len(row.spans))
    params: list[Any] = [value for s in row.spans for value in (s.life, s.first, s.last)]
    hidden = f"NOT EXISTS (SELECT 1 FROM {t.hidden} h WHERE h.life = ? AND h.seq = c.seq)"
    return f"({parts}) AND {hidden}", [*params, row.life]


def next_number(t: Tables) -> str:
    """An expression over the threads of one scope, with the time as its parameter: the number of the next save.

    Above all that are there, and above those that are no longer there as long as the clock doesn't run backwards.
    """
    return f"{t.dialect.greatest}(COALESCE(MAX(saved), 0) + 1, ?)"


def thread_sql(t: Tables) -> str:
    """The text of :func:`new_thread`."""
    before, after = (
        "scope, ns, thread_id, life, head_seq, next_seq",
        "created_at, updated_at, expires_at, pending, lineage",
    )
    if t.dialect.counted:
        return (
            f"INSERT INTO {t.threads} ({before}, saved, {after}) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)"
        )
    if t.dialect.numbering:
        return (
            f"INSERT INTO {t.threads} ({before}, {after}) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
            f" WHERE {t.dialect.holding}"
        )
    return (
        f"INSERT INTO {t.threads} ({before}, saved, {after})"
        f" SELECT ?, ?, ?, ?, ?, ?, {next_number(t)}, ?, ?, ?, ?, ? FROM {t.threads} WHERE scope = ? AND ns = ?"
    )


def new_thread(
    t: Tables,
    key: tuple[str, str, str],
    life: bytes,
    head_seq: int,
    now: int,
    expires: int | None,
    *,
    sql: str | None = None,
    created: int | None = None,
    pending: int = 0,
    lineage: str = "[]",
    mark: int = 0,
) -> Statement:
    """The row of a thread that is new, and the one that was saved last."""
    scope, ns, _ = key
    before = (*key, life, head_seq, head_seq + 1)
    after = (now if created is None else created, now, expires, pending, lineage)
    if t.dialect.counted:
        values: tuple[Any, ...] = (*before, *after)
    elif t.dialect.numbering:
        values = (*before, *after, scope_number(t.threads, scope, ns))
    else:
        values = (*before, now, *after, scope, ns)
    return Statement("change", sql or thread_sql(t), values, mark)


def count_save(t: Tables, key: tuple[str, str, str]) -> list[Statement]:
    """Give the thread the next number, as the last thing in a transaction, where numbers are counted.

    The counter is locked until the commit, so numbers are committed in their order.
    """
    if not t.dialect.counted:
        return []
    slot = scope_number(t.threads, *key[:2]) % SLOTS
    number = f"SELECT number FROM {t.numbers} WHERE slot = ?"
    return [
        Statement("change", f"UPDATE {t.numbers} SET number = number + 1 WHERE slot = ?", (slot,)),
        Statement(
            "change",
            f"UPDATE {t.threads} SET saved = ({number}) WHERE scope = ? AND ns = ? AND thread_id = ?",
            (slot, *key),
        ),
    ]

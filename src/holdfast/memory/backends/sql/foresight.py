"""Reading what a plan is about to ask for, in one round trip.

A plan asks for a thread's row, then for a checkpoint's, then for entries: each question needs the answer before. A
server can follow the same path in one batch. The plan itself stays as it is: its questions are answered from what was
read ahead, and what was not foreseen is asked for.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from holdfast.core.ids import told_sequence
from holdfast.memory.backends.sql import reading
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.lineage import ThreadRow, thread_row
from holdfast.memory.backends.sql.plan import Batch, Plan, PlanFactory, Row, Statement, last, rows

T = TypeVar("T")

_MINE = "th.scope = ? AND th.ns = ? AND th.thread_id = ?"


def foreseen(
    t: Tables, key: ThreadKey, encoded_id: str | None, plan: PlanFactory[T], *, lists: bool = True
) -> Plan[T]:
    """A plan that reads one checkpoint, or the head, in one round trip where the database can.

    ``lists``: the elements of its lists too.
    """
    if not t.dialect.spans:
        return (yield from plan())
    batch, source = _questions(t, key, encoded_id, lock=False)
    found = yield last([*batch, *([_entries(t, source)] if lists else ())])
    answers = _Answers(t, key, encoded_id, found[:2], found[2] if lists else None)
    try:
        return _answered(plan(), answers)
    except _NotForeseen:
        # What was read ahead is of a transaction that is over: all is asked for again.
        return (yield from plan())


def foresee_save(
    t: Tables, key: ThreadKey, encoded_id: str | None, plan: PlanFactory[T], *, lists: bool
) -> Plan[T]:
    """A plan that saves on what is stored, with one round trip for all that it reads where the database can.

    The thread's row is locked first, so nothing that it asks for later is newer. ``lists``: it will want the elements
    of the head's lists too.
    """
    if not t.dialect.spans:
        return (yield from plan())
    batch, source = _questions(t, key, None, lock=True)
    twin = _questions(t, key, encoded_id, lock=False)[0][1:] if encoded_id is not None else []
    entries = [_entries(t, source)] if lists else []
    found = yield [*batch, _ends(t, source), *twin, *entries]
    answers = _Answers(
        t, key, encoded_id, [*found[:2], *found[3 : 3 + len(twin)]], found[-1] if lists else None
    )
    answers.ends = {(bytes(life), log): (end, seal) for life, log, end, seal in found[2]}
    running = plan()
    try:
        asked = next(running)
        while True:
            results = answers.to(asked)
            asked = running.send((yield asked) if results is None else results)
    except StopIteration as stop:
        value: T = stop.value
        return value


class _NotForeseen(Exception):
    """The plan asked for what was not read ahead."""


def _answered(plan: Plan[T], answers: "_Answers") -> T:
    try:
        asked = next(plan)
        while True:
            results = answers.to(asked)
            if results is None:
                plan.close()
                raise _NotForeseen
            asked = plan.send(results)
    except StopIteration as stop:
        value: T = stop.value
        return value


# ── questions ─────────────────────────────────────────────────────────────────────────────────────


def _questions(
    t: Tables, key: ThreadKey, encoded_id: str | None, *, lock: bool
) -> tuple[Batch, tuple[str, tuple[Any, ...]]]:
    """The thread's row and the checkpoint's, and what the latter comes from, to be joined with."""
    if encoded_id is None:
        owner = "CASE WHEN th.upto >= th.head_seq THEN th.base ELSE th.life END"
        source = (
            f"{t.threads} th JOIN {t.checkpoints} c ON c.life = {owner} AND c.seq = th.head_seq WHERE {_MINE}"
        )
        params: tuple[Any, ...] = key
    else:
        own = (
            f"{t.checkpoints} c JOIN {t.threads} th ON c.life = th.life WHERE {_MINE} AND c.checkpoint_id = ?"
            f" AND NOT EXISTS (SELECT 1 FROM {t.hidden} h WHERE h.life = c.life AND h.seq = c.seq)"
        )
        either = (
            f"SELECT c.* FROM {own} AND c.seq = ? UNION ALL SELECT c.* FROM {own} AND c.named IS NOT NULL"
        )
        source = f"({either}) c WHERE 1 = 1"
        params = (*key, encoded_id, told_sequence(encoded_id) or 0, *key, encoded_id)
    batch = [
        reading.thread_query(t, key, lock=lock),
        rows(f"SELECT {reading.CHECKPOINT_COLUMNS} FROM {source}", *params),
    ]
    return batch, (source, params)


def _entries(t: Tables, source: tuple[str, tuple[Any, ...]]) -> Statement:
    """All entries that the checkpoint's lists lead through."""
    columns = "e.life, e.log, e.pos, e.size, e.seal, e.body"
    spanned = "e.life = s.life AND e.log = s.log AND e.pos >= s.first_pos AND e.pos < s.end_pos"
    each = f"LATERAL (SELECT {columns} FROM {t.entries} e WHERE {spanned} ORDER BY e.pos OFFSET 0) e"
    return _joined(t, columns, each, source)


def _ends(t: Tables, source: tuple[str, tuple[Any, ...]]) -> Statement:
    """Where the logs of the checkpoint's lists end, and with which seals."""
    each = (
        f"LATERAL (SELECT e.pos + e.size AS log_end, e.seal FROM {t.entries} e WHERE e.life = s.life AND e.log = s.log"
        " ORDER BY e.pos DESC LIMIT 1) e"
    )
    return _joined(t, "s.life, s.log, e.log_end, e.seal", each, source)


def _joined(t: Tables, columns: str, each: str, source: tuple[str, tuple[Any, ...]]) -> Statement:
    text, params = source
    tables, where, condition = text.rpartition(" WHERE ")
    return rows(
        f"SELECT {columns} FROM {tables} CROSS JOIN LATERAL ({t.dialect.spans}) s CROSS JOIN {each}{where}{condition}",
        *params,
    )


# ── answers ───────────────────────────────────────────────────────────────────────────────────────


class _Answers:
    """What was read ahead, by the question that it answers."""

    def __init__(
        self,
        t: Tables,
        key: ThreadKey,
        encoded_id: str | None,
        found: Sequence[Sequence[Row]],
        entries: Sequence[Row] | None,
    ) -> None:
        self._known: dict[tuple[str, tuple[Any, ...]], Sequence[Row]] = {}
        self._entries_sql = reading.entries_sql(t)
        self._ends_sql = reading.log_end_sql(t)
        self._logs: dict[tuple[bytes, int], list[Row]] | None = None
        self.ends: dict[tuple[bytes, int], tuple[int, int]] = {}
        thread_rows, *checkpoints = found
        for lock in (False, True):
            self._know(reading.thread_query(t, key, lock=lock), thread_rows)
        thread = thread_row(key, thread_rows[0]) if thread_rows else None
        if thread is None:
            return
        # A fork whose newest ones are deleted may have a head that is not its base's: that is asked for again.
        if checkpoints[0] and (encoded_id is None or len(checkpoints) > 1):
            self._know(
                reading.checkpoint_query(t, thread.owner(thread.head_seq), thread.head_seq), checkpoints[0]
            )
        if encoded_id is not None:
            self._know_by_id(t, thread, encoded_id, checkpoints[-1])
        if entries is not None:
            self._logs = {}
            for life, log, *rest in entries:
                self._logs.setdefault((bytes(life), log), []).append(tuple(rest))

    def _know(self, question: Statement, answer: Sequence[Row]) -> None:
        self._known[question.sql, tuple(question.params)] = answer

    def _know_by_id(self, t: Tables, thread: ThreadRow, encoded_id: str, found: Sequence[Row]) -> None:
        if not found and thread.inherited:
            return  # one of those that it inherited may have the id
        for question in reading.by_id_queries(t, thread, encoded_id):
            self._know(question, found)

    def to(self, batch: Batch) -> list[Any] | None:
        """The answers to a whole batch, or ``None``."""
        results: list[Any] = []
        for kind, sql, params, _ in batch:
            answer: Sequence[Row] | None
            if kind != "rows":
                return None
            if sql == self._entries_sql and self._logs is not None:
                life, log, start, end = params
                answer = [row for row in self._logs.get((bytes(life), log), ()) if start <= row[0] < end]
            elif sql == self._ends_sql:
                life, log = params
                ending = self.ends.get((bytes(life), log))
                answer = None if ending is None else [ending]
            else:
                answer = self._known.get((sql, tuple(params)))
            if answer is None:
                return None
            results.append(answer)
        return results

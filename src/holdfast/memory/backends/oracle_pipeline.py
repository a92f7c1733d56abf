"""A batch as pipelines of the driver: one round trip each, from 23ai on, on event loops.

What is known about them, and kept to here:

- The answer does not say how many rows a statement changed. One row of values is one row, also if it is merged; other
  changes go in a block that counts. Of an array of changes the number is not told (-1): no plan asks for it.
- The first error ends a pipeline, its commit included. A guard that changes nothing raises one, so it comes first.
- A query that has LOBs is run again behind the whole pipeline: no change comes behind a query, and no commit.
- A value that has to be streamed needs round trips of its own. Such a batch does not go this way, nor does DDL.
- Each statement has a cursor open at the server until all are done: pipelines are short.
- The driver's `call_timeout` does not count there: with one, statements go one by one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import oracledb

from holdfast.memory.backends.oracle_errors import code_of
from holdfast.memory.backends.oracle_sql import OracleText, bound, is_long, long_texts
from holdfast.memory.backends.sql.plan import GUARD, Batch

WITH_PIPELINES = 23
"""The first release that has them; with an older one the driver sends statements one by one."""
_ARRAY = 500  # rows that come along with an answer
_LONGEST = (
    50  # statements; a server gives a session 300 cursors if nobody says otherwise, and 200 are kept parsed
)
_NOTHING_CHANGED = 20111
_COUNT = "hf_rows"
_STOP = (
    f"IF SQL%ROWCOUNT = 0 THEN RAISE_APPLICATION_ERROR(-{_NOTHING_CHANGED}, 'nothing was changed'); END IF; "
)
_UNKNOWN = -1


class Step(NamedTuple):
    """A statement with its binds, or with a list of them."""

    kind: str
    text: OracleText
    binds: Any
    guards: bool

    @property
    def queries(self) -> bool:
        return self.text.queries


def pipelines(
    batch: Batch, text_of: Callable[[str], OracleText], native: set[str]
) -> list[list[Step]] | None:
    """The batch in parts that are a pipeline each; ``None`` if it has to go one by one."""
    parts: list[list[Step]] = [[]]
    for kind, sql, params, mark in batch:
        text = text_of(sql)
        own = text.table in native
        if kind == "many":
            binds: Any = [bound(text, row, own) for row in params]
            long = any(is_long(text, row) for row in binds)
        else:
            binds = bound(text, params, own)
            long = is_long(text, binds) or bool(long_texts(text, binds))
        # A limit is not taken in every block.
        limited = not text.queries and "FETCH FIRST" in text.sql
        if long or limited or text.creates or not text.sql.startswith(_TAKEN):
            return None
        step = Step(kind, text, binds, bool(mark & GUARD))
        last = parts[-1]
        if last and (step.guards or (last[-1].queries and not step.queries) or len(last) == _LONGEST):
            parts.append([])
        parts[-1].append(step)
    return parts


_TAKEN = ("SELECT", "WITH", "INSERT INTO", "UPDATE", "DELETE", "MERGE")


class Exchange:
    """One pipeline: what is sent, and what comes back."""

    def __init__(self, connection: Any, first: str = "") -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._pipeline = oracledb.create_pipeline()
        self._readers: list[Callable[[Any], Any]] = []
        self._skipped = 0
        self._guards = False
        if first:
            self._pipeline.add_execute(first)
            self._skipped = 1

    def add(self, step: Step) -> None:
        kind, text, binds, guards = step
        if text.queries:
            self._pipeline.add_fetchall(
                text.sql, binds, arraysize=_ARRAY, fetch_lobs=False, fetch_decimals=False
            )
            self._readers.append(_rows)
        elif kind == "many":
            if binds:
                self._pipeline.add_executemany(text.sql, binds)
            count = len(binds) if text.stores or text.merges or not binds else _UNKNOWN
            self._readers.append(_told(count, answered=bool(binds)))
        elif text.stores or text.merges:
            self._pipeline.add_execute(text.sql, binds)
            self._readers.append(_told(1, answered=True))
        else:
            self._guards = self._guards or guards
            counted = self._cursor.var(oracledb.DB_TYPE_NUMBER)
            block = f"BEGIN {text.sql}; :{_COUNT} := SQL%ROWCOUNT; {_STOP if guards else ''}END;"
            self._pipeline.add_execute(block, {**binds, _COUNT: counted})
            self._readers.append(_counted(counted))

    async def run(self, *, commit: bool) -> list[Any]:
        """The answers; ``[0]`` if it was a guard's that nothing was changed."""
        if commit:
            self._pipeline.add_commit()
        try:
            found = await self._connection.run_pipeline(self._pipeline)
        except oracledb.DatabaseError as error:
            if self._guards and code_of(error) == _NOTHING_CHANGED:
                return [0]
            raise
        finally:
            self._cursor.close()
        answers = iter(found[self._skipped :])
        results = [reader(answers) for reader in self._readers]
        return [await _read(result) if type(result) is list else result for result in results]


def _rows(answers: Any) -> list[Any]:
    rows: list[Any] = next(answers).rows
    return rows


def _told(count: int, *, answered: bool) -> Callable[[Any], int]:
    def read(answers: Any) -> int:
        if answered:
            next(answers)
        return count

    return read


def _counted(variable: Any) -> Callable[[Any], int]:
    def read(answers: Any) -> int:
        next(answers)
        return int(variable.getvalue())

    return read


async def _read(rows: list[Any]) -> list[Any]:
    """Where a server has no pipelines after all, the driver sends one by one, and gives locators all the same."""
    if not rows or not any(isinstance(value, oracledb.AsyncLOB) for value in rows[0]):
        return rows
    return [
        tuple([await value.read() if isinstance(value, oracledb.AsyncLOB) else value for value in row])
        for row in rows
    ]

"""A connection to Oracle Database while one plan uses it.

Calls of the blocking driver return, those of the asynchronous one are awaited; all else is the same and written once.
"""

import inspect
from typing import Any

import oracledb

from holdfast.memory.backends.oracle_errors import LostBeforeCommit, code_of, is_lost
from holdfast.memory.backends.oracle_pipeline import WITH_PIPELINES, Exchange, Step, pipelines
from holdfast.memory.backends.oracle_sql import (
    WITH_JSON,
    OracleText,
    bound,
    is_long,
    long_texts,
    oracle_text,
)
from holdfast.memory.backends.sql.plan import GUARD, Batch, Statement

_READS = "SET TRANSACTION READ ONLY"
_THERE_ALREADY = (955, 1408)  # the name is used; the columns have an index
_TOO_OLD = (
    406,
    902,
    43853,
)  # COMPATIBLE is lower, or the tablespace's segments are managed by hand: no type JSON


class OracleSession:
    """``native``: the tables whose documents are in columns of type JSON. It grows when such tables are made.
    ``pipelined``: batches may go as pipelines, if the server has them."""

    def __init__(self, pool: Any, connection: Any, native: set[str], *, pipelined: bool) -> None:
        self.pool = pool
        self.connection = connection
        self.in_transaction = False
        self._has_looked = False  # a query was sent that no transaction was around
        self._native = native
        self.release = int(connection.version.partition(".")[0])
        self._has_json = self.release >= WITH_JSON
        self._pipelined = pipelined and self.release >= WITH_PIPELINES
        if self._has_json:
            connection.inputtypehandler = json_variable

    async def run(self, batch: Batch, begin: str, *, commit: bool, dirty: bool) -> list[Any]:
        """See `sql.server_engine.Session`."""
        # One query sees one state of the database anyway, and leaves nothing to commit.
        alone = begin == "read" and commit and len(batch) == 1
        first = _READS if begin == "read" and not alone else ""
        # It must be the first of a transaction, and a query may have begun one.
        if first and self._has_looked:
            await done(self.connection.rollback())
        self._has_looked = alone
        self.in_transaction = self.in_transaction or bool(begin)
        if self._pipelined and len(batch) + bool(first) + commit - alone > 1:
            parts = pipelines(batch, self._text, self._native)
            if parts is not None:
                return await self._run_pipelines(parts, first, commit=commit)
        results = await self._run_each(batch, first)
        if results and batch[len(results) - 1].mark & GUARD and not results[-1]:
            return results
        if commit and not alone:
            await done(self.connection.commit())
        if commit:
            self.in_transaction = False
        return results

    async def _run_pipelines(self, parts: list[list[Step]], first: str, *, commit: bool) -> list[Any]:
        """Each part in one round trip, the commit with the last one unless that has queries."""
        results: list[Any] = []
        for number, part in enumerate(parts, 1):
            exchange = Exchange(self.connection, first)
            for step in part:
                exchange.add(step)
            ends = commit and number == len(parts) and not any(step.queries for step in part)
            try:
                answers = await exchange.run(commit=ends)
            except oracledb.Error as error:
                if is_lost(error) and not ends:
                    raise LostBeforeCommit(error) from error
                raise
            results += answers
            if part and part[0].guards and not answers[0]:
                return results
            first = ""
            self.in_transaction = not ends
        if commit and self.in_transaction:
            await self.connection.commit()
            self.in_transaction = False
        return results

    def _text(self, sql: str) -> OracleText:
        return oracle_text(sql, json=self._has_json)

    async def _run_each(self, batch: Batch, first: str) -> list[Any]:
        """One statement, one round trip."""
        results: list[Any] = []
        try:
            with self.connection.cursor() as cursor:
                if first:
                    await done(cursor.execute(first))
                for statement in batch:
                    results.append(await self._run(cursor, statement))
                    if statement.mark & GUARD and not results[-1]:
                        return results
        except oracledb.Error as error:
            if is_lost(error):
                raise LostBeforeCommit(error) from error
            raise
        return results

    async def _run(self, cursor: Any, statement: Statement) -> Any:
        kind, sql, params, _ = statement
        text = self._text(sql)
        native = text.table in self._native
        if kind == "many":
            return await self._run_many(cursor, text, [bound(text, row, native) for row in params])
        if text.creates:
            return await self._create(cursor, sql, text)
        binds = bound(text, params, native)
        _set_sizes(cursor, text, binds)
        await done(cursor.execute(text.sql, binds, fetch_lobs=False, fetch_decimals=False))
        return await done(cursor.fetchall()) if text.queries else cursor.rowcount

    async def _create(self, cursor: Any, sql: str, text: OracleText) -> int:
        """That it is there already is no error."""
        try:
            await done(cursor.execute(text.sql))
        except oracledb.DatabaseError as error:
            if text.has_json and code_of(error) in _TOO_OLD:
                return await self._create(cursor, sql, oracle_text(sql, json=False))
            if code_of(error) not in _THERE_ALREADY:
                raise
        if text.has_json:
            self._native.add(text.table)
        return 0

    async def _run_many(self, cursor: Any, text: OracleText, rows: list[dict[str, Any]]) -> int:
        """In one round trip; texts that are too long for an array of them go one by one."""
        together = [row for row in rows if not is_long(text, row)]
        count = 0
        if together:
            await done(cursor.executemany(text.sql, together))
            count = cursor.rowcount
        for row in rows:
            if is_long(text, row):
                if text.merges:
                    _set_sizes(cursor, text, row)
                await done(cursor.execute(text.sql, row))
                count += cursor.rowcount
        return count

    async def rollback(self) -> None:
        self.in_transaction = False
        await done(self.connection.rollback())


def _set_sizes(cursor: Any, text: OracleText, binds: dict[str, Any]) -> None:
    if sizes := long_texts(text, binds):
        cursor.setinputsizes(**dict.fromkeys(sizes, oracledb.DB_TYPE_CLOB))


async def done(result: Any) -> Any:
    """What a call of either driver gives."""
    return await result if inspect.isawaitable(result) else result


def json_variable(cursor: Any, value: Any, count: int) -> Any:
    """How the driver takes a value: a dict as the database's own JSON, all else as it does by itself."""
    return cursor.var(oracledb.DB_TYPE_JSON, arraysize=count) if type(value) is dict else None

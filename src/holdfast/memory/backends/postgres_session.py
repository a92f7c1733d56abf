"""A batch of statements as one pipeline: sent at once, answered at once.

psycopg's cursors take several times as long for this as libpq itself, which is used here through psycopg: statements
have few types of parameters, and none is prepared (a pooler in transaction mode would not know it the next time).
"""

import select
import time
from collections.abc import Generator, Sequence
from typing import Any

from psycopg import AsyncConnection, Connection, abc, errors, generators, pq
from psycopg.adapt import Transformer

from holdfast.memory.backends.postgres_texts import encoded, fused, guarding, numbered
from holdfast.memory.backends.postgres_turn import Turn
from holdfast.memory.backends.sql.plan import GUARD, Batch, Statement

_BINARY = 1
_DIVISION_BY_ZERO = "22012"
_BEGIN = {
    "write": b"BEGIN ISOLATION LEVEL READ COMMITTED",
    "read": b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "fresh": b"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
}
_IN_TRANSACTION = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)

AnyConnection = AsyncConnection[Any] | Connection[Any]
Answers = list[tuple[int, list[Any]]]


class PgSession:
    """A connection while one plan uses it."""

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.home: Any = None  # the pool that it goes back to, where there are several
        self._heard: select.poll | None = None
        self._writes = False
        self._stale = False  # a guard has ended the transaction; the server still waits to be told

    @property
    def idle(self) -> bool:
        """Whether the server waits for something new."""
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def silent(self) -> bool:
        """A server that speaks to an idle connection says goodbye: nothing was sent, so nothing is in doubt."""
        if self._heard is None:
            if self.connection.closed:
                return False
            self._heard = select.poll()
            self._heard.register(self.connection.pgconn.socket, select.POLLIN)
        return not self._heard.poll(0)

    @property
    def in_transaction(self) -> bool:
        return not self._stale and self.connection.pgconn.transaction_status in _IN_TRANSACTION

    async def run(self, batch: Batch, begin: str, *, commit: bool, dirty: bool) -> list[Any]:
        """See `sql.server_engine.Session`."""
        if commit and begin == "write" and not self._stale and (one := fused(batch)) is not None:
            held = await self._alone(*one)
            return [held] * (len(batch) if held else 1)
        results: list[Any] = []
        if dirty:  # one guard at a time, so that a failing one takes nothing with it
            while cut := next((i for i, statement in enumerate(batch) if statement.mark & GUARD), -1) + 1:
                part = [*batch[: cut - 1], batch[cut - 1]._replace(mark=0)]
                results += await self._exchange(part, begin, commit=False)
                if not results[-1]:
                    return results
                batch, begin = batch[cut:], ""
        return results + await self._exchange(batch, begin, commit=commit)

    async def rollback(self) -> None:
        await self._exchange([], "rollback", commit=False)

    async def _exchange(self, batch: Batch, begin: str, *, commit: bool) -> list[Any]:
        pipeline = _Pipeline(self.connection.pgconn, Transformer(self.connection))
        if self._stale or begin == "rollback":
            pipeline.control(b"ROLLBACK")
            self._stale = False
        # The server makes one transaction of a pipeline by itself, with a snapshot for each statement.
        alone = commit and (begin in ("write", "fresh") or (begin == "read" and len(batch) == 1))
        if begin in _BEGIN and not alone:
            pipeline.control(_BEGIN[begin])
        for statement in batch:
            pipeline.add(statement)
        if commit and not alone:
            pipeline.control(b"COMMIT")
        if begin:
            self._writes = begin not in ("read", "fresh")
        if isinstance(self.connection, Connection):
            self.connection.wait(pipeline.exchange())
        else:
            await Turn(pipeline.exchange(), self.connection.pgconn.socket, finishes=self._writes)
        try:
            return pipeline.results()
        except _GuardFailed as failed:
            self._stale = self.in_transaction
            return failed.results

    async def _alone(self, command: bytes, params: Sequence[Any]) -> int:
        """One statement that is a transaction by itself; how many rows it changed."""
        connection = self.connection
        pgconn = connection.pgconn
        values, types, formats = encoded(params)
        pgconn.send_query_params(command, values, types, formats, _BINARY)
        steps = generators.execute(pgconn)
        if isinstance(connection, Connection):
            answers = connection.wait(steps)
        else:
            answers = await Turn(steps, pgconn.socket, finishes=True)
        answer = answers[-1]
        if answer.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer)
        return answer.command_tuples or 0


class _GuardFailed(Exception):
    def __init__(self, results: list[Any]) -> None:
        super().__init__()
        self.results = results


class _Pipeline:
    """Commands, and their answers."""

    def __init__(self, pgconn: pq.abc.PGconn, transformer: abc.Transformer) -> None:
        self._pgconn = pgconn
        self._transformer = transformer
        self._send: list[tuple[bytes, Sequence[Sequence[Any]]]] = []
        self._kinds: list[str] = []
        self._answers: list[list[pq.abc.PGresult]] = []

    def control(self, command: bytes) -> None:
        self._send.append((command, ((),)))
        self._kinds.append("control")

    def add(self, statement: Statement) -> None:
        kind, sql, params, mark = statement
        if mark & GUARD:
            self._send.append((guarding(sql), (params,)))
            self._kinds.append("guard")
        else:
            self._send.append((numbered(sql), params if kind == "many" else (params,)))
            self._kinds.append(kind)

    def exchange(self) -> Generator[Any, Any, None]:
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        expected: list[int] = []
        for command, rows in self._send:
            if len(rows) == 1:
                values, types, formats = encoded(rows[0])
                pgconn.send_query_params(command, values, types, formats, _BINARY)
                expected.append(1)
            elif rows:
                # The statement without a name is there until the next one: it is sent once.
                pgconn.send_prepare(b"", command)
                for row in rows:
                    values, _, formats = encoded(row)
                    pgconn.send_query_prepared(b"", values, formats, _BINARY)
                expected.append(len(rows) + 1)
            else:
                expected.append(0)
        pgconn.pipeline_sync()
        yield from generators.send(pgconn)
        for count in expected:
            answers: list[pq.abc.PGresult] = []
            for _ in range(count):
                answers += yield from generators.fetch_many(pgconn)
            self._answers.append(answers)
        while True:
            (answer,) = yield from generators.fetch_many(pgconn)
            if answer.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            self._answers.append([answer])  # what the server says at the end: the commit failed
        pgconn.exit_pipeline_mode()

    def results(self) -> list[Any]:
        results: list[Any] = []
        for kind, answers in zip([*self._kinds, "control"], [*self._answers, []], strict=False):
            for answer in answers:
                if answer.status == pq.ExecStatus.FATAL_ERROR:
                    error = errors.error_from_result(answer)
                    if kind == "guard" and error.sqlstate == _DIVISION_BY_ZERO:
                        raise _GuardFailed([*results, 0])
                    raise error
            if kind == "rows":
                results.append(self._rows(answers[0]))
            elif kind == "guard":
                results.append(self._rows(answers[0])[0][0])
            elif kind != "control":
                results.append(sum(answer.command_tuples or 0 for answer in answers))
        return results

    def _rows(self, answer: pq.abc.PGresult) -> list[Any]:
        count = answer.ntuples
        if not count:
            return []
        self._transformer.set_pgresult(answer)
        rows: list[Any] = self._transformer.load_rows(0, count, tuple)
        return rows

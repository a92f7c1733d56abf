"""The part of python-oracledb's API that Holdfast and the notebooks use: pools, connections, cursors, LOBs.

What is not here is not to be used. Arguments of pools are checked by the real `oracledb.PoolParams`.
"""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import oracledb

from tests.oracle import failing
from tests.oracle.database import OracleDatabase
from tests.oracle.failing import dpy, ora
from tests.oracle.session import Answer, OracleSession

T = TypeVar("T")
_LONGEST_IN_ARRAY = 32_767
_COMMIT = oracledb.PipelineOpType.COMMIT
_CURSORS = 100  # 300 is what a server gives by default, and the driver keeps 200 parsed
_LOBS = (oracledb.DB_TYPE_CLOB, oracledb.DB_TYPE_BLOB)
_threads = ThreadPoolExecutor(64, "oracle double")


class Lob:
    """A locator: the text or the bytes are somewhere else, and have to be read."""

    def __init__(self, value: Any, kind: oracledb.DbType) -> None:
        self._value, self.type = value, kind

    def read(self) -> Any:
        return self._value


class AsyncLob(Lob):
    async def read(self) -> Any:
        return self._value


class Var:
    """See `oracledb.Var`: a value of a type that is said, or one that comes back."""

    def __init__(self, kind: oracledb.DbType, arraysize: int) -> None:
        self.type, self.num_elements = kind, arraysize
        self.values: list[Any] = [None] * arraysize

    def setvalue(self, pos: int, value: Any) -> None:
        self.values[pos] = value

    def getvalue(self, pos: int = 0) -> Any:
        return self.values[pos]


class Cursor:
    """See `oracledb.Cursor`."""

    _lob: type[Lob] = Lob

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.arraysize = oracledb.defaults.arraysize
        self.prefetchrows = oracledb.defaults.prefetchrows
        self.rowcount = 0
        self._answer: Answer | None = None
        self._sizes: dict[str, Any] = {}
        self._open = True

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        if self._answer is None or self._answer.columns is None:
            return None
        return [(name, kind, None, None, None, None, True) for name, kind in self._answer.columns]

    def setinputsizes(self, **sizes: Any) -> None:
        self._sizes = sizes

    def var(self, typ: Any, arraysize: int = 1) -> Var:
        if not isinstance(typ, oracledb.DbType):
            raise TypeError("the double takes types of the database only")
        return Var(typ, arraysize)

    def close(self) -> None:
        self._open = False

    def _handled(self, many: Sequence[Mapping[str, Any]], sizes: dict[str, Any]) -> None:
        """Ask the connection's handler for the type of each value, as the driver does."""
        handler = self.connection.inputtypehandler
        for name in many[0] if handler is not None else ():
            first = next((row[name] for row in many if row.get(name) is not None), None)
            if first is None or name in sizes:
                continue
            made = handler(self, first, len(many))
            if made is not None:
                if not isinstance(made, Var) or made.num_elements < len(many):
                    raise dpy(failing.NO_VARIABLE)
                sizes[name] = made.type

    def _execute(
        self, sql: str, parameters: Any, *, fetch_lobs: bool | None, fetch_decimals: bool | None = None
    ) -> "Cursor | None":
        if parameters is not None and not isinstance(parameters, dict):
            if isinstance(parameters, list | tuple):
                raise dpy(failing.BIND_NOT_IN_TEXT, name="(the double takes named binds only)")
            raise dpy(failing.WRONG_PARAMETERS)
        if block := _BLOCK.fullmatch(sql):
            self._run_block(block, dict(parameters or {}))
            return None
        self._run(sql, [parameters or {}], fetch_lobs, fetch_decimals)
        return self if self._answer is not None and self._answer.columns is not None else None

    def _run_block(self, block: "re.Match[str]", binds: dict[str, Any]) -> None:
        """All or nothing. It takes no text that would have to be streamed, and gives its number when it ends."""
        self.connection.pool.database.blocks.append(block[0])
        count = binds.pop(block["out"], None)
        if not isinstance(count, Var) or count.type is not oracledb.DB_TYPE_NUMBER:
            raise dpy(failing.BIND_WITHOUT_VALUE, name=block["out"])
        if any(isinstance(value, str | bytes) and len(value) > _LONGEST_IN_ARRAY for value in binds.values()):
            raise ora(1460, "unimplemented or unreasonable conversion requested")
        if "FETCH FIRST" in block["sql"]:
            raise ora(6550, "the double knows no limit in a block")
        self._run(block["sql"], [binds], None)
        if not self.rowcount and block["code"]:
            raise ora(int(block["code"]), "nothing was changed")
        count.setvalue(0, self.rowcount)
        self.rowcount = 1

    def _executemany(self, sql: str, parameters: Any) -> None:
        if not isinstance(parameters, list) or not parameters:
            raise dpy(failing.WRONG_MANY)
        if not all(isinstance(row, dict) for row in parameters):
            raise dpy(failing.BIND_NOT_IN_TEXT, name="(the double takes named binds only)")
        _check_types(parameters)
        self._run(sql, parameters, None)
        if self.description is not None:
            raise dpy(failing.NOT_A_CHANGE)

    def _run(
        self,
        sql: str,
        many: Sequence[Mapping[str, Any]],
        fetch_lobs: bool | None,
        fetch_decimals: bool | None = None,
    ) -> None:
        if not isinstance(sql, str):
            raise TypeError("a statement is a string")
        if not self._open:
            raise dpy(failing.CURSOR_CLOSED)
        sizes, self._sizes = self._sizes, {}
        self._answer = None
        if many:
            self._handled(many, sizes)
        with self.connection.using() as session:
            self.connection.pool.database.round_trips += 1 + _temporary_lobs(many, sizes)
            answer = session.run(sql, many, sizes)
        if answer.columns is not None and (
            oracledb.defaults.fetch_decimals if fetch_decimals is None else fetch_decimals
        ):
            answer.rows = [tuple(map(_decimal, row, answer.columns)) for row in answer.rows]
        locators = oracledb.defaults.fetch_lobs if fetch_lobs is None else fetch_lobs
        if locators and answer.columns is not None:
            answer.rows = [tuple(map(self._locator, row, answer.columns)) for row in answer.rows]
        self._answer = answer
        self.rowcount = 0 if answer.columns is not None else answer.count

    def _locator(self, value: Any, column: tuple[str, oracledb.DbType]) -> Any:
        return self._lob(value, column[1]) if value is not None and column[1] in _LOBS else value

    def _take(self, most: int | None) -> list[tuple[Any, ...]]:
        if self._answer is None or self._answer.columns is None:
            raise dpy(failing.NO_ROWS)
        taken = self._answer.rows[:most]
        self._answer.rows = self._answer.rows[len(taken) :]
        self.rowcount += len(taken)
        return taken


class SyncCursor(Cursor):
    def execute(
        self,
        statement: str,
        parameters: Any = None,
        *,
        fetch_lobs: bool | None = None,
        fetch_decimals: bool | None = None,
    ) -> Any:
        return self._execute(statement, parameters, fetch_lobs=fetch_lobs, fetch_decimals=fetch_decimals)

    def executemany(self, statement: str, parameters: Any) -> None:
        self._executemany(statement, parameters)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._take(None)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self._take(1)), None)

    def __enter__(self) -> "SyncCursor":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class AsyncCursor(Cursor):
    _lob = AsyncLob

    async def execute(
        self,
        statement: str,
        parameters: Any = None,
        *,
        fetch_lobs: bool | None = None,
        fetch_decimals: bool | None = None,
    ) -> None:
        await self.connection.on_loop(
            lambda: self._execute(statement, parameters, fetch_lobs=fetch_lobs, fetch_decimals=fetch_decimals)
        )

    async def executemany(self, statement: str, parameters: Any) -> None:
        await self.connection.on_loop(lambda: self._executemany(statement, parameters))

    async def fetchall(self) -> list[tuple[Any, ...]]:
        return self._take(None)

    async def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self._take(1)), None)

    def __enter__(self) -> "AsyncCursor":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> "AsyncCursor":
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()


def _decimal(value: Any, column: tuple[str, oracledb.DbType]) -> Any:
    number = isinstance(value, int | float) and column[1] is oracledb.DB_TYPE_NUMBER
    return Decimal(str(value)) if number else value


def _temporary_lobs(many: Sequence[Mapping[str, Any]], sizes: Mapping[str, Any]) -> int:
    """Round trips for values that are bound as LOBs: each is made at the server, then written."""
    lobs = [name for name, kind in sizes.items() if kind in _LOBS]
    return 2 * sum(row.get(name) is not None for row in many for name in lobs)


def _check_types(rows: Sequence[Mapping[str, Any]]) -> None:
    """The driver takes a bind's type from its first value that is not None."""
    for name in rows[0]:
        kinds = {type(row.get(name)) for row in rows} - {type(None)}
        if any(isinstance(row.get(name), str | bytes) and len(row[name]) > _LONGEST_IN_ARRAY for row in rows):
            raise ora(1461, "can bind a LONG value only for insert into a LONG column")
        if kinds - {int, float} and len(kinds) > 1:
            raise dpy(failing.VALUE_TYPE, type_name=f"{name}: {sorted(kind.__name__ for kind in kinds)}")


_BLOCK = re.compile(
    r"BEGIN (?P<sql>(?:INSERT INTO|UPDATE|DELETE|MERGE)\b[^;]*); :(?P<out>\w+) := SQL%ROWCOUNT;"
    r"(?: IF SQL%ROWCOUNT = 0 THEN RAISE_APPLICATION_ERROR\(-(?P<code>20\d{3}), '[^']*'\); END IF;)? END;"
)
"""The blocks of PL/SQL that the double knows: a change, the number of its rows, and an error if there are none."""


@dataclass
class PipelineOpResult:
    """See `oracledb.PipelineOpResult`: there is no number of rows that were changed."""

    operation: oracledb.PipelineOp
    rows: list[Any] | None = None
    columns: list[Any] | None = None
    error: Any = None
    warning: Any = None
    return_value: Any = None


class _Using:
    """A session while one call uses it: no two at once, and none after it was closed."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def __enter__(self) -> OracleSession:
        session = self._connection.session
        if session is None:
            raise dpy(failing.NOT_CONNECTED)
        session.busy.acquire()
        session.call_timeout = self._connection.call_timeout
        self._session = session
        return session

    def __exit__(self, *raised: object) -> None:
        self._session.busy.release()  # the connection may have been given back meanwhile, by who was cancelled


class Connection:
    """See `oracledb.Connection`."""

    def __init__(self, pool: "Pool", session: OracleSession | None = None) -> None:
        self.pool = pool
        self.session = session
        self.call_timeout = 0
        self.stmtcachesize = 20
        self.autocommit = False
        self.inputtypehandler: Any = None
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def version(self) -> str:
        return self.pool.database.version

    def using(self) -> _Using:
        return _Using(self)

    def is_healthy(self) -> bool:
        return self.session is not None and not self.session.is_cut()

    async def on_loop(self, call: Callable[[], T]) -> T:
        """Run a blocking call in a thread. A connection belongs to the loop that it was opened on."""
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            raise RuntimeError("this connection belongs to another event loop")
        return await loop.run_in_executor(_threads, call)

    def _commit(self) -> None:
        with self.using() as session:
            self.pool.database.round_trips += 1
            session.commit()

    def _rollback(self) -> None:
        with self.using() as session:
            session.rollback()

    def _ping(self) -> None:
        with self.using() as session:
            session.ping()


class SyncConnection(Connection):
    def cursor(self) -> SyncCursor:
        return SyncCursor(self)

    def commit(self) -> None:
        self._commit()

    def rollback(self) -> None:
        self._rollback()

    def ping(self) -> None:
        self._ping()

    def close(self) -> None:
        self.pool.give_back(self)

    def __enter__(self) -> "SyncConnection":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class AsyncConnection(Connection):
    """Made by `AsyncPool.acquire`; connected when it is awaited or entered."""

    def cursor(self) -> AsyncCursor:
        return AsyncCursor(self)

    async def commit(self) -> None:
        await self.on_loop(self._commit)

    async def rollback(self) -> None:
        await self.on_loop(self._rollback)

    async def ping(self) -> None:
        await self.on_loop(self._ping)

    async def close(self) -> None:
        await self.on_loop(lambda: self.pool.give_back(self))

    async def run_pipeline(
        self, pipeline: oracledb.Pipeline, continue_on_error: bool = False
    ) -> list[PipelineOpResult]:
        """In one round trip, and one more for each query that has LOBs, which is run again behind all others."""
        if self.pool.database.release < 23 or continue_on_error:
            raise NotImplementedError("the double has pipelines of 23ai that end at the first error")
        return await self.on_loop(lambda: self._run_pipeline(pipeline))

    def _run_pipeline(self, pipeline: oracledb.Pipeline) -> list[PipelineOpResult]:
        if len(pipeline.operations) > _CURSORS:
            raise ora(1000, "maximum open cursors exceeded")
        with self.using():
            self.pool.database.round_trips += 1
            trips = self.pool.database.round_trips
            results = [PipelineOpResult(operation) for operation in pipeline.operations]
            again = [result for result in results if self._run_operation(result)]
            if again and any(operation.op_type == _COMMIT for operation in pipeline.operations):
                raise NotImplementedError("a query with LOBs would be run again behind the commit: don't")
            for result in again:
                self._run_operation(result)
            self.pool.database.round_trips = trips + len(again)
        return results

    def _run_operation(self, result: PipelineOpResult) -> bool:
        """Whether it was a query that has LOBs."""
        kind, operation = oracledb.PipelineOpType, result.operation
        cursor = AsyncCursor(self)
        if operation.op_type == kind.COMMIT:
            self._commit()
        elif operation.op_type == kind.EXECUTE:
            cursor._execute(operation.statement or "", operation.parameters, fetch_lobs=None)
            if cursor.description is not None:
                raise NotImplementedError("a query is no operation that executes")
        elif operation.op_type == kind.EXECUTE_MANY:
            if (operation.statement or "").startswith("BEGIN"):
                raise NotImplementedError("a block for each of many is run behind the pipeline: don't")
            cursor._executemany(operation.statement or "", operation.parameters)
        elif operation.op_type == kind.FETCH_ALL:
            cursor._execute(
                operation.statement or "",
                operation.parameters,
                fetch_lobs=operation.fetch_lobs,
                fetch_decimals=operation.fetch_decimals,
            )
            result.rows = cursor._take(None)
            result.columns = cursor.description
            return any(column[1] in _LOBS for column in result.columns or ())
        else:
            raise NotImplementedError(f"the double has no {operation.op_type}")
        return False

    async def _connect(self) -> "AsyncConnection":
        self.loop = asyncio.get_running_loop()
        assert isinstance(self.pool, AsyncPool)
        await self.pool.connect(self)
        return self

    def __await__(self) -> Generator[Any, Any, "AsyncConnection"]:
        return self._connect().__await__()

    async def __aenter__(self) -> "AsyncConnection":
        return self if self.session is not None else await self._connect()

    async def __aexit__(self, *raised: object) -> None:
        if self.session is not None:
            await self.close()


class Pool:
    """See `oracledb.ConnectionPool`."""

    def __init__(self, database: OracleDatabase, arguments: Mapping[str, Any]) -> None:
        # Refuses what the real one would.
        parameters = oracledb.PoolParams(**{key: value for key, value in arguments.items() if key != "dsn"})
        if not arguments.get("dsn") and not parameters.host:
            raise dpy(failing.BAD_CONNECT_ARGUMENTS)
        self.database = database
        self.arguments = dict(arguments)
        self.max, self.wait_timeout = parameters.max, parameters.wait_timeout
        self._callback = arguments.get("session_callback")
        self._changed = threading.Condition()
        self._idle: list[OracleSession] = []
        self.opened = self.busy = 0
        self._closed = False

    def take(self) -> tuple[OracleSession, bool]:
        """An idle session, or a new one."""
        deadline = time.monotonic() + (self.wait_timeout or 60_000) / 1000
        with self._changed:
            while True:
                if self._closed:
                    raise dpy(failing.POOL_CLOSED)
                if self._idle:
                    session = self._idle.pop()
                    if session.is_cut():  # the real one looks, too
                        session.close()
                        self.opened -= 1
                        continue
                    self.busy += 1
                    return session, False
                if self.opened < self.max:
                    self.opened += 1
                    self.busy += 1
                    break
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise dpy(failing.POOL_EXHAUSTED)
        try:
            return OracleSession(self.database, str(self.arguments["user"])), True
        except BaseException:
            self._forget()
            raise

    def give_back(self, connection: Connection, *, drop: bool = False) -> None:
        """What was not committed is rolled back; a dead session is forgotten."""
        session, connection.session = connection.session, None
        if session is None:
            raise dpy(failing.NOT_CONNECTED)
        with session.busy:
            try:
                if drop or self._closed:
                    raise ora(3113, "end-of-file on communication channel")
                session.rollback()
            except oracledb.Error:
                session.close()
                self._forget()
                return
        with self._changed:
            self._idle.append(session)
            self.busy -= 1
            self._changed.notify()

    def _forget(self) -> None:
        with self._changed:
            self.opened -= 1
            self.busy -= 1
            self._changed.notify()

    def _close(self, force: bool) -> None:
        with self._changed:
            if self._closed:
                raise dpy(failing.POOL_CLOSED)
            if self.busy and not force:
                raise dpy(failing.POOL_BUSY)
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            self._changed.notify_all()


class SyncPool(Pool):
    def acquire(self) -> SyncConnection:
        session, new = self.take()
        connection = SyncConnection(self, session)
        if new and self._callback is not None:
            self._callback(connection, None)
        return connection

    def release(self, connection: SyncConnection) -> None:
        self.give_back(connection)

    def drop(self, connection: SyncConnection) -> None:
        self.give_back(connection, drop=True)

    def close(self, force: bool = False) -> None:
        self._close(force)


class AsyncPool(Pool):
    """Its connections work on one event loop only, as those of the real driver."""

    def acquire(self) -> AsyncConnection:
        return AsyncConnection(self)

    async def connect(self, connection: AsyncConnection) -> None:
        loop = asyncio.get_running_loop()
        connection.session, new = await loop.run_in_executor(_threads, self.take)
        if new and self._callback is not None:
            await self._callback(connection, None)

    async def release(self, connection: AsyncConnection) -> None:
        await connection.on_loop(lambda: self.give_back(connection))

    async def drop(self, connection: AsyncConnection) -> None:
        await connection.on_loop(lambda: self.give_back(connection, drop=True))

    async def close(self, force: bool = False) -> None:
        self._close(force)

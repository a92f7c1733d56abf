"""Connections to Oracle Database: oracledb in thin mode, one pool for each event loop, one for blocking callers.

Calls of the blocking driver return, those of the asynchronous one are awaited; all else is the same and written once.
"""

import asyncio
import contextlib
import inspect
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import oracledb

from holdfast.core.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    SchemaMismatch,
    StorageFull,
    Unavailable,
    Unsupported,
)
from holdfast.memory.backends.oracle_sql import bound, is_long, long_texts, oracle_text
from holdfast.memory.backends.sql.plan import GUARD, Batch, Plan, Statement, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.server_engine import Failure

_STATEMENTS = 200  # how many a connection keeps parsed
_THERE_ALREADY = (955, 1408)  # the name is used; the columns have an index
_UNDONE = (1, 60, 8177)  # unique key, deadlock, can't serialize
_FULL = (1536, 1652, 1653, 1654, 1658, 1688, 1691, 1692, 30036, 257)
_CHANGED = (904, 942, 2289)
_TOO_LONG = (1461, 12899, 1450)
_LOST = ("DPY-1001", "DPY-4011")


class OracleSession:
    """A connection while one plan uses it. Statements go one by one: a pipeline does not tell how many rows changed."""

    def __init__(self, pool: Any, connection: Any) -> None:
        self.pool = pool
        self.connection = connection
        self.in_transaction = False

    async def run(self, batch: Batch, begin: str, *, commit: bool, dirty: bool) -> list[Any]:
        """See `sql.server_engine.Session`."""
        results: list[Any] = []
        try:
            with self.connection.cursor() as cursor:
                # One statement sees one state of the database anyway.
                if begin == "read" and not (commit and len(batch) == 1):
                    await _done(cursor.execute("SET TRANSACTION READ ONLY"))
                self.in_transaction = self.in_transaction or bool(begin)
                for statement in batch:
                    results.append(await self._run(cursor, statement))
                    if statement.mark & GUARD and not results[-1]:
                        return results
        except oracledb.Error as error:
            if _is_lost(error):
                raise _LostBeforeCommit(error) from error
            raise
        if commit:
            await _done(self.connection.commit())
            self.in_transaction = False
        return results

    async def _run(self, cursor: Any, statement: Statement) -> Any:
        kind, sql, params, _ = statement
        text = oracle_text(sql)
        if kind == "many":
            return await self._run_many(cursor, text.sql, [bound(text, row) for row in params])
        binds = bound(text, params)
        if sizes := long_texts(text, binds):
            cursor.setinputsizes(**dict.fromkeys(sizes, oracledb.DB_TYPE_CLOB))
        try:
            await _done(cursor.execute(text.sql, binds, fetch_lobs=False))
        except oracledb.DatabaseError as error:
            if not text.if_absent or _code(error) not in _THERE_ALREADY:
                raise
            return 0
        return await _done(cursor.fetchall()) if text.queries else cursor.rowcount

    async def _run_many(self, cursor: Any, sql: str, rows: list[dict[str, Any]]) -> int:
        """In one round trip; texts that are too long for an array of them go one by one."""
        together = [row for row in rows if not is_long(row)]
        count = 0
        if together:
            await _done(cursor.executemany(sql, together))
            count = cursor.rowcount
        for row in rows:
            if is_long(row):
                await _done(cursor.execute(sql, row))
                count += cursor.rowcount
        return count

    async def rollback(self) -> None:
        self.in_transaction = False
        await _done(self.connection.rollback())


class _LostBeforeCommit(Exception):
    """The connection broke while nothing had been told to commit: the server undoes what was sent."""

    def __init__(self, error: oracledb.Error) -> None:
        super().__init__(str(error))
        self.error = error


def _is_lost(error: oracledb.Error) -> bool:
    what = error.args[0] if error.args else None
    return str(getattr(what, "full_code", "")) in _LOST or bool(getattr(what, "is_session_dead", False))


async def _done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _code(error: oracledb.Error) -> int:
    return int(getattr(error.args[0], "code", 0)) if error.args else 0


class OracleDriver:
    """What blocking and asynchronous connections share. ``schema``: where the tables are, if not the user's own."""

    blocking = True
    finishes = True

    def __init__(self, arguments: Mapping[str, Any], *, schema: str | None, call_timeout: int) -> None:
        self._arguments = {
            **arguments,
            "increment": 1,
            "getmode": oracledb.POOL_GETMODE_TIMEDWAIT,
            "stmtcachesize": _STATEMENTS,
        }
        self._schema = schema
        self._call_timeout = call_timeout
        where = arguments.get("dsn") or "{host}:{port}/{service_name}".format_map(arguments)
        self.place = f"Oracle {where.rpartition('@')[2]}"
        self.start()

    def start(self) -> None:
        """See `Driver.start`."""
        raise NotImplementedError

    def existing(self, schema: Schema) -> Plan[set[str]]:
        yield from self._check_settings()
        names = {name.rpartition(".")[2].upper(): name for name in (schema.meta, *schema.tables)}
        marks = ", ".join("?" * len(names))
        owner = "SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')" if self._schema is None else "?"
        found = yield from fetch(
            f"SELECT table_name FROM all_tables WHERE owner = {owner} AND table_name IN ({marks})",
            *(() if self._schema is None else (self._schema.upper(),)),
            *names,
        )
        return {names[name] for (name,) in found}

    def _check_settings(self) -> Plan[None]:
        """Ids of any script must fit, and be compared and sorted by their bytes."""
        found = yield from fetch(
            "SELECT parameter, value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET' UNION ALL"
            " SELECT parameter, value FROM nls_session_parameters WHERE parameter IN ('NLS_SORT', 'NLS_COMP')"
        )
        wanted = {"NLS_CHARACTERSET": "AL32UTF8", "NLS_SORT": "BINARY", "NLS_COMP": "BINARY"}
        for name, value in found:
            if value != wanted[name]:
                raise Unsupported(f"{self.place}: {name} is {value}, Holdfast needs {wanted[name]}")

    def begin_migration(self) -> Plan[None]:
        """Oracle commits at each step, and each is harmless if it was done: who comes second does no harm."""
        yield from ()

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, _LostBeforeCommit):
            lost = Unavailable(f"{self.place}: {str(error).splitlines()[0]}; nothing was written")
            return Failure(lost, undone=True, lost=True)
        if not isinstance(error, oracledb.Error):
            return None
        what = error.args[0] if error.args else None
        code, full_code = _code(error), str(getattr(what, "full_code", ""))
        text = f"{self.place}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        if code in _UNDONE:
            return Failure(Conflict(f"{self.place}: another writer was first: {text}"), undone=True)
        if _is_lost(error):
            return Failure(Unavailable(f"{text}; whether it was done is not known"), lost=True)
        if full_code == "DPY-1002":
            return Failure(Closed(f"{self.place} is closed"))
        if full_code == "DPY-4005":
            seconds = self._arguments["wait_timeout"] / 1000
            return Failure(Unavailable(f"{self.place}: no connection was free within {seconds:g} s"))
        return Failure(_meaning(code, full_code, text, self.place))

    def prepared(self, pool: Any, connection: Any) -> OracleSession:
        connection.call_timeout = self._call_timeout
        return OracleSession(pool, connection)

    async def release(self, session: OracleSession, *, broken: bool) -> None:
        give_back = session.pool.drop if broken else session.pool.release
        with contextlib.suppress(oracledb.Error):  # the pool was closed meanwhile, or the connection is gone
            await _done(give_back(session.connection))


def _meaning(code: int, full_code: str, text: str, place: str) -> HoldfastError:
    if code in _FULL:
        return StorageFull(f"{text}; nothing was written, what was stored stays readable")
    if code in _CHANGED:
        return SchemaMismatch(f"{text}; its tables were changed or dropped, or the user may not see them")
    if code == 1031:
        return Unavailable(f"{text}; the user lacks a right that it needs")
    if code in _TOO_LONG:
        return InvalidInput(f"{text}; a namespace has at most 2,000 bytes on Oracle")
    if code == 1578:
        return Corrupt(text, place=place)
    # Connecting, logging in, a server that starts or stops, a call that took too long.
    refused = full_code.startswith(("DPY-6", "DPY-4", "DPY-2")) or 12150 <= code <= 12699
    if refused or code in (1005, 1017, 1033, 1034, 1089, 1090, 1109, 1013, 54, 30006, 28000, 28001):
        return Unavailable(text)
    return HoldfastError(text)


class BlockingOracleDriver(OracleDriver):
    """Connections for blocking callers, which may be many threads."""

    def start(self) -> None:
        self._opening = threading.Lock()
        self._pool: Any = None

    async def acquire(self) -> OracleSession:
        with self._opening:
            if self._pool is None:
                self._pool = oracledb.create_pool(**self._arguments)
            pool = self._pool
        return self.prepared(pool, pool.acquire())

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            with contextlib.suppress(oracledb.Error):
                pool.close(force=True)


class AsyncOracleDriver(OracleDriver):
    """Connections for event loops: each has its own pool, which is closed on it."""

    blocking = False
    finishes = False

    def start(self) -> None:
        self._pools: dict[int, tuple[weakref.ref[asyncio.AbstractEventLoop], Any]] = {}

    def pool(self) -> Any:
        """The pool of the running loop. Those of loops that are gone are let go of."""
        loop = asyncio.get_running_loop()
        found = self._pools.get(id(loop))
        if found is not None and found[0]() is loop:
            return found[1]
        for key, (other, _) in list(self._pools.items()):
            alive = other()
            if alive is None or alive.is_closed():
                self._pools.pop(key, None)
        made = oracledb.create_pool_async(**self._arguments)
        self._pools[id(loop)] = (weakref.ref(loop), made)
        return made

    async def acquire(self) -> OracleSession:
        pool = self.pool()
        return self.prepared(pool, await pool.acquire())

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        pools, self._pools = self._pools, {}
        for reference, pool in pools.values():
            loop = reference()
            if loop is None or loop.is_closed():
                continue
            with contextlib.suppress(oracledb.Error, TimeoutError):
                if loop is here:
                    await pool.close(force=True)
                elif loop.is_running():
                    closing = asyncio.run_coroutine_threadsafe(pool.close(force=True), loop)
                    await asyncio.wait_for(asyncio.wrap_future(closing), 5)

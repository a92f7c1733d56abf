"""Connections to PostgreSQL: psycopg and its pool, one pool for each event loop, one for blocking callers."""

import asyncio
import contextlib
import select
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection, Connection, Error, OperationalError, conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from holdfast.core.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    SchemaMismatch,
    StorageFull,
    Unavailable,
)
from holdfast.memory.backends.postgres_session import AnyConnection, PgSession
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.server_engine import Failure

_MIGRATING = 7_224_101_998_126_311  # any number that others don't use
_UNDONE = {"40001", "40P01", "23505"}
_REFUSED = ("28", "3D000", "42501", "08P01")
_LOOK_AGAIN = 0.25


def connection_info(dsn: str | None, parts: Mapping[str, Any]) -> str:
    """A connection string. One that can't be read is not shown: it may have a password in it."""
    if dsn is not None and not isinstance(dsn, str):
        raise InvalidInput(
            f"dsn must be a string such as 'postgresql://host/database', got {type(dsn).__name__}"
        )
    try:
        if dsn is None:
            return conninfo.make_conninfo("", **{name: value for name, value in parts.items() if value != ""})
        password = {"password": parts["password"]} if parts["password"] else {}
        return conninfo.make_conninfo(dsn, **password)
    except Error:
        raise InvalidInput(
            "dsn is not a connection string or URL that PostgreSQL understands, such as 'postgresql://host/database'"
        ) from None


class PsycopgDriver:
    """What blocking and asynchronous connections share. ``schema``: where the tables are, if not where the server
    looks first."""

    blocking = True

    def __init__(
        self, info: str, *, schema: str | None, min_size: int, max_size: int, pool_timeout: float
    ) -> None:
        parts = conninfo.conninfo_to_dict(info)
        self._info = info
        self._schema = schema
        self._sizes: dict[str, Any] = {"min_size": min_size, "max_size": max_size}
        self._timeout = pool_timeout
        host = parts.get("host") or parts.get("hostaddr") or "localhost"
        self.place = f"PostgreSQL {host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"
        self.start()

    def start(self) -> None:
        """See `Driver.start`."""
        raise NotImplementedError

    def existing(self, schema: Schema) -> Plan[set[str]]:
        names = (schema.meta, *schema.tables)
        wanted = ", ".join(["(?)"] * len(names))
        found = yield from fetch(
            f"SELECT n FROM (VALUES {wanted}) v (n) WHERE to_regclass(n) IS NOT NULL", *names
        )
        return {name for (name,) in found}

    def begin_migration(self) -> Plan[None]:
        yield from fetch("SELECT pg_advisory_xact_lock(?)", _MIGRATING)
        if self._schema is not None:
            found = yield from fetch("SELECT to_regnamespace(?) IS NULL", self._schema)
            if found[0][0]:
                yield from fetch(f"CREATE SCHEMA {self._schema}")

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, PoolTimeout | TooManyRequests):
            return Failure(Unavailable(f"{self.place}: no connection was free within {self._timeout:g} s"))
        if isinstance(error, PoolClosed):
            return Failure(Closed(f"{self.place} is closed"))
        if not isinstance(error, Error):
            return None
        state = error.sqlstate or ""
        text = f"{self.place}: {error}"
        if state in _UNDONE:
            return Failure(Conflict(f"{self.place}: another writer was first: {error}"), undone=True)
        if not state and isinstance(error, OperationalError):
            return Failure(Unavailable(f"{text}; whether it was done is not known"), lost=True)
        if state[:2] == "57" and state != "57014":  # the server is stopped, or cut this session off
            return Failure(Unavailable(text), lost=True)
        return Failure(_meaning(state, text, self.place))

    def options(self) -> dict[str, Any]:
        """How connections are made. Nothing about one may matter after a transaction: a pooler gives it to others."""
        return {"autocommit": True, "prepare_threshold": None, "client_encoding": "utf8"}


def _meaning(state: str, text: str, place: str) -> HoldfastError:
    if state[:2] == "53" and state not in ("53300", "53400"):
        return StorageFull(f"{text}; nothing was written, what was stored stays readable")
    if state in ("42P01", "42703", "3F000"):
        return SchemaMismatch(f"{text}; its tables were changed or dropped")
    if state == "42501":
        return Unavailable(f"{text}; the role lacks a right that it needs")
    if state in ("XX001", "XX002"):
        return Corrupt(text, place=place)
    if state[:2] in ("08", "25", "28", "3D", "53", "55", "57", "58"):
        return Unavailable(text)
    return HoldfastError(text)


def _alive(connection: AnyConnection) -> None:
    """A server that speaks to an idle connection says goodbye: nothing was sent, so nothing is in doubt."""
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    if waiting.poll(0):
        connection.pgconn.finish()  # else the pool takes it for a good one, and offers it again
        raise OperationalError("the server has closed the connection")


class BlockingDriver(PsycopgDriver):
    """Connections for blocking callers, which may be many threads."""

    def start(self) -> None:
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Any] | None = None
        self._refused: list[Exception] = []

    async def acquire(self) -> PgSession:
        pool = self._pool
        if pool is None:
            with self._opening:
                pool = self._pool = self._pool or self._new_pool()
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return PgSession(pool.getconn(min(_LOOK_AGAIN, self._timeout)))
            except PoolTimeout:
                _give_up(self._refused, deadline)

    def _new_pool(self) -> ConnectionPool[Any]:
        pool: ConnectionPool[Any] = ConnectionPool(
            self._info,
            connection_class=_remembering(Connection, self._refused),
            kwargs=self.options(),
            check=_alive,
            open=False,
            **self._sizes,
        )
        pool.open()
        return pool

    async def release(self, session: PgSession, *, broken: bool) -> None:
        if broken:
            session.connection.pgconn.finish()
        if self._pool is not None:
            self._pool.putconn(session.connection)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


class _LoopPool:
    """The connections of one event loop."""

    def __init__(self, driver: "AsyncDriver", info: str, sizes: Mapping[str, Any]) -> None:
        self.refused: list[Exception] = []
        self.made: weakref.WeakSet[AsyncConnection[Any]] = weakref.WeakSet()
        self.opened = False
        self.pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            info,
            connection_class=_remembering_async(self.refused, self.made),
            kwargs=driver.options(),
            check=_alive_async,
            open=False,
            **sizes,
        )

    def abandon(self) -> None:
        """Its loop is gone: nothing can be awaited there any more."""
        for connection in list(self.made):
            connection.pgconn.finish()


class AsyncDriver(PsycopgDriver):
    """Connections for event loops: each has its own, which are closed on it."""

    blocking = False

    def start(self) -> None:
        self._pools: dict[int, tuple[weakref.ref[asyncio.AbstractEventLoop], _LoopPool]] = {}

    async def acquire(self) -> PgSession:
        mine = self._mine()
        if not mine.opened:
            mine.opened = True
            await mine.pool.open()
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return PgSession(await mine.pool.getconn(min(_LOOK_AGAIN, self._timeout)))
            except PoolTimeout:
                _give_up(mine.refused, deadline)

    def _mine(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        found = self._pools.get(id(loop))
        if found is not None and found[0]() is loop:
            return found[1]
        for key, (other, pool) in list(self._pools.items()):
            alive = other()
            if alive is None or alive.is_closed():
                pool.abandon()
                self._pools.pop(key, None)
        new = _LoopPool(self, self._info, self._sizes)
        self._pools[id(loop)] = (weakref.ref(loop), new)
        return new

    async def release(self, session: PgSession, *, broken: bool) -> None:
        if broken:
            session.connection.pgconn.finish()
        connection = session.connection
        assert isinstance(connection, AsyncConnection)
        await self._mine().pool.putconn(connection)

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        pools, self._pools = self._pools, {}
        for reference, mine in pools.values():
            loop = reference()
            if loop is here:
                await mine.pool.close()
            elif loop is not None and loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(mine.pool.close(), loop)
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(asyncio.wrap_future(closing), self._timeout)
            else:
                mine.abandon()


async def _alive_async(connection: AsyncConnection[Any]) -> None:
    _alive(connection)


def _give_up(refused: list[Exception], deadline: float) -> None:
    """Raise what the server says, if it says that it won't have us, or if there was time enough."""
    error = refused[-1] if refused else None
    state = (isinstance(error, Error) and error.sqlstate) or ""
    text = str(error)
    if error is not None and (
        state.startswith(_REFUSED) or "authentication failed" in text or "does not exist" in text
    ):
        raise Unavailable(text)
    if time.monotonic() >= deadline:
        if error is not None:
            raise Unavailable(text)
        raise PoolTimeout


def _remembering(base: Any, refused: list[Exception]) -> Any:
    """A connection class that remembers why the last attempt to connect failed: the pool only logs it."""

    class Remembering(base):  # type: ignore[misc]  # the base is a parameter
        @classmethod
        def connect(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                connection = super().connect(*args, **kwargs)
            except Exception as error:
                refused[:] = [error]
                raise
            refused.clear()
            return connection

    return Remembering


def _remembering_async(refused: list[Exception], made: Any) -> Any:
    """The same for event loops; it also remembers the connections, which outlive their loop."""

    class Remembering(AsyncConnection[Any]):
        @classmethod
        async def connect(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                connection = await super().connect(*args, **kwargs)
            except Exception as error:
                refused[:] = [error]
                raise
            refused.clear()
            made.add(connection)
            return connection

    return Remembering

"""Connections to MariaDB and MySQL: aiomysql on event loops, PyMySQL for blocking callers; and what errors mean."""

import asyncio
import contextlib
import select
import socket
import threading
from collections.abc import Mapping
from ssl import SSLSocket
from typing import Any

import pymysql
from pymysql import err
from pymysql.constants import CLIENT

from holdfast.core.errors import Unavailable
from holdfast.memory.backends.mysql_errors import PoolTimeout, failure
from holdfast.memory.backends.mysql_session import TAKE_MIGRATION_LOCK, MySession
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.server_engine import Failure
from holdfast.memory.backends.sql.server_pools import LoopPools

_OF_PARENTS: list[Any] = []
_NO_TLS = "the server does not offer TLS, which is asked for"


class MySQLDriver:
    """What blocking and asynchronous connections share."""

    blocking = True
    finishes = True

    def __init__(self, options: Mapping[str, Any], *, max_size: int, pool_timeout: float) -> None:
        flags = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
        self._options: dict[str, Any] = {
            **options,
            "charset": "utf8mb4",
            "client_flag": flags,
            "autocommit": None,
        }
        self._size = max_size
        self._timeout = pool_timeout
        where = options.get("unix_socket") or f"{options['host']}:{options['port']}"
        self.place = f"MySQL {where}/{options['database']}"
        self.start()

    def start(self) -> None:
        """See `Driver.start`."""
        raise NotImplementedError

    def existing(self, schema: Schema) -> Plan[set[str]]:
        names = (schema.meta, *schema.tables)
        found = yield from fetch(
            "SELECT table_name, @@lower_case_table_names FROM information_schema.tables"
            f" WHERE table_schema = DATABASE() AND table_name IN ({', '.join('?' * len(names))})",
            *names,
        )
        there = {name for name, _ in found}
        lowered = any(setting for _, setting in found)
        return {name for name in names if (name.lower() if lowered else name) in there}

    def begin_migration(self) -> Plan[None]:
        # Each statement that makes a table ends the transaction: this lock stays until the session gives it back.
        found = yield from fetch(TAKE_MIGRATION_LOCK, max(1, round(self._timeout)))
        if found != [(1,)]:
            raise Unavailable(f"{self.place}: somebody else has been making tables for {self._timeout:g} s")

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, PoolTimeout):
            return Failure(Unavailable(f"{self.place}: no connection was free within {self._timeout:g} s"))
        return failure(error, self.place)


def _spoken_to(idle: Any) -> bool:
    """A server that speaks to an idle connection says goodbye: nothing was sent, so nothing is in doubt."""
    waiting = select.poll()
    waiting.register(idle, select.POLLIN)
    return bool(waiting.poll(0))


class BlockingDriver(MySQLDriver):
    """Connections for blocking callers, which may be many threads."""

    def start(self) -> None:
        self._idle: list[MySession] = []
        self._turns = threading.BoundedSemaphore(self._size)
        self._closed = False

    async def acquire(self) -> MySession:
        if not self._turns.acquire(timeout=self._timeout):
            raise PoolTimeout
        try:
            with contextlib.suppress(IndexError):
                while True:
                    session = self._idle.pop()
                    if not _spoken_to(session.connection._sock):
                        return session
                    session.connection._force_close()
            session = MySession(self._connect())
            if self._options["ssl"] is not None and not isinstance(session.connection._sock, SSLSocket):
                session.connection._force_close()
                raise Unavailable(f"{self.place}: {_NO_TLS}")
            await session.set_up()
            return session
        except BaseException:
            self._turns.release()
            raise

    def _connect(self) -> Any:
        options = {**self._options, "ssl_disabled": self._options["ssl"] is None}
        if (path := options["unix_socket"]) is None:
            return pymysql.connect(**options)
        # The driver would forget a socket that nobody answers.
        connection = pymysql.connect(**options, defer_connect=True)
        opened = socket.socket(socket.AF_UNIX)
        try:
            opened.settimeout(options["connect_timeout"])
            opened.connect(path)
        except OSError as error:
            opened.close()
            raise err.OperationalError(2002, f"Can't connect through {path!r} ({error})") from None
        connection._secure = True
        connection.connect(opened)
        return connection

    async def release(self, session: MySession, *, broken: bool) -> None:
        if broken or self._closed:
            session.connection._force_close()
        else:
            self._idle.append(session)
        self._turns.release()

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            with contextlib.suppress(err.MySQLError, OSError):
                self._idle.pop().connection.close()


class _LoopPool:
    """The connections of one event loop."""

    def __init__(self, size: int) -> None:
        self.idle: list[MySession] = []
        self.used: set[MySession] = set()
        self.turns = asyncio.Semaphore(size)
        self.closed = False

    async def close(self) -> None:
        self.closed = True
        while self.idle:
            with contextlib.suppress(err.MySQLError, OSError):
                await self.idle.pop().connection.ensure_closed()

    def abandon(self) -> None:
        """Its loop is gone: nothing can be awaited there any more."""
        for session in (*self.idle, *self.used):
            connection = session.connection
            writer, connection._writer, connection._reader = connection._writer, None, None
            if writer is not None:
                with contextlib.suppress(RuntimeError):  # it can't be told later
                    writer.transport.close()
                with contextlib.suppress(RuntimeError, AttributeError):
                    writer.transport._call_connection_lost(None)


class AsyncDriver(MySQLDriver):
    """Connections for event loops: each has its own, which are closed on it."""

    blocking = False
    finishes = False
    _pools: LoopPools[_LoopPool] | None = None

    def start(self) -> None:
        if self._pools is not None:
            # Of the parent: to forget them would close them, and tell the parent's event loop.
            _OF_PARENTS.append(self._pools)
        self._pools = LoopPools(lambda: _LoopPool(self._size), _LoopPool.close, _LoopPool.abandon)

    def _mine(self) -> _LoopPool:
        assert self._pools is not None
        return self._pools.mine()

    async def acquire(self) -> MySession:
        mine = self._mine()
        try:
            async with asyncio.timeout(self._timeout if mine.turns.locked() else None):
                await mine.turns.acquire()
        except TimeoutError:
            raise PoolTimeout from None
        try:
            while mine.idle:
                session = mine.idle.pop()
                if not _left(session.connection):
                    break
                session.connection.close()
            else:
                session = await self._connect()
            mine.used.add(session)
            session.pool = mine
            return session
        except BaseException:
            mine.turns.release()
            raise

    async def _connect(self) -> MySession:
        import aiomysql

        options = {("db" if name == "database" else name): value for name, value in self._options.items()}
        connection = await aiomysql.connect(**options)
        try:
            transport = connection._writer.transport
            if self._options["ssl"] is not None and transport.get_extra_info("ssl_object") is None:
                raise Unavailable(f"{self.place}: {_NO_TLS}")
            session = MySession(connection)
            await session.set_up()
        except BaseException:
            connection.close()
            raise
        return session

    async def release(self, session: MySession, *, broken: bool) -> None:
        mine = session.pool
        mine.used.discard(session)
        if broken or mine.closed:
            session.connection.close()
        else:
            mine.idle.append(session)
        mine.turns.release()

    async def close(self) -> None:
        if self._pools is not None:
            await self._pools.close(self._timeout)


def _left(connection: Any) -> bool:
    """Whether the server has said something to the idle connection, or closed it."""
    if connection.closed:
        return True
    reader = connection._reader
    if reader.at_eof() or reader.exception() is not None or reader._buffer:
        return True
    return _spoken_to(connection._writer.get_extra_info("socket"))

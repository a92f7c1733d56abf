"""Connections to PostgreSQL: psycopg and its pool, one pool for each event loop, one for blocking callers."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from psycopg import Connection, Error, conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.postgres_connecting import give_up, remembering
from holdfast.memory.backends.postgres_errors import failure_of
from holdfast.memory.backends.postgres_loop_sessions import AT_HAND, LOOK_AGAIN, LoopSessions
from holdfast.memory.backends.postgres_session import PgSession
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.server_engine import Failure
from holdfast.memory.backends.sql.server_pools import LoopPools

_MIGRATING = 7_224_101_998_126_311  # any number that others don't use


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
    finishes = True

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
        return failure_of(error, self.place, self._timeout)

    def options(self) -> dict[str, Any]:
        """How connections are made. Nothing about one may matter after a transaction: a pooler gives it to others."""
        return {"autocommit": True, "prepare_threshold": None, "client_encoding": "utf8"}


class _AtHand:
    """Connections that were given back a moment ago and that nobody waits for: the next caller takes one of these.

    To ask a pool for one and to give it back takes a tenth of the time of a save. No lock: who waits says so before it
    looks again, and who gives one back looks for those who wait afterwards. At most as many as a pool never closes.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: deque[PgSession] = deque()
        self.waiting: deque[None] = deque()

    def take(self) -> PgSession | None:
        try:
            return self._sessions.pop()
        except IndexError:
            return None

    def keep(self, session: PgSession) -> PgSession | None:
        """Keep it; returns one that has to go back to the pool."""
        if self.waiting or len(self._sessions) >= self.most:
            return session
        if not session.idle or time.monotonic() > session.since + AT_HAND:
            return session
        self._sessions.append(session)
        return self.take() if self.waiting else None


class BlockingDriver(PsycopgDriver):
    """Connections for blocking callers, which may be many threads."""

    def start(self) -> None:
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Any] | None = None
        self._refused: list[Exception] = []
        self._at_hand = _AtHand(self._sizes["min_size"])

    async def acquire(self) -> PgSession:
        session = self._at_hand.take()
        if session is None:
            self._at_hand.waiting.append(None)
            try:
                session = self._at_hand.take() or self._from_pool()
            finally:
                self._at_hand.waiting.pop()
        if session.silent():
            return session
        await self.release(session, broken=True)
        return await self.acquire()

    def _from_pool(self) -> PgSession:
        pool = self._pool
        if pool is None:
            with self._opening:
                pool = self._pool = self._pool or self._new_pool()
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return PgSession(pool.getconn(min(LOOK_AGAIN, self._timeout)))
            except PoolTimeout:
                give_up(self._refused, deadline)

    def _new_pool(self) -> ConnectionPool[Any]:
        pool: ConnectionPool[Any] = ConnectionPool(
            self._info,
            connection_class=remembering(Connection, self._refused),
            kwargs=self.options(),
            open=False,
            **self._sizes,
        )
        pool.open()
        return pool

    async def release(self, session: PgSession, *, broken: bool) -> None:
        if broken:
            session.connection.pgconn.finish()
        over = self._at_hand.keep(session)
        if over is not None and self._pool is not None:
            self._pool.putconn(over.connection)

    async def close(self) -> None:
        if self._pool is not None:
            self._at_hand.most = 0  # what is in use goes back to the pool, which closes it
            while (session := self._at_hand.take()) is not None:
                self._pool.putconn(session.connection)
            self._pool.close()


class AsyncDriver(PsycopgDriver):
    """Connections for event loops."""

    blocking = False

    def start(self) -> None:
        self._pools: LoopPools[LoopSessions] = LoopPools(
            lambda: LoopSessions(self._info, self.options(), self._sizes, self._timeout),
            LoopSessions.close,
            LoopSessions.abandon,
        )

    async def acquire(self) -> PgSession:
        mine = self._pools.mine()
        session = await mine.take()
        session.home = mine
        return session

    async def release(self, session: PgSession, *, broken: bool) -> None:
        await session.home.give_back(session, broken=broken)

    async def close(self) -> None:
        await self._pools.close(self._timeout)

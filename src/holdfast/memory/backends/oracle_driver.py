"""Connections to Oracle Database: oracledb in thin mode, one pool for each event loop, one for blocking callers."""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

import oracledb

from holdfast.core.errors import Unsupported
from holdfast.memory.backends.oracle_errors import failure_of
from holdfast.memory.backends.oracle_session import OracleSession, done
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.server_engine import Failure
from holdfast.memory.backends.sql.server_pools import LoopPools

_STATEMENTS = 200  # how many a connection keeps parsed
_PATIENCE = 5.0  # seconds for another loop to close its pool


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
        self._native: set[str] = set()
        self.server_release = 0
        """Of the server, as the last connection told."""
        where = arguments.get("dsn") or "{host}:{port}/{service_name}".format_map(arguments)
        self.place = f"Oracle {where.rpartition('@')[2]}"
        self.start()

    def start(self) -> None:
        """See `Driver.start`."""
        raise NotImplementedError

    def existing(self, schema: Schema) -> Plan[set[str]]:
        yield from self._check_settings()
        names = {name.rpartition(".")[2].upper(): name for name in (schema.meta, *schema.tables)}
        owner = "SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')" if self._schema is None else "?"
        where = f"owner = {owner} AND table_name IN ({', '.join('?' * len(names))})"
        params = (*(() if self._schema is None else (self._schema.upper(),)), *names)
        found = yield from fetch(f"SELECT table_name FROM all_tables WHERE {where}", *params)
        # Made by an older release, they have text instead, also when the release is new.
        native = f"SELECT DISTINCT table_name FROM all_tab_columns WHERE {where} AND data_type = 'JSON'"
        self._native.update(names[name] for (name,) in (yield from fetch(native, *params)))
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
        return failure_of(error, self.place, self._arguments["wait_timeout"] / 1000)

    def prepared(self, pool: Any, connection: Any) -> OracleSession:
        connection.call_timeout = self._call_timeout
        # A pipeline takes no notice of it.
        pipelined = not self.blocking and not self._call_timeout
        session = OracleSession(pool, connection, self._native, pipelined=pipelined)
        self.server_release = session.release
        return session

    async def release(self, session: OracleSession, *, broken: bool) -> None:
        give_back = session.pool.drop if broken else session.pool.release
        with contextlib.suppress(oracledb.Error):  # the pool was closed meanwhile, or the connection is gone
            await done(give_back(session.connection))


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
        self._pools: LoopPools[Any] = LoopPools(
            lambda: oracledb.create_pool_async(**self._arguments), _close, _let_go
        )

    def pool(self) -> Any:
        """The pool of the running loop."""
        return self._pools.mine()

    async def acquire(self) -> OracleSession:
        pool = self.pool()
        return self.prepared(pool, await pool.acquire())

    async def close(self) -> None:
        await self._pools.close(_PATIENCE)


async def _close(pool: Any) -> None:
    with contextlib.suppress(oracledb.Error):
        await pool.close(force=True)


def _let_go(_: Any) -> None:
    """Its sockets are closed when nobody refers to the pool any more."""

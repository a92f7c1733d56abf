"""Opens a file or a database on a server by its address, with every statement watched, in a child of `children`.

Drivers are imported here, once: a child that is forked later has them.
"""

import contextlib
from typing import Any, NamedTuple

from holdfast.memory.backends.sql.plan import Batch
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.memory.store_backends import SQLiteStore
from holdfast.testing.faults import WatchedThreadedEngine, Watcher
from tests.servers.oracle import OracleUser

with contextlib.suppress(ImportError):
    import holdfast.memory.backends.postgres_driver
with contextlib.suppress(ImportError):
    import aiomysql  # noqa: F401 (imported when it is used, else by each child anew)

    import holdfast.memory.backends.mysql_driver  # noqa: F401 (likewise)


class Kinds(NamedTuple):
    """What there is of one database: a checkpointer and a store over the SQL core."""

    threads: type[Any]
    store: type[Any]


def kinds_of(url: str) -> Kinds:
    """The classes for an address: ``sqlite:path``, ``postgresql://...``, ``mysql://...`` or ``oracle://...``."""
    from holdfast.memory.backends import MySQLCheckpointer, OracleCheckpointer, PostgreSQLCheckpointer
    from holdfast.memory.store_backends import MySQLStore, OracleStore, PostgresStore

    return {
        "sqlite": Kinds(SQLiteCheckpointer, SQLiteStore),
        "postgresql": Kinds(PostgreSQLCheckpointer, PostgresStore),
        "mysql": Kinds(MySQLCheckpointer, MySQLStore),
        "oracle": Kinds(OracleCheckpointer, OracleStore),
    }[url.partition(":")[0]]


def watched_engine(url: str, watcher: Watcher, **options: Any) -> Any:
    """An engine that tells the watcher of each statement before it runs; on a server, before its batch is sent, and
    once more when the answer is there. ``options`` are those of a file."""
    kind, _, rest = url.partition(":")
    if kind == "sqlite":
        return WatchedThreadedEngine(rest, watcher=watcher, **options)
    if kind == "mysql":
        from holdfast.memory.backends.mysql_engine import mysql_engine

        engine = mysql_engine(url)
    elif kind == "oracle":
        engine = OracleUser.engine(url)
    else:
        from holdfast.memory.backends.postgres_engine import postgres_engine

        engine = postgres_engine(url)
    engine.driver = _WatchedDriver(engine.driver, watcher)
    return engine


class _WatchedDriver:
    """The driver; its sessions are watched."""

    def __init__(self, driver: Any, watcher: Watcher) -> None:
        self._driver = driver
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def acquire(self) -> "_WatchedSession":
        return _WatchedSession(await self._driver.acquire(), self._watcher)

    async def release(self, session: "_WatchedSession", *, broken: bool) -> None:
        await self._driver.release(session.inner, broken=broken)


class _WatchedSession:
    def __init__(self, inner: Any, watcher: Watcher) -> None:
        self.inner = inner
        self._watcher = watcher

    @property
    def in_transaction(self) -> bool:
        return bool(self.inner.in_transaction)

    async def run(self, batch: Batch, begin: str, *, commit: bool, dirty: bool) -> list[Any]:
        for statement in batch:
            self._watcher(statement.sql)
        answers: list[Any] = await self.inner.run(batch, begin, commit=commit, dirty=dirty)
        self._watcher("answered")
        return answers

    async def rollback(self) -> None:
        await self.inner.rollback()

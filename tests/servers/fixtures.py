"""Fixtures for real servers: `postgres` and `mariadb` are databases of their own for each test."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import mariadb as mariadb_servers
from tests.servers.emptying import empty_mariadb, empty_postgres
from tests.servers.mariadb import MariaServer
from tests.servers.postgres import PostgresServer, own_server, shared_server
from tests.servers.proxy import Proxy

if TYPE_CHECKING:
    from holdfast.memory.backends.sql.server_engine import ServerEngine
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.store import BaseStore
    from holdfast.memory.sync import SyncCheckpointer


@dataclass(frozen=True)
class Database:
    """An empty database on the run's server, and what tests look at it with."""

    server: PostgresServer
    name: str
    keeper: Any = None
    """A connection that stays: the one that empties the tables."""
    user: str = "postgres"

    @property
    def url(self) -> str:
        return self.server.url(self.name, user=self.user)

    def through(self, proxy: Proxy) -> str:
        """The address of the same database behind a proxy."""
        return f"postgresql://postgres@127.0.0.1:{proxy.port}/{self.name}?sslmode=disable&gssencmode=disable"

    def sql(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a statement past Holdfast."""
        return _run(self.url, statement, params)

    def empty(self) -> None:
        """The tables stay; what is in them goes."""
        empty_postgres(self.keeper)

    async def alone(self, most: int = 0) -> None:
        """Wait until the server has ended all sessions in the database, or all but so many."""
        query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
        await _until(lambda: self.sql(f"{query} AND pid <> pg_backend_pid()")[0][0] <= most)

    @staticmethod
    def checkpointer(url: str, **options: Any) -> "BaseCheckpointer":
        from holdfast.memory.backends import PostgreSQLCheckpointer

        return PostgreSQLCheckpointer(url, **options)

    @staticmethod
    def blocking(url: str, **options: Any) -> "SyncCheckpointer":
        from holdfast.memory.backends import PostgreSQLSyncCheckpointer

        return PostgreSQLSyncCheckpointer(url, **options)

    @staticmethod
    def store(url: str, **options: Any) -> "BaseStore":
        from holdfast.memory.store_backends import PostgresStore

        return PostgresStore(url, **options)

    @staticmethod
    def engine(url: str, **options: Any) -> "ServerEngine":
        from holdfast.memory.backends.postgres_engine import postgres_engine

        return postgres_engine(url, **options)


async def _until(settled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not settled():
        assert time.monotonic() < deadline, "the server still has other sessions"
        await asyncio.sleep(0.01)


def _run(url: str, statement: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), params or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with shared_server(_run_name()) as server:
        yield server


def _run_name() -> str:
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid():x}")[:12]


_numbers = count(1)


@pytest.fixture
def new_database(postgres_server: PostgresServer) -> Iterator[Callable[[], Database]]:
    """Makes empty databases, which are dropped after the test."""
    made: list[Database] = []

    def make() -> Database:
        database = Database(postgres_server, f"t{os.getpid()}_{next(_numbers)}")
        _run(postgres_server.url(), f"CREATE DATABASE {database.name}")
        made.append(database)
        return database

    yield make
    for database in made:
        _run(postgres_server.url(), f"DROP DATABASE {database.name} WITH (FORCE)")


@contextmanager
def kept(server: PostgresServer, name: str) -> Iterator[Database]:
    """A database for many tests, which is emptied before each."""
    import psycopg

    name = f"{name}{os.getpid()}"
    _run(server.url(), f"CREATE DATABASE {name}")
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        yield Database(server, name, connection)


@pytest.fixture(scope="session")
def _kept_postgres(postgres_server: PostgresServer) -> Iterator[Database]:
    with kept(postgres_server, "kept") as database:
        yield database


@pytest.fixture
def used_postgres(_kept_postgres: Database) -> Database:
    """A database that other tests have used: its tables are there, and empty."""
    _kept_postgres.empty()
    return _kept_postgres


@pytest.fixture(scope="session")
def _kept_plain(postgres_server: PostgresServer) -> Iterator[Database]:
    with kept(postgres_server, "plain") as database:
        role = database.name
        database.sql(f"CREATE ROLE {role} LOGIN; GRANT ALL ON SCHEMA public TO {role}")
        yield replace(database, user=role)


@pytest.fixture
def plain_postgres(_kept_plain: Database) -> Database:
    """A used database without pgvector, and a role that may make tables but no extension."""
    _kept_plain.empty()
    return _kept_plain


_DEBIANS = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="session")
def _kept_postgres15() -> Iterator[Database]:
    if not (_DEBIANS / "postgres").exists():
        pytest.skip("needs postgres15: Debian's postgresql-15 is not installed")
    with own_server(_DEBIANS) as server:
        import psycopg

        with psycopg.connect(server.url(), autocommit=True) as connection:
            yield Database(server, "postgres", connection)


@pytest.fixture
def postgres15(_kept_postgres15: Database) -> Database:
    """A used database on Debian's PostgreSQL 15, which has no pgvector."""
    _kept_postgres15.empty()
    return _kept_postgres15


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    """A proxy in front of the run's server."""
    with Proxy(postgres_server.socket) as opened:
        yield opened


@pytest.fixture
def postgres(new_database: Callable[[], Database]) -> Database:
    """An empty database."""
    return new_database()


@dataclass(frozen=True)
class MariaDatabase:
    """An empty database on the run's MariaDB, and what tests look at it with."""

    server: MariaServer
    name: str
    keeper: Any = None
    """A connection that stays: the one that empties the tables."""

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def through(self, proxy: Proxy) -> str:
        """The address of the same database behind a proxy."""
        return f"mysql://root@127.0.0.1:{proxy.port}/{self.name}"

    def sql(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a statement past Holdfast."""
        return self.server.run(self.name, statement, params)

    def empty(self) -> None:
        """The tables stay; what is in them goes."""
        empty_mariadb(self.keeper)

    async def alone(self, most: int = 0) -> None:
        """Wait until the server has ended all sessions in the database, or all but so many."""
        query = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()"
        await _until(lambda: self.sql(f"{query} AND id <> CONNECTION_ID()")[0][0] <= most)

    @staticmethod
    def checkpointer(url: str, **options: Any) -> "BaseCheckpointer":
        from holdfast.memory.backends import MySQLCheckpointer

        return MySQLCheckpointer(url, **options)

    @staticmethod
    def blocking(url: str, **options: Any) -> "SyncCheckpointer":
        from holdfast.memory.backends import MySQLSyncCheckpointer

        return MySQLSyncCheckpointer(url, **options)

    @staticmethod
    def store(url: str, **options: Any) -> "BaseStore":
        from holdfast.memory.store_backends import MySQLStore

        return MySQLStore(url, **options)

    @staticmethod
    def engine(url: str, **options: Any) -> "ServerEngine":
        from holdfast.memory.backends.mysql_engine import mysql_engine

        return mysql_engine(url, **options)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaServer]:
    with mariadb_servers.shared_server(_run_name()) as server:
        yield server


@pytest.fixture
def new_mariadb(mariadb_server: MariaServer) -> Iterator[Callable[[], MariaDatabase]]:
    """Makes empty databases, which are dropped after the test."""
    made: list[MariaDatabase] = []

    def make() -> MariaDatabase:
        database = MariaDatabase(mariadb_server, f"t{os.getpid()}_{next(_numbers)}")
        mariadb_server.run("mysql", f"CREATE DATABASE {database.name}")
        made.append(database)
        return database

    yield make
    for database in made:
        mariadb_server.run("mysql", f"DROP DATABASE {database.name}")


@pytest.fixture
def mariadb(new_mariadb: Callable[[], MariaDatabase]) -> MariaDatabase:
    """An empty database."""
    return new_mariadb()


@pytest.fixture(scope="session")
def _kept_mariadb(mariadb_server: MariaServer) -> Iterator[MariaDatabase]:
    name = f"kept{os.getpid()}"
    mariadb_server.run("mysql", f"CREATE DATABASE {name}")
    with mariadb_server.connect(name) as connection:
        yield MariaDatabase(mariadb_server, name, connection)


@pytest.fixture
def used_mariadb(_kept_mariadb: MariaDatabase) -> MariaDatabase:
    """A database that other tests have used: its tables are there, and empty."""
    _kept_mariadb.empty()
    return _kept_mariadb


AnyDatabase = Database | MariaDatabase


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> Any:
    """An empty database on each of the servers in turn: for what must be the same on all of them. A test that also runs
    on the double of Oracle says so: see `tests.servers.oracle`."""
    return request.getfixturevalue(request.param)

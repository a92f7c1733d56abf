"""Fixtures for the double of Oracle Database (`tests.oracle`): `oracle_user` is a schema of its own for each test."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers.fixtures import AnyDatabase

if TYPE_CHECKING:
    from holdfast.memory.backends.sql.server_engine import ServerEngine
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.store import BaseStore
    from holdfast.memory.sync import SyncCheckpointer
    from tests.oracle.database import OracleDatabase


@dataclass(frozen=True)
class OracleUser:
    """A user of the double with a schema, and what tests look at it with. Its address leads there from any process."""

    double: "OracleDatabase"
    name: str

    @property
    def url(self) -> str:
        from tests.oracle.crossing import address

        return address(self.double, self.name)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement past Holdfast, and past the double."""
        return [tuple(map(_plain, row)) for row in self.double.sql(statement, self.name)]

    def empty(self) -> None:
        """The tables stay; what is in them goes."""
        self.double.empty(self.name)

    @staticmethod
    def checkpointer(url: str, **options: Any) -> "BaseCheckpointer":
        from holdfast.memory.backends import OracleCheckpointer

        return OracleCheckpointer(**_login(url), **options)

    @staticmethod
    def blocking(url: str, **options: Any) -> "SyncCheckpointer":
        from holdfast.memory.backends import OracleSyncCheckpointer

        return OracleSyncCheckpointer(**_login(url), **options)

    @staticmethod
    def store(url: str, **options: Any) -> "BaseStore":
        from holdfast.memory.store_backends import OracleStore

        return OracleStore(**_login(url), **options)

    @staticmethod
    def engine(url: str, **options: Any) -> "ServerEngine":
        from holdfast.memory.backends.oracle_engine import oracle_engine

        return oracle_engine(**_login(url), **options)


def _login(url: str) -> dict[str, Any]:
    from tests.oracle.crossing import install, login

    install()
    return login(url)


def _plain(value: object) -> object:
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


Server = AnyDatabase | OracleUser


def on_all_servers(*, long: bool = False) -> pytest.MarkDecorator:
    """Run a test with `database` also on the double, where it may be a long one."""
    double = pytest.param("oracle_user", marks=[pytest.mark.long] if long else [])
    return pytest.mark.parametrize("database", ["postgres", "mariadb", double], indirect=True)


@pytest.fixture(scope="session")
def oracle_url(postgres_server: Any) -> str:
    """The database of PostgreSQL behind the double."""
    import psycopg

    pytest.importorskip("oracledb", reason="needs oracledb: the package is not installed")
    pytest.importorskip("sqlglot", reason="needs sqlglot: the package is not installed")
    from tests.oracle.database import prepare

    name = f"oracle_{os.getpid()}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url: str = postgres_server.url(name)
    prepare(url)
    return url


@pytest.fixture
def oracle_user(oracle_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[OracleUser]:
    """A new user, with an empty schema."""
    from tests.oracle.crossing import install
    from tests.oracle.database import OracleDatabase

    install(monkeypatch.setattr)
    double = OracleDatabase(oracle_url)
    yield OracleUser(double, double.add_user())
    double.drop_users()


@pytest.fixture(scope="session")
def _kept_oracle(oracle_url: str) -> OracleUser:
    from tests.oracle.database import OracleDatabase

    double = OracleDatabase(oracle_url)
    return OracleUser(double, double.add_user())


@pytest.fixture
def used_oracle(_kept_oracle: OracleUser, monkeypatch: pytest.MonkeyPatch) -> OracleUser:
    """A user whose tables other tests have used, and which are empty."""
    from tests.oracle.crossing import install

    install(monkeypatch.setattr)
    _kept_oracle.empty()
    return _kept_oracle

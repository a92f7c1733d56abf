"""A plugin for pytest: `make test-oracle` without a server. What connects to the one that `ORACLE_*` names is led to
the double, on the PostgreSQL that `ORACLE_REHEARSAL` names; all else is as on a server."""

import os
from typing import Any

import oracledb

from tests.oracle.database import OracleDatabase
from tests.oracle.driver import AsyncPool, SyncConnection, SyncPool

_DATABASE = OracleDatabase(os.environ["ORACLE_REHEARSAL"])


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Only the server that the environment names is there."""
    wanted = {name: os.environ[f"ORACLE_{name.upper()}"] for name in ("dsn", "user", "password")}
    assert wanted.items() <= arguments.items(), f"connects to {arguments}"
    return arguments


class _Alone(SyncConnection):
    """A connection of no pool: it ends when it is closed."""

    def close(self) -> None:
        self.pool.give_back(self, drop=True)


def _connect(**arguments: Any) -> SyncConnection:
    pool = SyncPool(_DATABASE, _given(arguments))
    session, _ = pool.take()
    return _Alone(pool, session)


def pytest_configure() -> None:
    doubles: dict[str, Any] = {
        "create_pool": lambda **arguments: SyncPool(_DATABASE, _given(arguments)),
        "create_pool_async": lambda **arguments: AsyncPool(_DATABASE, _given(arguments)),
        "connect": _connect,
    }
    for name, double in doubles.items():
        setattr(oracledb, name, double)

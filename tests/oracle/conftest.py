"""Fixtures: an Oracle database that is a double, in both releases, and `oracledb` whose pools lead to it."""

from collections.abc import Iterator

import pytest

pytest.importorskip("oracledb", reason="needs oracledb: the package is not installed")
pytest.importorskip("sqlglot", reason="needs sqlglot: the package is not installed")

import oracledb

from tests.oracle.database import OracleDatabase
from tests.oracle.driver import AsyncPool, SyncPool
from tests.oracle.place import REAL, Place


@pytest.fixture(params=[23, 19], ids=["23ai", "19c"])
def release(request: pytest.FixtureRequest) -> int:
    """Both simulated releases of the server."""
    number: int = request.param
    return number


@pytest.fixture
def oracle(oracle_url: str, release: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[OracleDatabase]:
    """An empty database; while the test runs, pools of `oracledb` lead to it."""
    database = _double(oracle_url, release, monkeypatch)
    yield database
    database.drop_users()


def _double(url: str, release: int, monkeypatch: pytest.MonkeyPatch) -> OracleDatabase:
    """A server of that release, to which the driver's pools lead from now on."""
    database = OracleDatabase(url, release)
    monkeypatch.setattr(oracledb, "create_pool", lambda **arguments: SyncPool(database, arguments))
    monkeypatch.setattr(oracledb, "create_pool_async", lambda **arguments: AsyncPool(database, arguments))
    return database


@pytest.fixture(params=["real"] if REAL else ["23ai", "19c"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place for tables: a new user of the double, in each release, or names of their own on the real server."""
    if request.param == "real":
        real = Place(None, "")
        yield real
        real.drop()
        return
    database = _double(request.getfixturevalue("oracle_url"), int(request.param[:2]), monkeypatch)
    yield Place(database, database.add_user())
    database.drop_users()


@pytest.fixture(scope="session")
def _kept_users() -> dict[int, str]:
    """A user of the double for each release."""
    return {}


@pytest.fixture(params=["real"] if REAL else ["23ai", "19c"])
def used_place(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _kept_users: dict[int, str]
) -> Iterator[Place]:
    """A place whose tables other tests have used, and which are empty; on the real server a new one."""
    if request.param == "real":
        real = Place(None, "")
        yield real
        real.drop()
        return
    database = _double(request.getfixturevalue("oracle_url"), int(request.param[:2]), monkeypatch)
    if database.release not in _kept_users:
        _kept_users[database.release] = database.add_user()
    database.empty(_kept_users[database.release])
    yield Place(database, _kept_users[database.release])
    database.close()

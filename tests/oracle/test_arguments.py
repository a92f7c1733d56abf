"""The arguments of the seeds reach the real `oracledb` as it wants them; errors of the real driver are ours."""

import asyncio
from pathlib import Path
from typing import Any

import oracledb
import pytest
from oracledb import errors
from pydantic import SecretStr

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
from holdfast.memory.backends.oracle import OracleCheckpointer, OracleCheckpointSaver, oracle_checkpointer
from holdfast.memory.backends.oracle_driver import OracleDriver
from holdfast.memory.backends.oracle_engine import oracle_engine
from holdfast.memory.backends.oracle_store import OracleStore


def arguments(**options: Any) -> dict[str, Any]:
    driver = oracle_engine(**options).driver
    assert isinstance(driver, OracleDriver)
    return driver._arguments


def parameters(**options: Any) -> oracledb.PoolParams:
    """The driver's own parameters: it refuses what it does not know."""
    given = arguments(**options)
    dsn = given.pop("dsn", None)
    made: oracledb.PoolParams = oracledb.PoolParams(**given)
    if dsn is not None:
        made.parse_connect_string(dsn)
    return made


def test_host_port_and_service_make_an_address() -> None:
    made = parameters(host="db.example", service_name="app", user="me", password="secret")
    assert (made.host, made.port, made.service_name, made.user) == ("db.example", 1521, "app", "me")
    assert made.protocol == "tcp"
    assert parameters(host="adb.example", port=1522, service_name="app").protocol == "tcps"


def test_a_dsn_goes_as_it_is_and_pool_sizes_too() -> None:
    made = parameters(dsn="db.example:1530/app", min_pool_size=2, max_pool_size=7, pool_timeout=1.5)
    assert (made.host, made.port, made.service_name) == ("db.example", 1530, "app")
    assert (made.min, made.max, made.wait_timeout) == (2, 7, 1500)
    assert made.getmode == oracledb.POOL_GETMODE_TIMEDWAIT


@pytest.mark.parametrize(
    ("password", "wanted"), [("", None), (None, None), ("x", "x"), (SecretStr("y"), "y")]
)
def test_a_wallet_is_a_folder_and_an_empty_password_opens_by_itself(
    tmp_path: Path, password: Any, wanted: str | None
) -> None:
    given = arguments(dsn="mydb_low", wallet_location=tmp_path, wallet_password=password)
    assert (given["wallet_location"], given["config_dir"]) == (str(tmp_path), str(tmp_path))
    assert given["wallet_password"] == wanted


def test_an_alias_is_looked_up_in_the_wallet(tmp_path: Path) -> None:
    place = "(DESCRIPTION=(ADDRESS=(PROTOCOL=tcps)(HOST=adb.example)(PORT=1522))(CONNECT_DATA=(SERVICE_NAME=app)))"
    (tmp_path / "tnsnames.ora").write_text(f"mydb_low = {place}\n")
    made = parameters(dsn="mydb_low", wallet_location=str(tmp_path))
    assert (made.host, made.port, made.protocol, made.service_name) == ("adb.example", 1522, "tcps", "app")


def test_the_real_driver_takes_all_of_it_for_both_kinds_of_pools(tmp_path: Path) -> None:
    given = arguments(host="127.0.0.1", port=1, service_name="app", min_pool_size=0, password=SecretStr("x"))
    blocking = oracledb.create_pool(**given)
    blocking.close(force=True)

    async def asynchronous() -> None:
        pool = oracledb.create_pool_async(**given)
        await pool.close(force=True)

    asyncio.run(asynchronous())


def test_secrets_may_be_secret_and_are_never_shown() -> None:
    saver = OracleCheckpointSaver(dsn="me/secret@db.example/app", password=SecretStr("secret"))
    place = saver._engine.engine.driver.place  # type: ignore[attr-defined]  # the engine of a server
    assert place == "Oracle db.example/app"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "dsn"),
        ({"host": "h"}, "service_name"),
        ({"dsn": "d", "host": "h"}, "host"),
        ({"dsn": 5}, "dsn"),
        ({"dsn": "d", "password": 5}, "password"),
        ({"dsn": "d", "wallet_location": "w", "wallet_password": 5}, "wallet_password"),
        ({"dsn": "d", "min_pool_size": 3, "max_pool_size": 2}, "min_pool_size"),
        ({"dsn": "d", "schema_name": "a b"}, "schema"),
        ({"dsn": "d", "table_name": "a;b"}, "table_name"),
    ],
)
def test_bad_arguments_are_refused_by_name_before_anything_is_opened(
    options: dict[str, Any], named: str
) -> None:
    for make in (OracleCheckpointer, OracleStore, OracleCheckpointSaver, oracle_checkpointer):
        with pytest.raises(InvalidInput, match=named):
            make(**options)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    async def load() -> None:
        async with OracleCheckpointer(
            host="127.0.0.1", port=1, service_name="app", password="secret", pool_timeout=2
        ) as checkpointer:
            with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1/app") as caught:
                await checkpointer.load("t")
        assert "secret" not in str(caught.value)

    asyncio.run(load())


@pytest.mark.parametrize(
    ("code", "kind", "undone", "lost"),
    [
        (1, Conflict, True, False),
        (60, Conflict, True, False),
        (2291, Conflict, True, False),
        (8177, Conflict, True, False),
        (942, SchemaMismatch, False, False),
        (904, SchemaMismatch, False, False),
        (1013, Unavailable, False, False),
        (54, Unavailable, False, False),
        (28000, Unavailable, False, False),
        (12541, Unavailable, False, False),
        (1536, StorageFull, False, False),
        (1461, InvalidInput, False, False),
        (1450, InvalidInput, False, False),
        (1578, Corrupt, False, False),
        (1031, Unavailable, False, False),
        (1017, Unavailable, False, False),
        (12514, Unavailable, False, False),
        (1653, StorageFull, False, False),
        (12899, InvalidInput, False, False),
        (3113, Unavailable, False, True),
        (3114, Unavailable, False, True),
        (1012, Unavailable, False, True),
        (28, Unavailable, False, True),
        (600, Unavailable, False, True),
        (3135, Unavailable, False, True),
        (1722, HoldfastError, False, False),
    ],
)
def test_errors_of_the_server_are_ours(code: int, kind: type[Exception], undone: bool, lost: bool) -> None:
    made = errors._Error(f"ORA-{code:05}: it is so", code=code)
    failure = oracle_engine("db.example/app").driver.failure(made.exc_type(made))
    assert failure is not None
    assert (type(failure.error), failure.undone, failure.lost) == (kind, undone, lost)
    assert "it is so" in str(failure.error) or lost


@pytest.mark.parametrize(
    ("number", "kind", "lost"),
    [
        (errors.ERR_CONNECTION_CLOSED, Unavailable, True),
        (errors.ERR_NOT_CONNECTED, Unavailable, True),
        (errors.ERR_POOL_NOT_OPEN, Closed, False),
        (errors.ERR_POOL_NO_CONNECTION_AVAILABLE, Unavailable, False),
        (errors.ERR_CALL_TIMEOUT_EXCEEDED, Unavailable, False),
        (errors.ERR_CONNECTION_FAILED, Unavailable, False),
        (errors.ERR_WALLET_FILE_MISSING, Unavailable, False),
        (errors.ERR_INVALID_SERVICE_NAME, Unavailable, False),
    ],
)
def test_errors_of_the_driver_are_ours(number: int, kind: type[Exception], lost: bool) -> None:
    where: dict[str, Any] = {"connection_id": "1", "name": "w", "service_name": "s", "host": "h", "port": 1}
    raised = errors._create_exception(number, timeout=5, **where)
    failure = oracle_engine("db.example/app").driver.failure(raised)
    assert failure is not None
    assert (type(failure.error), failure.lost) == (kind, lost)


def test_other_errors_are_not_the_drivers() -> None:
    assert oracle_engine("db.example/app").driver.failure(ValueError("x")) is None

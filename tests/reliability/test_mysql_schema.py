"""Tables on MariaDB: rights, addresses, secrets, and steps that commit one by one."""

import ssl
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from holdfast.core.state import AgentState
from holdfast.errors import InvalidInput, SchemaMismatch, Unavailable
from holdfast.memory.backends import (
    MySQLBackend,
    MySQLCheckpointer,
    MySQLSyncCheckpointer,
    mysql_checkpointer,
)
from holdfast.memory.backends.mysql_engine import _from_url, _tls
from tests.reliability.server_checks import (
    SECRET,
    check_both_contracts,
    check_secret_is_kept,
    check_unreadable_is_not_shown,
    everything,
)
from tests.servers.fixtures import MariaDatabase
from tests.servers.mariadb import own_server


def indexes(mariadb: MariaDatabase) -> set[tuple[str, str]]:
    found = mariadb.sql(
        "SELECT DISTINCT table_name, index_name FROM information_schema.statistics WHERE table_schema = DATABASE()"
    )
    return {(table, index) for table, index in found}


def test_without_the_right_to_create_the_missing_ddl_is_told_and_rows_are_all_that_is_needed(
    mariadb: MariaDatabase,
) -> None:
    user = f"runtime_{mariadb.name}"
    mariadb.sql(f"CREATE USER {user}@localhost IDENTIFIED BY 'pass word'")
    try:
        url = mariadb.server.url(mariadb.name, user=user, password="pass word")
        with (
            MySQLSyncCheckpointer(url, auto_create_table=False) as checkpointer,
            pytest.raises(Unavailable, match="lacks a right"),  # it may not even look
        ):
            checkpointer.load("t")
        mariadb.sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {mariadb.name}.* TO {user}@localhost")
        with (
            MySQLSyncCheckpointer(url, auto_create_table=False) as checkpointer,
            pytest.raises(SchemaMismatch, match="holdfast_threads") as missing,
        ):
            checkpointer.load("t")
        with MySQLSyncCheckpointer(url) as checkpointer, pytest.raises(Unavailable, match="lacks a right"):
            checkpointer.load("t")
        for statement in missing.value.ddl.split(";\n"):  # the owner runs it as it was printed
            if statement:
                mariadb.sql(statement)
        for options in ({"auto_create_table": False}, {}):  # all is there: nothing has to be created
            with MySQLSyncCheckpointer(url, **options) as checkpointer:
                everything(checkpointer)
    finally:
        mariadb.sql(f"DROP USER {user}@localhost")


def test_steps_that_were_left_half_done_are_finished(mariadb: MariaDatabase) -> None:
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        everything(checkpointer)
    whole = indexes(mariadb)
    mariadb.sql("DROP INDEX holdfast_threads_saved ON holdfast_threads")
    mariadb.sql("DROP TABLE holdfast_writes, holdfast_words, holdfast_numbers")
    mariadb.sql("DELETE FROM holdfast_meta WHERE name LIKE 'schema:%'")
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        everything(checkpointer)
    assert indexes(mariadb) == whole


def test_numbers_of_saves_go_on_where_they_were_if_their_table_is_lost(mariadb: MariaDatabase) -> None:
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        for name in ("a", "b", "a"):
            checkpointer.save(AgentState(), name)
    mariadb.sql("DROP TABLE holdfast_numbers")
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        checkpointer.save(AgentState(), "c")
        assert checkpointer.list_threads() == ["c", "a", "b"]


def test_one_address_gives_both_contracts(mariadb: MariaDatabase) -> None:
    check_both_contracts(mariadb.url)
    check_both_contracts(mariadb.url.replace("mysql:", "mariadb:"))


def test_the_parts_of_an_address() -> None:
    assert _from_url(
        "mysql://an%40n:p%3Aw@db.example:3307/my%2Fdb?unix_socket=%2Ftmp%2Fs&ssl_mode=REQUIRED"
    ) == {
        "database": "my/db",
        "host": "db.example",
        "port": 3307,
        "user": "an@n",
        "password": "p:w",
        "unix_socket": "/tmp/s",
        "ssl": "REQUIRED",
    }
    for wrong in ("mysql://h", "mysql://h/", "postgresql://h/d", "mysql://h:x/d", "mysql://h/d?sslmode=x", 7):
        with pytest.raises(InvalidInput):
            _from_url(wrong)


def test_tls_is_as_strict_as_it_is_said() -> None:
    assert _tls(None) is None
    assert _tls("disabled") is None
    for mode, verified, named in (
        ("REQUIRED", ssl.CERT_NONE, False),
        ("verify_ca", ssl.CERT_REQUIRED, False),
        ("VERIFY_IDENTITY", ssl.CERT_REQUIRED, True),
    ):
        context = _tls(mode)
        assert (context.verify_mode, context.check_hostname) == (verified, named)
    for wrong in ("yes", True, 1):
        with pytest.raises(InvalidInput, match="VERIFY_IDENTITY"):
            _tls(wrong)


OPENERS: list[Callable[[str], Any]] = [
    lambda url: MySQLCheckpointer(host="127.0.0.1", port=1, password=SECRET),
    lambda url: MySQLCheckpointer(host="127.0.0.1", port=1, password=SecretStr(SECRET)),
    lambda url: MySQLBackend("127.0.0.1", 1, "d", "u", SecretStr(SECRET)),
    lambda url: mysql_checkpointer(dsn=f"mysql://u:{SECRET.replace('%', '%25')}@127.0.0.1:1/d"),
    lambda url: MySQLCheckpointer(url.replace("root@", f"nobody:{SECRET.replace('%', '%25')}@")),
    lambda url: MySQLCheckpointer(url.replace("?", "_is_not_there?"), password=SECRET),
]


@pytest.mark.parametrize("number", range(len(OPENERS)))
def test_a_password_is_in_no_error_and_in_no_representation(mariadb: MariaDatabase, number: int) -> None:
    check_secret_is_kept(lambda: OPENERS[number](mariadb.url))


def test_an_address_that_cannot_be_read_is_not_shown() -> None:
    unclear = (f"mysql://u:{SECRET}@[::1/d", f"mysql://u:{SECRET}@h:port/d", f"{SECRET}")
    check_unreadable_is_not_shown(MySQLCheckpointer, *unclear)


def test_what_is_more_than_the_server_takes_at_once_is_refused_and_nothing_else(
    mariadb: MariaDatabase,
) -> None:
    with own_server() as server:
        server.stop()
        server.start("--max-allowed-packet=2M")
        with MySQLSyncCheckpointer(server.url()) as checkpointer:
            small, large = AgentState(metadata={"x": "y" * 1000}), AgentState(metadata={"x": "y" * 3_000_000})
            head = checkpointer.save(small, "t")
            with pytest.raises(InvalidInput, match="max_allowed_packet = 2097152"):
                checkpointer.save(large, "t", parent=head)
            assert checkpointer.save(small, "t", parent=head)
            assert len(checkpointer.list_checkpoints("t")) == 2

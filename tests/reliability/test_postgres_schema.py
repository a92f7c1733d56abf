"""Tables on PostgreSQL: made where there are none, by many at once, or only looked at by a role with few rights."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from holdfast.core.state import AgentState
from holdfast.errors import SchemaMismatch
from holdfast.memory.backends import (
    PostgreSQLBackend,
    PostgreSQLCheckpointer,
    PostgreSQLSyncCheckpointer,
    postgresql_checkpointer,
)
from tests import forking
from tests.reliability.server_checks import (
    SECRET,
    check_both_contracts,
    check_secret_is_kept,
    check_unreadable_is_not_shown,
    everything,
)
from tests.servers.fixtures import AnyDatabase, Database
from tests.servers.oracle import Server, on_all_servers


def tables_of(database: Database, schema: str = "public") -> set[str]:
    found = database.sql("SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
    return {name for (name,) in found}


def _save_one(kind: type[Server], url: str, number: int, barrier: Any, failed: Any) -> None:
    try:
        barrier.wait()
        with kind.blocking(url) as checkpointer:
            checkpointer.save(AgentState(), f"t{number}")
    except BaseException as error:
        failed.put(repr(error))
        raise


@on_all_servers()
def test_eight_processes_on_an_empty_database_make_the_tables_once(database: Server) -> None:
    context = forking.context()
    barrier, failed = context.Barrier(8), context.Queue()
    children = [
        context.Process(target=_save_one, args=(type(database), database.url, n, barrier, failed))
        for n in range(8)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0] * 8, failed.get(timeout=1)
    assert database.sql("SELECT COUNT(*) FROM holdfast_threads") == [(8,)]
    assert database.sql("SELECT value FROM holdfast_meta WHERE name = 'schema:checkpoints'") == [("1",)]


def test_without_the_right_to_create_the_missing_ddl_is_told_and_rows_are_all_that_is_needed(
    postgres: Database,
) -> None:
    postgres.sql("CREATE ROLE runtime_role LOGIN")
    try:
        url = postgres.server.url(postgres.name, user="runtime_role")
        with (
            PostgreSQLSyncCheckpointer(url, auto_create_table=False) as checkpointer,
            pytest.raises(SchemaMismatch, match="holdfast_threads") as missing,
        ):
            checkpointer.load("t")
        assert tables_of(postgres) == set()
        postgres.sql(missing.value.ddl)  # the owner runs it as it was printed
        postgres.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO runtime_role")
        with PostgreSQLSyncCheckpointer(url, auto_create_table=False) as checkpointer:
            everything(checkpointer)
        with PostgreSQLSyncCheckpointer(url) as checkpointer:  # all is there: nothing has to be created
            everything(checkpointer)
    finally:
        postgres.sql("DROP OWNED BY runtime_role; DROP ROLE runtime_role")


def test_a_schema_is_made_if_it_is_missing_and_prefixes_are_apart(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url, schema="app", table_name="one") as one:
        everything(one)
        one.save(AgentState(), "t")
    with PostgreSQLSyncCheckpointer(postgres.url, schema="app", table_name="two") as two:
        assert two.load("t") is None
    with PostgreSQLSyncCheckpointer(postgres.url, schema="app", table_name="one") as one:
        assert one.load("t") is not None
    assert tables_of(postgres) == set()
    assert {"one_threads", "two_threads"} <= tables_of(postgres, "app")


def test_tables_of_a_newer_version_are_refused_and_dropped_ones_are_made_again(database: AnyDatabase) -> None:
    with database.blocking(database.url) as checkpointer:
        checkpointer.save(AgentState(), "t")
    database.sql("DROP TABLE holdfast_words")
    with database.blocking(database.url) as checkpointer:
        assert checkpointer.load("t") is not None
    database.sql("SELECT COUNT(*) FROM holdfast_words")
    database.sql("UPDATE holdfast_meta SET value = '99' WHERE name = 'schema:checkpoints'")
    with (
        database.blocking(database.url) as checkpointer,
        pytest.raises(SchemaMismatch, match="newer"),
    ):
        checkpointer.load("t")


def test_one_address_gives_both_contracts(postgres: Database) -> None:
    check_both_contracts(postgres.url, schema="shared")


OPENERS: list[Callable[[str], Any]] = [
    lambda url: PostgreSQLCheckpointer(host="127.0.0.1", port=1, password=SECRET, pool_timeout=0.3),
    lambda url: PostgreSQLCheckpointer(
        host="127.0.0.1", port=1, password=SecretStr(SECRET), pool_timeout=0.3
    ),
    lambda url: PostgreSQLBackend("127.0.0.1", 1, "d", "u", SecretStr(SECRET), pool_timeout=0.3),
    lambda url: postgresql_checkpointer(
        dsn=f"postgresql://u:{SECRET.replace('%', '%25')}@127.0.0.1:1/d", pool_timeout=0.3
    ),
    lambda url: postgresql_checkpointer(dsn=f"{url}&options=-crole%3Dnobody_has_this", password=SECRET),
]


@pytest.mark.parametrize("number", range(len(OPENERS)))
def test_a_password_is_in_no_error_and_in_no_representation(postgres: Database, number: int) -> None:
    check_secret_is_kept(lambda: OPENERS[number](postgres.url))


def test_an_address_that_cannot_be_read_is_not_shown() -> None:
    unclear = (f"postgresql://u:{SECRET}@[::1/d", f"host=h password={SECRET} nonsense", f"{SECRET}")
    check_unreadable_is_not_shown(PostgreSQLCheckpointer, *unclear)

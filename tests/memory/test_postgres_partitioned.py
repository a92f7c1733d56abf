"""Tables in partitions: how they are made and filled, what their keys begin with, and the suites on them."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import psycopg
import pytest

from holdfast import connect
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import InvalidInput, SchemaMismatch
from holdfast.memory.backends.postgres import PostgreSQLSyncCheckpointer
from holdfast.memory.backends.postgres_engine import POSTGRES
from holdfast.memory.backends.postgres_partitions import distribution_of_items, distribution_of_threads
from holdfast.memory.backends.postgres_store import PostgresStore, postgres_items
from holdfast.memory.backends.postgres_words import Lexemes
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.testing.checkpointer_cases.branching import BranchingCases
from holdfast.testing.checkpointer_suite import CheckpointerSuite
from holdfast.testing.store_cases.batches import BatchCases
from holdfast.testing.store_cases.items import ItemCases
from holdfast.testing.store_suite import StoreSuite
from tests.memory.postgres_suites import PostgresCheckpointerCases, PostgresStoreCases
from tests.servers.fixtures import Database, kept
from tests.servers.postgres import PostgresServer
from tests.servers.tenancy import roles_of, secured

PARTITIONS = 3
DISTRIBUTION = {
    **distribution_of_threads(Tables(POSTGRES, Lexemes())),
    **distribution_of_items(postgres_items("holdfast_items")),
}


@pytest.fixture(scope="module")
def _kept(postgres_server: PostgresServer) -> Iterator[Database]:
    with kept(postgres_server, "partitioned") as database:
        yield database


@pytest.fixture
def url(_kept: Database) -> str:
    """Where the suites run: tests before have used the tables, and they are empty."""
    _kept.empty()
    return _kept.url


class TestPartitionedBranches(PostgresCheckpointerCases):
    """A sample of the suite below."""

    options: ClassVar[Mapping[str, Any]] = {"partitions": PARTITIONS}
    test_a_copy_has_the_whole_history = BranchingCases.test_a_copy_has_the_whole_history
    test_a_fork_of_a_fork_needs_neither = BranchingCases.test_a_fork_of_a_fork_needs_neither
    test_an_inherited_head_may_be_deleted = BranchingCases.test_an_inherited_head_may_be_deleted
    test_a_fork_outlives_its_source = BranchingCases.test_a_fork_outlives_its_source


@pytest.mark.long  # the plans are those of the plain tables
class TestPartitionedCheckpointer(TestPartitionedBranches, CheckpointerSuite):
    """All of it."""


class TestPartitionedItems(PostgresStoreCases):
    """A sample of the suite below."""

    options: ClassVar[Mapping[str, Any]] = {"partitions": PARTITIONS}
    test_compare_and_set = ItemCases.test_compare_and_set
    test_put_batch_and_get_batch_keep_the_order = ItemCases.test_put_batch_and_get_batch_keep_the_order
    test_search_knows_what_a_batch_did = BatchCases.test_search_knows_what_a_batch_did


@pytest.mark.long  # likewise
class TestPartitionedStore(TestPartitionedItems, StoreSuite):
    """All of it."""


async def fill(url: str, **options: Any) -> None:
    async with connect(url, dimension=2, **options) as db:
        for number in range(12):
            state = AgentState().with_message(Message.user(f"word{number}"))
            parent = await db.checkpointer.save(state, f"t{number}")
            await db.checkpointer.put_writes(f"t{number}", parent, "task", [("x", 1)])
            namespace = ("users", f"u{number}")
            await db.store.put_with_embedding(namespace, "k", f"word{number}", [1, number])
        assert len(await db.checkpointer.search("word7")) == 1
        assert [item.value for item in await db.store.search(("users", "u7"), "word7")] == ["word7"]
        assert len(await db.checkpointer.list_threads()) == 12
        hits = await db.store.search_by_embedding(("users", "u7"), [1, 7])
        assert [hit.item.key for hit in hits] == ["k"]


async def search_by_the_index(url: str) -> None:
    async with PostgresStore(url, dimension=2, index_vectors_from=0) as store:
        await store.index_vectors()
        assert await store.vector_search_by(("users", "u7")) == "hnsw"
        hits = await store.search_by_embedding(("users", "u7"), [1, 7])
        assert [hit.item.key for hit in hits] == ["k"]
        await store.clear_namespace(("users",), prefix=True)


def test_rows_spread_over_the_partitions(postgres: Database) -> None:
    asyncio.run(fill(postgres.url, partitions=PARTITIONS))
    for table in ("threads", "lives", "checkpoints", "entries", "writes", "words", "items", "items_postings"):
        found = postgres.sql(f"SELECT tableoid, COUNT(*) FROM holdfast_{table} GROUP BY 1")
        assert len(found) == PARTITIONS, table
        assert sum(count for _, count in found) == 12, table
    asyncio.run(fill(postgres.url))  # who doesn't say how they are made takes them as they are
    asyncio.run(search_by_the_index(postgres.url))
    assert postgres.sql("SELECT COUNT(*) FROM holdfast_items_nearest") == [(0,)]
    plan = postgres.sql("EXPLAIN SELECT * FROM holdfast_checkpoints WHERE life = '\\x00' AND seq = 1")
    assert sum("holdfast_checkpoints_p" in line for (line,) in plan) <= 2  # one partition, by its index


def test_whatever_is_unique_begins_with_what_its_table_is_spread_by(postgres: Database) -> None:
    asyncio.run(fill(postgres.url, partitions=PARTITIONS))
    partitioned = postgres.sql(
        "SELECT c.relname, pg_get_partkeydef(c.oid) FROM pg_class c WHERE c.relkind = 'p' ORDER BY 1"
    )
    assert dict(partitioned) == {
        table: f"HASH ({', '.join(columns)})" for table, columns in DISTRIBUTION.items()
    }
    unique = postgres.sql(
        "SELECT t.relname, i.relname, a.attname FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid"
        " JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]"
        " WHERE x.indisunique AND t.relkind = 'p'"
    )
    assert {table for table, _, _ in unique} >= set(DISTRIBUTION) - {"holdfast_words"}
    for table, index, column in unique:
        assert column == DISTRIBUTION[table][0], index


def test_tables_that_are_made_differently_are_refused(postgres: Database) -> None:
    for wrong in (0, 1, 5000, True, "4"):
        with pytest.raises(InvalidInput, match="partitions"):
            PostgreSQLSyncCheckpointer(postgres.url, partitions=wrong)
    with PostgreSQLSyncCheckpointer(postgres.url, table_name="plain") as threads:
        threads.save(AgentState(), "t")
    for table_name, message in (("plain", "has no partitions, not 2"), ("parted", "has 3 partitions, not 2")):
        with PostgreSQLSyncCheckpointer(postgres.url, table_name="parted", partitions=3) as threads:
            threads.save(AgentState(), "t")
        with (
            PostgreSQLSyncCheckpointer(postgres.url, table_name=table_name, partitions=2) as threads,
            pytest.raises(SchemaMismatch, match=message),
        ):
            threads.load("t")


@pytest.mark.long
def test_older_servers_have_partitions_and_row_security_too(postgres15: Database) -> None:
    with roles_of(postgres15, "owner") as (owner,):
        postgres15.sql(f"GRANT CREATE ON DATABASE {postgres15.name} TO {owner}")
        url = postgres15.server.url(postgres15.name, user=owner)
        asyncio.run(fill(url, schema="apart", partitions=PARTITIONS, row_security=True))
        assert postgres15.sql("SELECT COUNT(DISTINCT tableoid) FROM apart.holdfast_entries") == [
            (PARTITIONS,)
        ]
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT COUNT(*) FROM apart.holdfast_entries").fetchall() == [(0,)]


@pytest.fixture
def both(postgres: Database) -> Iterator[str]:
    with secured(postgres, partitions=PARTITIONS) as place:
        yield place.operator_url


def test_partitions_of_secured_tables_show_nothing_by_themselves(postgres: Database, both: str) -> None:
    asyncio.run(fill(both, auto_create_table=False, row_security=True, partitions=PARTITIONS))
    parts = [
        name
        for (name,) in postgres.sql("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'")
    ]
    assert len(parts) == PARTITIONS * len(DISTRIBUTION)
    with psycopg.connect(both) as connection:
        connection.execute("SELECT set_config('holdfast.scope', 'd', true)")
        for part in parts:
            assert connection.execute(f"SELECT COUNT(*) FROM {part}".encode()).fetchall() == [(0,)]
        assert connection.execute("SELECT COUNT(*) FROM holdfast_threads").fetchall() == [(12,)]

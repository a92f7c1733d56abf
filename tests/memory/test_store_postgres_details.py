"""What the PostgreSQL store promises beyond the contract: about its tables, its round trips and its rights."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from holdfast.core.errors import InvalidInput, SchemaMismatch, Unavailable
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.postgres_engine import postgres_engine
from holdfast.memory.backends.postgres_session import PgSession
from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.backends.sql.plan import Batch
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.testing.clock import FrozenClock
from tests.memory.recording import keys
from tests.servers.fixtures import Database

NS = ("users", "ann")
ITEMS = "holdfast_items"
TABLES = "SELECT table_schema || '.' || table_name FROM information_schema.tables WHERE table_name LIKE %s"
FEW = {f"{ITEMS}_meta", f"{ITEMS}_counters"}


def tables_of(database: Database, like: str = "%items%") -> list[str]:
    return sorted(name for (name,) in database.sql(TABLES, like))


def rows_of(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """What every table holds, but for single values: the schema's version, the analyser's, the slots."""
    names = {name.removeprefix("public.") for name in tables_of(database)} - FEW
    return {name: database.sql(f"SELECT * FROM {name}") for name in names}


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_items_are_in_exactly_the_table_that_was_named(postgres: Database) -> None:
    with PostgresSyncStore(postgres.url, table_name="notes", schema="mine") as store:
        store.put(NS, "k", "an apple", {"m": 1})
    assert "mine.notes" in tables_of(postgres, "%notes%")
    assert all(name.startswith("mine.notes") for name in tables_of(postgres, "%notes%"))
    assert postgres.sql("SELECT item_key, value, document FROM mine.notes") == [("k", '"an apple"', {"m": 1})]
    for bad in ("", "a b", "x; DROP TABLE notes", "ü", 'a"b', "1a"):
        with pytest.raises(InvalidInput, match="table_name"):
            PostgresStore(postgres.url, table_name=bad)
        with pytest.raises(InvalidInput, match="schema"):
            PostgresStore(postgres.url, schema=bad)


def test_after_the_items_table_was_dropped_nothing_comes_back(postgres: Database) -> None:
    with PostgresSyncStore(postgres.url, dimension=2, index_vectors_from=0) as store:
        last = store.put_with_embedding(NS, "k", "an apple", [1, 0])
        assert store.index_vectors() == 1
    postgres.sql(f"DROP TABLE {ITEMS}")
    with PostgresSyncStore(postgres.url, dimension=3) as store:  # another space: the namespace is new
        assert store.list_namespaces() == []
        assert store.search(NS, "apple") == []
        assert store.search_by_embedding(NS, [1, 0, 0]) == []
        assert all(found == [] for found in rows_of(postgres).values())
        assert store.put_with_embedding(NS, "k", "a plum", [1, 0, 0]) > last
        assert keys(store.search(NS, "plum")) == ["k"]


@pytest.mark.parametrize("table", ["postings", "terms", "vectors", "namespaces", "counters", "meta"])
def test_a_table_beside_the_items_that_was_dropped_is_made_again(postgres: Database, table: str) -> None:
    with PostgresSyncStore(postgres.url, dimension=2) as store:
        store.put_batch([((*NS, str(n)), "k", {"text": f"apple {n}"}) for n in range(3)])
        last = store.put_with_embedding(NS, "k", {"text": "apple pear"}, [1, 0])
    postgres.sql(f"DROP TABLE {ITEMS}_{table}")
    with PostgresSyncStore(postgres.url, dimension=2) as store:
        assert store.get(NS, "k") == {"text": "apple pear"}
        assert len(store.search(NS, "apple", prefix=True)) == 4
        kept = [] if table in ("vectors", "namespaces") else ["k"]
        assert keys(store.search_by_embedding(NS, [1, 0])) == kept
        assert store.put_with_embedding(NS, "k", {"text": "a plum"}, [1, 0]) > last
        assert keys(store.search_by_embedding(NS, [1, 0])) == ["k"]
        assert store.search(NS, "pears") == []
        assert store.clear_namespace(NS, prefix=True) == 4
    assert all(found == [] for found in rows_of(postgres).values())


def test_a_role_that_may_only_read_and_write_rows_works_on_tables_that_the_owner_made(
    postgres: Database,
) -> None:
    postgres.sql("CREATE ROLE runtime LOGIN")
    url = postgres.server.url(postgres.name, user="runtime")
    options: dict[str, Any] = {"dimension": 2, "index_vectors_from": 0, "auto_create_table": False}
    try:
        with PostgresSyncStore(url, **options) as store, pytest.raises(SchemaMismatch) as caught:
            store.get(NS, "k")
        script = str(caught.value).partition("\n")[2]
        for statement in script.split(";\n"):
            postgres.sql(statement or "SELECT 1")
        postgres.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO runtime")
        with PostgresSyncStore(url, **options) as store:
            store.put_with_embedding(NS, "k", "an apple", [1, 0])
            versions = store.batch([PutOp(NS, f"k{number}", "a pear") for number in range(3)])
            assert versions == sorted(versions)
            assert keys(store.search(NS, "apple")) == ["k"]
            assert keys(store.search_by_embedding(NS, [1, 0])) == ["k"]
            assert store.vector_search_by(NS) == "exact"  # nobody made the index
            assert store.clear_namespace(NS) == 4
        with PostgresSyncStore(postgres.url, dimension=2, index_vectors_from=0) as owner:
            owner.put_with_embedding(NS, "k", "an apple", [1, 0])
            assert owner.index_vectors() == 1
        with PostgresSyncStore(url, **options) as store:  # not yet for everybody
            assert keys(store.search_by_embedding(NS, [1, 0])) == ["k"]
            assert store.vector_search_by(NS) == "exact"
        postgres.sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {ITEMS}_nearest TO runtime")
        with PostgresSyncStore(url, **options) as store:
            store.put_with_embedding(NS, "k2", "an apple", [1, 0])
            assert store.vector_search_by(NS) == "hnsw"
            assert store.index_vectors() == 1
            assert store.delete(NS, "k")
            assert postgres.sql(f"SELECT COUNT(*) FROM {ITEMS}_nearest") == [(1,)]
    finally:
        postgres.sql("DROP OWNED BY runtime")
        postgres.sql("DROP ROLE runtime")


def test_a_database_of_a_newer_version_is_refused(postgres: Database) -> None:
    with PostgresSyncStore(postgres.url) as store:
        store.put(NS, "k", 1)
    postgres.sql(f"UPDATE {ITEMS}_meta SET value = '99' WHERE name = 'schema:items'")
    with PostgresSyncStore(postgres.url) as store, pytest.raises(SchemaMismatch, match="newer Holdfast"):
        store.get(NS, "k")


# ── nothing is left ───────────────────────────────────────────────────────────────────────────────────


def delete_each(store: PostgresSyncStore, clock: FrozenClock) -> None:
    assert store.batch([DeleteOp(NS, "a"), DeleteOp(NS, "b"), DeleteOp((*NS, "below"), "a")]) == [1, 2, 3]


def clear(store: PostgresSyncStore, clock: FrozenClock) -> None:
    assert store.clear_namespace(NS, prefix=True) == 3


def purge(store: PostgresSyncStore, clock: FrozenClock) -> None:
    clock.advance(5)
    assert store.purge_expired() == 3


@pytest.mark.parametrize("way", [delete_each, clear, purge])
def test_what_is_gone_leaves_no_row_behind(
    postgres: Database, way: Callable[[PostgresSyncStore, FrozenClock], None]
) -> None:
    clock = FrozenClock()
    with PostgresSyncStore(postgres.url, dimension=2, index_vectors_from=0, clock=clock) as store:
        metadata = {"group": "g", "ordinal": 1}
        store.put_with_embedding(NS, "a", {"text": "an apple"}, [1, 0], metadata, ttl=5)
        store.put(NS, "b", {"text": "an apple and a pear"}, ttl=5)
        store.put((*NS, "below"), "a", "a plum", ttl=5)
        assert store.index_vectors() == 1
        assert all(rows_of(postgres).values())
        way(store, clock)
        assert all(found == [] for found in rows_of(postgres).values())


def test_more_than_a_portion_that_expired_goes_in_portions(postgres: Database) -> None:
    clock = FrozenClock()
    with PostgresSyncStore(postgres.url, clock=clock) as store:
        store.batch([PutOp((*NS, f"{n % 300}"), f"k{n}", "apple", ttl=5) for n in range(1100)])
        store.put(NS, "stays", "apple")
        clock.advance(5)
        assert store.purge_expired() == 1100
        assert keys(store.search(NS, "apple", prefix=True)) == ["stays"]
    assert [len(found) for found in (rows_of(postgres)[ITEMS], rows_of(postgres)[f"{ITEMS}_postings"])] == [
        1,
        1,
    ]


# ── round trips ───────────────────────────────────────────────────────────────────────────────────────


def test_a_put_is_two_round_trips_and_a_get_is_one(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips: list[int] = []
    exchange = PgSession._exchange

    async def counting(self: PgSession, batch: Batch, begin: str, *, commit: bool) -> list[Any]:
        trips.append(len(batch))
        return await exchange(self, batch, begin, commit=commit)

    monkeypatch.setattr(PgSession, "_exchange", counting)

    def counted(call: Callable[[], Any]) -> int:
        trips.clear()
        call()
        return len(trips)

    with PostgresSyncStore(postgres.url, dimension=2) as store:
        store.put_with_embedding(NS, "other", "a pear", [1, 0])
        assert counted(lambda: store.put(NS, "k", "an apple")) == 2
        assert counted(lambda: store.put(NS, "k", "a pear", {"m": 1}, expected_version=2)) == 2
        assert counted(lambda: store.put_with_embedding(NS, "k", "a fig", [1, 0])) == 2
        assert counted(lambda: store.put_batch([(NS, f"k{n}", n) for n in range(100)])) == 2
        assert counted(lambda: store.delete(NS, "k")) == 2
        assert counted(lambda: store.get(NS, "k1")) == 1
        assert counted(lambda: store.get_batch([(NS, "k1"), (("else",), "k2")])) <= 2


def test_every_question_is_answered_from_an_index(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Sequence[Any]] = {}
    exchange = PgSession._exchange

    async def noting(self: PgSession, batch: Batch, begin: str, *, commit: bool) -> list[Any]:
        for kind, sql, params, _ in batch:
            if sql.startswith(("SELECT", "UPDATE", "DELETE")) and params and ITEMS in sql:
                asked[sql] = params[0] if kind == "many" else params
        return await exchange(self, batch, begin, commit=commit)

    clock = FrozenClock()
    with PostgresSyncStore(postgres.url, dimension=2, index_vectors_from=0, clock=clock) as store:
        store.put(NS, "first", "a pear")
        store.search_by_embedding(NS, [1, 0])
        monkeypatch.setattr(PgSession, "_exchange", noting)
        for number in range(30):
            metadata = {"group": "g", "ordinal": number}
            store.put_with_embedding(NS, f"k{number}", "an apple", [1, number], metadata, ttl=100)
        assert store.index_vectors() == 30
        for space, prefix in ((NS, False), (NS[:1], True)):
            page: Any = store.list_keys(space, 5, prefix=prefix)
            store.list_keys(space, 5, prefix=prefix, after=page.next)
            page = store.search(space, limit=5, prefix=prefix)
            store.search(space, limit=5, prefix=prefix, after=page.next)
            store.search(space, "apple", prefix=prefix)
            store.search(space, filter={"group": "g"}, prefix=prefix)
        store.get(NS, "k1")
        store.search_by_embedding(NS, [1, 0])
        store.neighbours(NS, "g", 5, 2)
        store.list_namespaces(NS)
        store.delete(NS, "k1")
        clock.advance(100)
        store.purge_expired()
        store.clear_namespace(NS, prefix=True)
    assert len(asked) > 30
    scans = {}
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")  # the tables are tiny: it would read them whole
        for sql, params in asked.items():
            found = connection.execute(f"EXPLAIN {sql.replace('?', '%s')}".encode(), list(params)).fetchall()
            steps = "\n".join(line for (line,) in found)
            if "Seq Scan" in steps.replace(f"Seq Scan on {ITEMS}_counters", ""):
                scans[sql] = steps
    assert scans == {}


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────


def test_filters_that_the_database_narrows_are_those_of_the_reference(postgres: Database) -> None:
    odd: list[Any] = [1, 1.0, True, "1", None, "", "a\x00b", "\ud800", "ü", 2**53, float(2**53), 1e23, 10**23]
    odd += [
        -0.0,
        0,
        0.1,
        1e-300,
        [1],
        {"b": 1},
        {"b": {"c": "x"}},
        {1: 2},
        float("inf"),
        "$hf",
        {"$hf": 1},
        '"\\',
    ]
    documents = [{"m": value} for value in odd] + [{"a": {"b": value}} for value in odd]
    documents += [{}, {"m.b": 1}, {"M": 1}, {"\x00": 1}, {"a": {"b": {"c": "x", "d": 1}}, "m": 1}]
    scalars = [value for value in odd if not isinstance(value, list | dict)]
    tests: list[dict[str, Any]] = [{"m": value} for value in odd if not isinstance(value, dict)]
    tests += [{"a.b": value} for value in scalars]
    tests += [{"a.b.c": "x"}, {"a.b": 1, "m": 1}, {"a": 1, "a.b": 1}, {"a.b": 1, "a.b.c": 1}, {"\x00": 1}]
    tests += [
        {"m": {"$eq": 1, "$ne": True}},
        {"m": {"$eq": 1, "$gt": 0}},
        {"m\\.b": 1},
        {"m": {"$in": [1, "1"]}},
    ]

    async def run() -> None:
        async with InMemoryStore() as reference, PostgresStore(postgres.url) as store:
            items = [(NS, f"k{number}", "apple", document) for number, document in enumerate(documents)]
            await reference.put_batch(items)
            await store.put_batch(items)
            for test in tests:
                expected = keys(await reference.search(NS, limit=500, filter=test))
                assert keys(await store.search(NS, limit=500, filter=test)) == expected, test
                found = keys(await store.search(NS, "apple", limit=500, filter=test))
                assert found == expected, test

    asyncio.run(run())


def test_a_filter_reads_only_what_may_pass(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    exchange = PgSession._exchange

    async def counting(self: PgSession, batch: Batch, begin: str, *, commit: bool) -> list[Any]:
        results = await exchange(self, batch, begin, commit=commit)
        read.extend(len(result) for result in results if isinstance(result, list))
        return results

    with PostgresSyncStore(postgres.url) as store:
        store.put_batch([(NS, f"k{n}", "apple", {"n": n % 200}) for n in range(2000)])
        monkeypatch.setattr(PgSession, "_exchange", counting)
        assert len(store.search(NS, filter={"n": 7}, limit=50)) == 10
        assert sum(read) == 10


# ── connections ───────────────────────────────────────────────────────────────────────────────────────


def test_a_shared_engine_outlives_the_store(postgres: Database) -> None:
    async def run() -> None:
        engine = postgres_engine(postgres.url)
        async with PostgresStore(engine=engine) as store:
            await store.put(NS, "k", 1)
        async with PostgresStore(engine=engine, owns_engine=True) as owner:
            assert await owner.get(NS, "k") == 1

    asyncio.run(run())


def test_nothing_is_said_of_a_password_and_an_outage_is_not_an_absence() -> None:
    with PostgresSyncStore("postgresql://ann:geheim@127.0.0.1:1/none", pool_timeout=0.3) as store:
        with pytest.raises(Unavailable) as caught:
            store.get(NS, "k")
        assert "geheim" not in str(caught.value)
        assert "geheim" not in repr(store)

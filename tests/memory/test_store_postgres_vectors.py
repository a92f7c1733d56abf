"""Vectors in PostgreSQL: pgvector's index finds what comparing everything finds, and never fewer than asked for."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.memory.backends import pgvector_search
from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.backends.sql import items_matches, items_nearest, items_vectors
from holdfast.memory.filters import compile_filter
from holdfast.memory.store_requests import ItemPut, VectorRequest, WriteRequest
from holdfast.memory.vectors import Metric, VectorSpace, check_vector
from tests.memory.recording import keys
from tests.servers.fixtures import Database

np = pytest.importorskip("numpy", reason="needs numpy")

NS = ("users", "ann")
DIMENSION = 16
ITEMS = "holdfast_items"


def vectors(count: int, seed: int = 1) -> Any:
    """Vectors in groups, as embeddings are."""
    chance = np.random.default_rng(7)
    centres = chance.normal(size=(50, DIMENSION))
    chance = np.random.default_rng(seed)
    return (centres[chance.integers(0, 50, count)] + 0.5 * chance.normal(size=(count, DIMENSION))).astype(
        "f4"
    )


async def fill(store: PostgresStore, namespace: tuple[str, ...], rows: Any, first: int = 0) -> None:
    """Many items with vectors in few transactions."""
    space = store._space
    assert space is not None
    for start in range(0, len(rows), 1000):
        ops = [
            ItemPut(namespace, f"k{n}", str(n), f'{{"n":{n}}}', "", None, check_vector(row, space))
            for n, row in enumerate(rows[start : start + 1000], first + start)
        ]
        await store._write(WriteRequest(ops, (), space, 1))


@asynccontextmanager
async def opened(database: Database, large: int = 0, **options: Any) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.url, dimension=DIMENSION, index_vectors_from=large, **options) as store:
        yield store


async def recall(database: Database, queries: Any, metric: str, limit: int = 10) -> float:
    """How many of the nearest the index finds."""
    found = wanted = 0
    async with (
        opened(database, distance_metric=metric) as store,
        opened(database, distance_metric=metric, vector_index=False) as exact,
    ):
        assert await store.vector_search_by(NS) == "hnsw"
        assert await exact.vector_search_by(NS) == "exact"
        for query in queries:
            best = await exact.search_by_embedding(NS, query, limit)
            hits = await store.search_by_embedding(NS, query, limit)
            assert len(hits) == len(best) == limit
            found += len(set(keys(best)) & set(keys(hits)))
            wanted += limit
            scores = {hit.item.key: hit.score for hit in best}
            assert all(
                hit.score == pytest.approx(scores[hit.item.key]) for hit in hits if hit.item.key in scores
            )
    return found / wanted


@pytest.mark.parametrize("metric", ["COSINE", "DOT", "EUCLIDEAN", "MANHATTAN"])
def test_the_index_finds_the_nearest_of_a_thousand(postgres: Database, metric: str) -> None:
    async def run() -> None:
        async with opened(postgres, distance_metric=metric) as store:
            await fill(store, NS, vectors(1000))
            assert await store.index_vectors() == 1000
        assert await recall(postgres, vectors(20, seed=2), metric) >= 0.99

    asyncio.run(run())


def test_the_index_finds_the_nearest_of_ten_thousand(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened(postgres) as store:
            await fill(store, NS, vectors(10_000))
            assert await store.index_vectors() == 10_000
            postgres.sql("ANALYZE")
            assert "Index Scan using holdfast_items_nearest_cosine_16" in explained(postgres, store)
        monkeypatch.setattr(items_nearest, "exact", None)  # it is not asked
        assert await recall(postgres, vectors(30, seed=2), "COSINE") >= 0.98

    asyncio.run(run())


def explained(database: Database, store: PostgresStore) -> str:
    """How the server looks for candidates."""
    assert store._index is not None
    index = store._index.index
    request = VectorRequest(
        NS, check_vector([1.0] * DIMENSION, index.space), index.space, compile_filter(None), 10, None, 0
    )
    statement = pgvector_search._select_candidates(index, 1, request, 64)
    plan = database.sql(f"EXPLAIN {statement.sql.replace('?', '%s')}", *statement.params)
    return "\n".join(line for (line,) in plan)


@pytest.mark.parametrize("scanned", [40_000, 1])
def test_ten_that_match_are_ten_whoever_else_is_in_the_index(
    postgres: Database, monkeypatch: pytest.MonkeyPatch, scanned: int
) -> None:
    """Where an index alone would give fewer: a small namespace among large ones, a filter that few pass."""
    monkeypatch.setattr(pgvector_search, "_SCANNED", scanned)

    async def run() -> None:
        async with opened(postgres) as store:
            rows = vectors(1500)
            for number in range(3):
                await fill(store, ("others", str(number)), rows)
            await fill(store, NS, rows)
            await fill(store, ("users", "bob"), rows[:10])
            assert await store.index_vectors() == 6010
            postgres.sql("ANALYZE")
            for query in vectors(5, seed=3):
                assert len(await store.search_by_embedding(("users", "bob"), query, 10)) == 10
                few = {"n": {"$in": list(range(0, 1500, 150))}}
                hits = await store.search_by_embedding(NS, query, 10, metadata_filter=few)
                assert {hit.item.metadata["n"] for hit in hits} == set(range(0, 1500, 150))
                (hit,) = await store.search_by_embedding(NS, query, 10, metadata_filter={"n": 77})
                assert hit.item.key == "k77"
                assert len(await store.search_by_embedding(NS, query, 1500)) == 1500
                assert len(await store.search_by_embedding(NS, query, 100)) == 100

    asyncio.run(run())


def test_a_threshold_leaves_out_what_is_farther_and_nothing_else(postgres: Database) -> None:
    async def run() -> None:
        async with opened(postgres) as store, opened(postgres, vector_index=False) as exact:
            await fill(store, NS, vectors(800))
            await store.index_vectors()
            for threshold in (0.95, 0.5, -0.2, -1.0):
                query = vectors(1, seed=4)[0]
                expected = await exact.search_by_embedding(NS, query, 700, threshold)
                assert keys(await store.search_by_embedding(NS, query, 700, threshold)) == keys(expected)

    asyncio.run(run())


def indexed(database: Database) -> list[int]:
    found = database.sql(f"SELECT i.value FROM {ITEMS}_nearest n LEFT JOIN {ITEMS} i ON i.id = n.item_id")
    return sorted(int(value) for (value,) in found)


def test_what_is_newer_than_the_index_is_found_and_what_is_gone_is_not(postgres: Database) -> None:
    async def run() -> None:
        async with opened(postgres) as store:
            rows = vectors(300)
            await fill(store, NS, rows)
            await store.index_vectors()
            assert indexed(postgres) == list(range(300))
            await store.put_with_embedding(NS, "new", 1000, rows[7])
            await store.put_with_embedding(NS, "k8", 8, -rows[8])
            assert keys(await store.search_by_embedding(NS, rows[7], 2)) == ["new", "k7"]
            assert keys(await store.search_by_embedding(NS, -rows[8], 1)) == ["k8"]
            assert "k8" not in keys(await store.search_by_embedding(NS, rows[8], 100))
            await store.delete(NS, "k7")
            await store.put(NS, "k9", 9)
            assert keys(await store.search_by_embedding(NS, rows[7], 1)) == ["new"]
            assert "k9" not in keys(await store.search_by_embedding(NS, rows[9], 100))
            left = sorted({*range(300)} - {7, 8, 9})
            assert indexed(postgres) == left
            assert await store.index_vectors() == 2
            assert indexed(postgres) == [*left[:7], 8, *left[7:], 1000]
            await store.clear_namespace(NS[:1], prefix=True)
            assert postgres.sql(f"SELECT * FROM {ITEMS}_nearest") == []
            assert await store.search_by_embedding(NS, rows[7], 1) == []

    asyncio.run(run())


def test_searches_bring_the_index_up_to_date_by_themselves(postgres: Database) -> None:
    with PostgresSyncStore(postgres.url, dimension=2, index_vectors_from=500) as store:
        inner = store._inner
        assert isinstance(inner, PostgresStore)
        space = VectorSpace(2, Metric.COSINE)

        def put(first: int, count: int) -> None:
            ops = [
                ItemPut(NS, f"k{n}", "1", "{}", "", None, check_vector([1.0, float(n)], space))
                for n in range(first, first + count)
            ]
            with pytest.raises(StopIteration):
                inner._write(WriteRequest(ops, (), space, 1)).send(None)

        def after_a_search() -> int:
            assert keys(store.search_by_embedding(NS, [1.0, 0.0], 1)) == ["k0"]
            return int(postgres.sql(f"SELECT COUNT(*) FROM {ITEMS}_nearest")[0][0])

        put(0, 500)
        assert after_a_search() == 0  # not large
        assert store.vector_search_by(NS) == "exact"
        put(500, 100)
        assert [after_a_search() for _ in range(3)] == [250, 500, 500]
        assert store.vector_search_by(NS) == "hnsw"
        put(600, 149)
        assert after_a_search() == 500  # few are compared
        put(749, 1)
        assert after_a_search() == 750


def test_a_role_that_may_not_create_the_extension_searches_exactly(postgres: Database) -> None:
    postgres.sql("CREATE ROLE plain LOGIN")
    try:
        postgres.sql("GRANT CREATE ON SCHEMA public TO plain")
        url = postgres.server.url(postgres.name, user="plain")

        async def run() -> None:
            async with PostgresStore(url, dimension=DIMENSION, index_vectors_from=0) as store:
                rows = vectors(20)
                await fill(store, NS, rows)
                assert await store.vector_search_by(NS) == "exact"
                assert await store.index_vectors() == 0
                assert keys(await store.search_by_embedding(NS, rows[3], 1)) == ["k3"]

        asyncio.run(run())
        assert postgres.sql("SELECT 1 FROM pg_extension WHERE extname = 'vector'") == []
    finally:
        postgres.sql("DROP OWNED BY plain")
        postgres.sql("DROP ROLE plain")


@pytest.mark.parametrize("space", [{"distance_metric": "HAMMING"}, {"dimension": 2001}])
def test_what_pgvector_can_not_index_is_compared(postgres: Database, space: dict[str, Any]) -> None:
    options = {"dimension": DIMENSION, "index_vectors_from": 0, **space}
    with PostgresSyncStore(postgres.url, **options) as store:
        for number in range(3):
            store.put_with_embedding(
                NS, f"k{number}", number, [float(number)] * (options["dimension"] - 1) + [1.0]
            )
        assert store.vector_search_by(NS) == "exact"
        assert store.index_vectors() == 0
        assert len(store.search_by_embedding(NS, [1.0] * options["dimension"], 3)) == 3


def test_numbers_are_crunched_off_the_event_loop(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[threading.Thread] = []

    def noting(function: Any) -> Any:
        def call(*args: Any) -> Any:
            seen.append(threading.current_thread())
            return function(*args)

        return call

    for module, name in (
        (items_vectors, "score_all"),
        (items_nearest, "score_all"),
        (items_matches, "_add"),
    ):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))

    async def run(store: PostgresStore, query: Sequence[float]) -> None:
        await store.search_by_embedding(NS, query)
        await store.search_by_embedding(NS, query)
        await store.search(NS, "apple")

    async def main() -> None:
        async with opened(postgres, large=10_000) as store:
            await store.put(NS, "k", "an apple")
            await fill(store, NS, vectors(300))
            await run(store, vectors(1)[0])
        async with opened(postgres) as store:
            await store.index_vectors()
            await run(store, vectors(1)[0])

    asyncio.run(main())
    assert len(seen) == 6
    assert threading.main_thread() not in seen

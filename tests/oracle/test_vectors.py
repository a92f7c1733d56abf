"""Vectors in Oracle: the index of 23ai finds what comparing everything finds, and never fewer than asked for."""

import asyncio
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.oracle_store import OracleStore, OracleSyncStore
from holdfast.memory.backends.oracle_vectors import WITH_VECTORS
from holdfast.memory.store_requests import ItemPut, WriteRequest
from holdfast.memory.vectors import check_vector
from tests.memory.recording import keys
from tests.oracle.database import OracleDatabase
from tests.oracle.place import NEW, Place

np = pytest.importorskip("numpy", reason="needs numpy")

DIMENSION = 8
NS = ("users", "ann")


def options(user: str, **others: Any) -> dict[str, Any]:
    return {
        "dsn": "db.example/service",
        "user": user,
        "password": "secret",
        "table_name": "suite",
        "dimension": DIMENSION,
        "index_vectors_from": 50,
        **others,
    }


def rows(count: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype("f4")


async def fill(store: OracleStore, namespace: tuple[str, ...], vectors: Any, first: int = 0) -> None:
    space = store._space
    assert space is not None
    ops = [
        ItemPut(
            namespace, f"k{n}", str(n), f'{{"n":{n},"third":{n % 3}}}', "", None, check_vector(row, space)
        )
        for n, row in enumerate(vectors, first)
    ]
    await store._write(WriteRequest(ops, (), space, 1))


async def found(store: OracleStore, query: Any, limit: int = 10, **others: Any) -> list[str]:
    return keys(await store.search_by_embedding(NS, query, limit, **others))


@pytest.mark.parametrize("place", NEW, indirect=True)
@pytest.mark.parametrize(
    "metric",
    ["COSINE", *(pytest.param(other, marks=pytest.mark.long) for other in ("DOT", "EUCLIDEAN", "MANHATTAN"))],
)
def test_the_index_finds_the_nearest_and_what_came_since(place: Place, metric: str) -> None:
    given: dict[str, Any] = {"dimension": DIMENSION, "index_vectors_from": 50, "distance_metric": metric}
    given |= place.options()

    async def work() -> None:
        async with OracleStore(**given) as store:
            await fill(store, NS, rows(120))
            if store._server.release < WITH_VECTORS:
                pytest.skip("needs 23ai: the server is older")
            assert await store.vector_search_by(NS) == "exact"
            assert await store.index_vectors() == 120
            assert await store.vector_search_by(NS) == "approximate"
            await fill(store, NS, rows(30, 2), first=100)  # replaces twenty, adds ten
            await store.delete(NS, "k7")
        async with OracleStore(**given) as store, OracleStore(**given, vector_index=False) as exact:
            for query in rows(5, 3):
                assert await found(store, query) == await found(exact, query)
                third = {"third": 1}
                assert await found(store, query, metadata_filter=third) == await found(
                    exact, query, metadata_filter=third
                )

    asyncio.run(work())
    if place.database is None:
        return
    asked = [sql for sql in place.statements if "FETCH APPROX FIRST 64 ROWS ONLY" in sql]
    assert asked
    assert all(f"VECTOR_DISTANCE(n.embedding, :p2, {metric})" in sql or "JSON_EXISTS" in sql for sql in asked)
    (made,) = [sql for sql in place.statements if sql.startswith("CREATE VECTOR INDEX")]
    wanted = f"ORGANIZATION NEIGHBOR PARTITIONS DISTANCE {metric} WITH TARGET ACCURACY 95"
    assert made.endswith(wanted)
    table = f"{place.table_name}_near_{metric.lower()}_8"
    copies = place.database.sql(f"SELECT count(*) FROM {table}", place.arguments["user"])
    assert copies == [(99,)]


@pytest.mark.parametrize("release", [23])
def test_a_small_namespace_in_a_crowd_gives_as_many_as_it_has(oracle: OracleDatabase) -> None:
    """The index is asked for one namespace, and finds the neighbours of others."""

    async def work() -> None:
        async with OracleStore(**options(oracle.add_user(), vector_organization="graph")) as store:
            crowd = rows(1, 9) + 0.01 * rows(400, 2)
            await fill(store, ("users", "crowd"), crowd)
            await fill(store, NS, rows(60, 4))
            await store.index_vectors()
            assert len(await found(store, crowd[0], 60)) == 60
            assert len(await found(store, crowd[0], 10)) == 10

    asyncio.run(work())
    assert any("INMEMORY NEIGHBOR GRAPH" in sql for sql in oracle.statements)


def test_searches_bring_the_index_up_to_date(oracle: OracleDatabase) -> None:
    user = oracle.add_user()

    async def prepare() -> None:
        async with OracleStore(**options(user)) as store:
            await fill(store, NS, rows(60))

    asyncio.run(prepare())
    with OracleSyncStore(**options(user)) as twin:
        assert len(twin.search_by_embedding(NS, rows(1)[0])) == 10
        wanted = "approximate" if oracle.release >= 23 else "exact"
        assert twin.vector_search_by(NS) == wanted
        assert twin.index_vectors() == 0
        assert len(twin.search_by_embedding(NS, rows(1)[0])) == 10
    assert any("VECTOR" in sql for sql in oracle.statements) == (oracle.release >= 23)


@pytest.mark.parametrize("release", [23])
def test_without_the_table_or_the_right_to_make_it_vectors_are_compared(oracle: OracleDatabase) -> None:
    owner = oracle.add_user()

    async def work() -> None:
        async with OracleStore(**options(owner, vector_index=False)) as store:
            await fill(store, NS, rows(60))
        async with OracleStore(**options(owner, auto_create_table=False)) as store:
            assert await store.vector_search_by(NS) == "exact"
            assert await store.index_vectors() == 0
            assert len(await found(store, rows(1)[0])) == 10

    asyncio.run(work())


def test_an_organization_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="vector_organization"):
        OracleStore("db.example/service", vector_organization="tree")

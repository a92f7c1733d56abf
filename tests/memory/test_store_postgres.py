"""The conformance suite on a real PostgreSQL: with and without pgvector, and the blocking twin."""

import asyncio
from dataclasses import fields
from typing import Any

import pytest

from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.store import BaseStore, StoreCapabilities
from holdfast.testing.store_cases.nearness import NearnessCases
from holdfast.testing.store_cases.spaces import NEW, OLD, SpaceCases
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.memory.facing_store import BlockingStoreFace
from tests.servers.fixtures import Database

ALL = frozenset(field.name for field in fields(StoreCapabilities))


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class TestPostgresStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, used_postgres: Database) -> OpenStore:
        return lambda **options: PostgresStore(used_postgres.url, **given(options))


class TestPostgresStoreWithoutIndex(NearnessCases):
    """The index is not wanted: vectors are streamed."""

    required = ALL

    @pytest.fixture
    def open_store(self, used_postgres: Database) -> OpenStore:
        return lambda **options: PostgresStore(
            used_postgres.url, vector_index=False, vector_cache_bytes=0, **given(options)
        )


class TestPostgresStoreWithoutPgvector(NearnessCases):
    """No pgvector: vectors are compared in memory. The rest of the suite is a long test, see below."""

    required = ALL

    @pytest.fixture
    def open_store(self, plain_postgres: Database) -> OpenStore:
        return lambda **options: PostgresStore(plain_postgres.url, index_vectors_from=0, **given(options))


class TestPostgresStoreWithIndexAlways(NearnessCases, SpaceCases):
    """The index is used from the first vector on."""

    required = ALL

    @pytest.fixture
    def open_store(self, used_postgres: Database) -> OpenStore:
        return lambda **options: PostgresStore(used_postgres.url, index_vectors_from=0, **given(options))


@pytest.mark.long  # what differs is what is near: see above
@pytest.mark.parametrize("database", ["plain_postgres", "postgres15"])
class TestPostgresStoreWholeWithoutPgvector(StoreSuite):
    """All of it where the extension may not be made, and on a server that has never heard of it."""

    required = ALL

    @pytest.fixture
    def open_store(self, request: pytest.FixtureRequest, database: str) -> OpenStore:
        url = request.getfixturevalue(database).url
        return lambda **options: PostgresStore(url, index_vectors_from=0, **given(options))


@pytest.mark.long  # the plans are those of its twin, and the blocking checkpointer runs each time
class TestPostgresSyncStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, used_postgres: Database) -> OpenStore:
        def open_twin(**options: Any) -> BaseStore:
            return BlockingStoreFace(PostgresSyncStore(used_postgres.url, schema="notes", **given(options)))

        return open_twin


@pytest.mark.parametrize("database", ["plain_postgres", pytest.param("postgres15", marks=pytest.mark.long)])
def test_a_database_without_pgvector_says_that_it_compares_vectors(
    request: pytest.FixtureRequest, database: str
) -> None:
    async def scenario() -> None:
        url = request.getfixturevalue(database).url
        async with PostgresStore(url, dimension=2, index_vectors_from=0) as store:
            assert store.capabilities.vector_search
            await store.put_with_embedding(("n",), "k", 1, [1, 0])
            assert await store.index_vectors() == 0
            assert await store.vector_search_by(("n",)) == "exact"
            (hit,) = await store.search_by_embedding(("n",), [1, 0])
            assert hit.item.key == "k"

    asyncio.run(scenario())


def test_a_store_that_is_opened_for_its_vectors_later_has_the_index_too(postgres: Database) -> None:
    async def scenario() -> None:
        async with PostgresStore(postgres.url, index_vectors_from=0) as store:
            store._open_space(OLD)
            await store.put_with_embedding(("n",), "k", 1, [1, 0])
            assert await store.index_vectors() == 1
            assert await store.vector_search_by(("n",)) == "hnsw"
            await store.change_space(("n",), NEW)
            store._open_space(NEW)
            assert await store.search_by_embedding(("n",), [1, 0, 0]) == []
            await store.put_with_embedding(("n",), "k", 1, [1, 0, 0])
            assert await store.index_vectors() == 1
            (hit,) = await store.search_by_embedding(("n",), [1, 0, 0])
            assert hit.item.key == "k"

    asyncio.run(scenario())

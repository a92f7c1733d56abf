"""The conformance suite on a real PostgreSQL: with and without pgvector, and the blocking twin."""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.store import BaseStore
from holdfast.testing.store_cases.nearness import NearnessCases
from holdfast.testing.store_cases.spaces import NEW, OLD, SpaceCases
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.memory.facing_store import BlockingStoreFace
from tests.memory.postgres_suites import PostgresStoreCases
from tests.servers.fixtures import Database


class TestPostgresStore(PostgresStoreCases, StoreSuite):
    @pytest.fixture
    def url(self, used_postgres: Database) -> str:
        return used_postgres.url


class TestPostgresStoreWithoutIndex(PostgresStoreCases, NearnessCases):
    """The index is not wanted: vectors are streamed."""

    options: ClassVar[Mapping[str, Any]] = {"vector_index": False, "vector_cache_bytes": 0}

    @pytest.fixture
    def url(self, used_postgres: Database) -> str:
        return used_postgres.url


class TestPostgresStoreWithIndexAlways(PostgresStoreCases, NearnessCases, SpaceCases):
    """The index is used from the first vector on."""

    options: ClassVar[Mapping[str, Any]] = {"index_vectors_from": 0}

    @pytest.fixture
    def url(self, used_postgres: Database) -> str:
        return used_postgres.url


class TestPostgresStoreWithoutPgvector(PostgresStoreCases, StoreSuite):
    """The extension may not be made: vectors are compared in memory."""

    options: ClassVar[Mapping[str, Any]] = {"index_vectors_from": 0}

    @pytest.fixture
    def url(self, plain_postgres: Database) -> str:
        return plain_postgres.url


@pytest.mark.long  # another server, the same plans
class TestPostgreSQL15Store(PostgresStoreCases, StoreSuite):
    """A server that has never heard of the extension."""

    options: ClassVar[Mapping[str, Any]] = {"index_vectors_from": 0}

    @pytest.fixture
    def url(self, postgres15: Database) -> str:
        return postgres15.url


class TestPostgresSyncStore(StoreSuite):
    required = PostgresStoreCases.required

    @pytest.fixture
    def open_store(self, used_postgres: Database) -> OpenStore:
        def open_twin(**options: Any) -> BaseStore:
            given = {name: value for name, value in options.items() if value is not None}
            return BlockingStoreFace(PostgresSyncStore(used_postgres.url, schema="notes", **given))

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

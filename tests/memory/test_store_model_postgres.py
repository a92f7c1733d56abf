"""Random operations on the PostgreSQL store and on the reference, side by side: what can be seen must be equal."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.store import BaseStore
from holdfast.memory.vectors import Metric
from holdfast.testing.store_model import StoreStep, compare_stores, store_steps
from tests.memory.facing_store import BlockingStoreFace
from tests.servers.fixtures import Database

_SHARED = [HealthCheck.function_scoped_fixture]  # each example empties the tables


def open_reference(**options: Any) -> BaseStore:
    return InMemoryStore(**options)


@settings(max_examples=15, suppress_health_check=_SHARED)  # SQLite runs the same plans more often
@given(steps=store_steps(), metric=st.sampled_from(list(Metric)), large=st.sampled_from([0, 3, 10_000]))
def test_postgres_does_what_the_reference_does(
    used_postgres: Database, steps: list[StoreStep], metric: Metric, large: int
) -> None:
    used_postgres.empty()

    def open_backend(**options: Any) -> BaseStore:
        return PostgresStore(used_postgres.url, index_vectors_from=large, **options)

    asyncio.run(
        compare_stores(open_reference, open_backend, steps, distance_metric=metric, reopen=True, every=16)
    )


@settings(max_examples=10, suppress_health_check=_SHARED)  # SQLite runs the same plans more often
@given(steps=store_steps(), cache=st.sampled_from([0, 40, 10_000]))
def test_the_blocking_twin_does_what_the_reference_does(
    used_postgres: Database, steps: list[StoreStep], cache: int
) -> None:
    used_postgres.empty()

    def open_twin(**options: Any) -> BaseStore:
        twin = PostgresSyncStore(used_postgres.url, vector_index=False, vector_cache_bytes=cache, **options)
        return BlockingStoreFace(twin)

    asyncio.run(compare_stores(open_reference, open_twin, steps, reopen=True, every=16))

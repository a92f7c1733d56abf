"""Random operations on a real MariaDB and on the references, side by side: whatever can be seen must be equal."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.mysql import MySQLCheckpointer
from holdfast.memory.backends.mysql_store import MySQLStore
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.store import BaseStore
from holdfast.memory.vectors import Metric
from holdfast.testing.model import Step, compare_backends, model_steps
from holdfast.testing.store_model import StoreStep, compare_stores, store_steps
from tests.servers.fixtures import MariaDatabase

_SHARED = [HealthCheck.function_scoped_fixture]  # each example empties the tables


def open_reference(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


@settings(max_examples=12, suppress_health_check=_SHARED)  # the plans are those of SQLite, which has more
@given(steps=model_steps(), ttl_seconds=st.sampled_from([None, 300.0]), reopen=st.booleans())
def test_mariadb_does_what_the_reference_does(
    used_mariadb: MariaDatabase, steps: list[Step], ttl_seconds: float | None, reopen: bool
) -> None:
    used_mariadb.empty()

    def open_tables(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return MySQLCheckpointer(used_mariadb.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

    asyncio.run(
        compare_backends(open_reference, open_tables, steps, ttl_seconds=ttl_seconds, reopen=reopen, every=5)
    )


@settings(max_examples=10, suppress_health_check=_SHARED)  # the plans are those of SQLite, which has more
@given(steps=store_steps(), metric=st.sampled_from(list(Metric)))
def test_a_store_on_mariadb_does_what_the_reference_does(
    used_mariadb: MariaDatabase, steps: list[StoreStep], metric: Metric
) -> None:
    used_mariadb.empty()

    def open_items(**options: Any) -> BaseStore:
        return MySQLStore(used_mariadb.url, **options)

    def open_memory(**options: Any) -> BaseStore:
        return InMemoryStore(**options)

    asyncio.run(compare_stores(open_memory, open_items, steps, distance_metric=metric, reopen=True, every=16))

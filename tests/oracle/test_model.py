"""Random operations on Oracle and on the reference, side by side: whatever can be seen must be equal."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.oracle import OracleCheckpointer
from holdfast.memory.backends.oracle_store import OracleStore
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.store import BaseStore
from holdfast.memory.vectors import Metric
from holdfast.testing.model import Step, compare_backends, model_steps
from holdfast.testing.store_model import StoreStep, compare_stores, store_steps
from tests.oracle.database import OracleDatabase

_SHARED = [HealthCheck.function_scoped_fixture]  # each example has a user of its own


@pytest.fixture
def release() -> int:
    return 19


def options(user: str) -> dict[str, Any]:
    return {"dsn": "db.example/service", "user": user, "password": "secret", "table_name": "suite"}


def open_reference(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


@settings(
    max_examples=4,  # each takes seconds: SQLite runs the same plans more often
    suppress_health_check=_SHARED,
)
@given(steps=model_steps(), ttl_seconds=st.sampled_from([None, 300.0]), reopen=st.booleans())
def test_a_checkpointer_does_what_the_reference_does(
    oracle: OracleDatabase, steps: list[Step], ttl_seconds: float | None, reopen: bool
) -> None:
    user = oracle.add_user()

    def open_tables(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return OracleCheckpointer(**options(user), clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

    asyncio.run(
        compare_backends(open_reference, open_tables, steps, ttl_seconds=ttl_seconds, reopen=reopen, every=5)
    )


@settings(
    max_examples=4,  # each takes seconds: SQLite runs the same plans more often
    suppress_health_check=_SHARED,
)
@given(steps=store_steps(), metric=st.sampled_from(list(Metric)))
def test_a_store_does_what_the_reference_does(
    oracle: OracleDatabase, steps: list[StoreStep], metric: Metric
) -> None:
    user = oracle.add_user()

    def open_reference(**others: Any) -> BaseStore:
        return InMemoryStore(**others)

    def open_backend(**others: Any) -> BaseStore:
        return OracleStore(**options(user), **others)

    asyncio.run(
        compare_stores(open_reference, open_backend, steps, distance_metric=metric, reopen=True, every=16)
    )

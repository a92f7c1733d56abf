"""Random operations on a real PostgreSQL and on the reference, side by side: whatever can be seen must be equal."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.model import Step, compare_backends, model_steps
from tests.servers.fixtures import Database


def open_reference(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


@settings(
    max_examples=12,  # each takes seconds: the plans are those of SQLite, which has more
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example empties the tables
)
@given(steps=model_steps(), ttl_seconds=st.sampled_from([None, 300.0]), reopen=st.booleans())
def test_postgres_does_what_the_reference_does(
    used_postgres: Database, steps: list[Step], ttl_seconds: float | None, reopen: bool
) -> None:
    used_postgres.empty()

    def open_tables(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return PostgreSQLCheckpointer(used_postgres.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

    asyncio.run(
        compare_backends(open_reference, open_tables, steps, ttl_seconds=ttl_seconds, reopen=reopen, every=5)
    )

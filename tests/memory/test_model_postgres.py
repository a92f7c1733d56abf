"""Random operations on a real PostgreSQL and on the reference, side by side: whatever can be seen must be equal."""

import asyncio
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.model import Step, compare_backends, model_steps
from tests.servers.fixtures import Database

_prefixes = count(1)


def open_reference(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


@settings(
    max_examples=12,  # each takes seconds: the plans are those of SQLite, which has more
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example has tables of its own
)
@given(steps=model_steps(), ttl_seconds=st.sampled_from([None, 300.0]), reopen=st.booleans())
def test_postgres_does_what_the_reference_does(
    postgres: Database, steps: list[Step], ttl_seconds: float | None, reopen: bool
) -> None:
    prefix = f"p{next(_prefixes)}"

    def open_tables(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return PostgreSQLCheckpointer(
            postgres.url, table_name=prefix, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds
        )

    asyncio.run(
        compare_backends(open_reference, open_tables, steps, ttl_seconds=ttl_seconds, reopen=reopen, every=5)
    )

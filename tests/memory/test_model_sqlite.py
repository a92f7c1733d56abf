"""Random operations on SQLite and on the reference, side by side: whatever can be seen must be equal."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.model import Step, compare_backends, model_steps


def open_reference(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


def open_in_memory(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return SQLiteCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


@settings(max_examples=200)
@given(steps=model_steps(), ttl_seconds=st.sampled_from([None, 300.0]))
def test_sqlite_does_what_the_reference_does(steps: list[Step], ttl_seconds: float | None) -> None:
    asyncio.run(compare_backends(open_reference, open_in_memory, steps, ttl_seconds=ttl_seconds, every=5))


@settings(max_examples=20)  # each step opens the file anew, as another process would: slow
@given(steps=model_steps())
def test_a_fresh_object_for_every_step_sees_the_same(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.db"

        def open_file(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return SQLiteCheckpointer(
                path, durability="normal", clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds
            )

        asyncio.run(compare_backends(open_reference, open_file, steps, reopen=True, every=5))

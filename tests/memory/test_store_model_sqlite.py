"""Random operations on the SQLite store and on the reference, side by side: whatever can be seen must be equal."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.store import BaseStore
from holdfast.memory.vectors import Metric
from holdfast.testing.store_model import StoreStep, compare_stores, store_steps
from tests.memory.facing_store import BlockingStoreFace


def open_reference(**options: Any) -> BaseStore:
    return InMemoryStore(**options)


def open_in_memory(**options: Any) -> BaseStore:
    return BlockingStoreFace(SQLiteSyncStore(**options))


@settings(max_examples=200)
@given(steps=store_steps(), metric=st.sampled_from(list(Metric)))
def test_sqlite_does_what_the_reference_does(steps: list[StoreStep], metric: Metric) -> None:
    asyncio.run(compare_stores(open_reference, open_in_memory, steps, distance_metric=metric, every=16))


@settings(max_examples=12)  # each starts threads and writes a file: slow
@given(steps=store_steps(), cache=st.sampled_from([0, 40, 10_000]))
def test_a_file_that_is_opened_again_shows_the_same(steps: list[StoreStep], cache: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.db"

        def open_file(**options: Any) -> BaseStore:
            return SQLiteStore(path, durability="normal", vector_cache_bytes=cache, **options)

        asyncio.run(compare_stores(open_reference, open_file, steps, reopen=True, every=16))

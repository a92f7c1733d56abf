"""What the SQLite store promises about its engine, and about the vectors that it keeps in memory."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from holdfast.core.errors import Closed, InvalidInput
from holdfast.memory.backends.sql.items_vectors import nearest
from holdfast.memory.backends.sql.plan import Plan
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.memory.backends.sqlite_engine import ThreadedSqliteEngine
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.blocking import drive
from holdfast.memory.filters import compile_filter
from holdfast.memory.store_requests import VectorRequest
from holdfast.memory.vectors import Metric, VectorSpace, check_vector
from tests.memory.recording import RecordingEngine, keys

T = TypeVar("T")

NS = ("users", "ann")
ITEMS = "holdfast_items"


def answer(plan: Plan[T], connection: sqlite3.Connection) -> T:
    """Run a plan that only reads, in the connection's transaction."""
    results: list[Any] | None = None
    while True:
        try:
            batch = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            value: T = stop.value
            return value
        results = [connection.execute(sql, params).fetchall() for _, sql, params, _ in batch]


# ── vectors in memory ─────────────────────────────────────────────────────────────────────────────────


def test_a_warm_search_reads_no_vectors_and_a_change_only_what_changed(tmp_path: Path) -> None:
    engine = RecordingEngine(tmp_path / "test.db")
    with (
        SQLiteSyncStore(engine=engine, dimension=2) as store,
        SQLiteSyncStore(tmp_path / "test.db", dimension=2) as other,
    ):
        for number in range(40):
            other.put_with_embedding(NS, f"k{number}", number, [number, 1])

        def searched() -> tuple[list[str], int]:
            with engine.noting():
                hits = store.search_by_embedding(NS, [1, 0], 2)
            return keys(hits), engine.vectors_read()

        assert searched() == (["k39", "k38"], 40)
        assert searched() == (["k39", "k38"], 0)
        other.put_with_embedding(NS, "k5", "moved", [1, 0])
        assert searched() == (["k5", "k39"], 1)
        other.put_with_embedding(NS, "new", "new", [2, 0])
        other.put_with_embedding(NS, "k7", "moved", [2, 0])
        assert searched() == (["k7", "new"], 2)
        other.delete(NS, "k7")
        other.put(NS, "new", "without a vector")
        assert searched() == (["k5", "k39"], 0)
        other.put(NS, "plain", "another item")
        assert searched() == (["k5", "k39"], 0)
        for number in range(30):  # more than half of the rows are replaced
            other.put_with_embedding(NS, f"k{number}", "moved", [-1, number])
        assert searched() == (["k39", "k38"], 30)
        assert searched() == (["k39", "k38"], 0)
        other.clear_namespace(NS)
        assert searched() == ([], 0)
        other.put_with_embedding(NS, "k39", "again", [0, 1])
        assert searched() == (["k39"], 1)
    engine.close_now()


def test_memory_for_vectors_is_bounded_and_the_least_recently_searched_go(tmp_path: Path) -> None:
    engine = RecordingEngine(tmp_path / "test.db")
    room = 2 * 10 * (4 * 4 + 8)  # two namespaces of ten vectors
    store = SQLiteSyncStore(engine=engine, dimension=4, vector_cache_bytes=room)
    for space in ("a", "b", "c", "big"):
        for number in range(40 if space == "big" else 10):
            store.put_with_embedding((space,), f"{number}", number, [1, number, 0, 0])

    def read_by(space: str) -> int:
        with engine.noting():
            hits = store.search_by_embedding((space,), [1, 2, 0, 0], 3)
        assert keys(hits)[0] == "2"
        return engine.vectors_read()

    assert [read_by(space) for space in "ab"] == [10, 10]
    assert [read_by(space) for space in "ab"] == [0, 0]
    assert [read_by(space) for space in "cbca"] == [10, 0, 0, 10]
    assert [read_by("big"), read_by("big")] == [40, 40]
    assert read_by("a") == 0  # what does not fit drives nothing out
    with pytest.raises(InvalidInput, match="vector_cache_bytes"):
        SQLiteStore(vector_cache_bytes=-1)
    engine.close_now()


def test_a_reader_of_an_older_state_is_not_shown_a_newer_one(tmp_path: Path) -> None:
    """Two reads of one object may see different states: each gets the vectors of its own."""
    path, engine = tmp_path / "test.db", RecordingEngine(tmp_path / "test.db")
    store = SQLiteStore(engine=engine, dimension=2)
    twin = SQLiteSyncStore(path, dimension=2)
    for number in range(5):
        twin.put_with_embedding(NS, f"k{number}", number, [number, 1])

    def newest() -> list[str]:
        with engine.noting():
            return keys(drive(store.search_by_embedding(NS, [1, 0], 2)))

    assert newest() == ["k4", "k3"]
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute(f"SELECT COUNT(*) FROM {ITEMS}").fetchall()  # from here on it sees this state
        twin.put_with_embedding(NS, "k0", "moved", [9, 0])
        twin.delete(NS, "k4")
        assert newest() == ["k0", "k3"]
        space = VectorSpace(2, Metric.COSINE)
        request = VectorRequest(NS, check_vector([1, 0], space), space, compile_filter(None), 2, None, 0)
        plan = nearest(store._tables, store._matrices, request)
        assert keys(hit.decode() for hit in answer(plan, reader)) == ["k4", "k3"]
    assert newest() == ["k0", "k3"]
    assert engine.vectors_read() == 0
    twin.close()
    engine.close_now()


# ── engines ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_shared_engine_outlives_the_store(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ThreadedSqliteEngine(tmp_path / "test.db")
        store = SQLiteStore(engine=engine)
        checkpointer = SQLiteCheckpointer(engine=engine)
        await store.put(NS, "k", 1)
        await store.close()
        assert await checkpointer.list_threads() == []
        with pytest.raises(Closed):
            await store.get(NS, "k")
        async with SQLiteStore(engine=engine, owns_engine=True) as owner:
            assert await owner.get(NS, "k") == 1
        with pytest.raises(Closed):
            await checkpointer.list_threads()

    asyncio.run(run())


def test_the_blocking_twin_starts_no_thread_and_no_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise AssertionError("the blocking twin must do its work in the calling thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    with SQLiteSyncStore(tmp_path / "test.db", dimension=2) as store:
        store.put_with_embedding(NS, "k", "an apple", [1, 0])
        assert keys(store.search(NS, "apples")) == ["k"]
        assert keys(store.search_by_embedding(NS, [1, 0])) == ["k"]
        assert [item.key for item in store.iterate(NS)] == ["k"]


WRITER = """
import sys
from holdfast.errors import Conflict
from holdfast.memory.backends.sqlite_store import SQLiteSyncStore

path, name = sys.argv[1:]
with SQLiteSyncStore(path, dimension=2, durability="normal") as store:
    for number in range(15):
        store.put_with_embedding(("shared",), f"{name} {number}", {"text": f"apple {name}"}, [1, number])
        while True:
            item = store.get_item(("shared",), "count")
            value, version = (0, 0) if item is None else (item.value, item.version)
            try:
                store.put(("shared",), "count", value + 1, expected_version=version)
                break
            except Conflict:
                continue
"""


def test_many_processes_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, dimension=2) as store:
        store.put_with_embedding(("shared",), "first", "a pear", [1, 100])
        assert len(store.search_by_embedding(("shared",), [0, 1], 500)) == 1
        command = [sys.executable, "-c", WRITER, str(path)]
        writers = [subprocess.Popen([*command, name]) for name in ("ann", "bob", "cho")]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
        assert store.get(("shared",), "count") == 45
        assert len(store.search_by_embedding(("shared",), [0, 1], 500)) == 46
        assert len(store.search(("shared",), "apple", 500)) == 45
        versions = [item.version for item in store.iterate(("shared",))]
        assert len(set(versions)) == len(versions) == 47

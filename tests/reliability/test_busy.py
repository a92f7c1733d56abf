"""Another process holds the write lock: readers don't care, writers wait, and say so when they waited long enough."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.backends.sqlite_engine import SqliteEngine, ThreadedSqliteEngine
from holdfast.testing.faults import WatchedEngine
from tests.reliability.children import Children
from tests.reliability.jobs import blocking, state_of


class Holder:
    """A process that holds the write lock from `start` until `release`."""

    def __init__(self, path: Path, children: Children) -> None:
        self._path = path
        self._children = children
        self._fifo = path.with_name("release")
        os.mkfifo(self._fifo)
        self._holding = path.with_name("holding")
        os.mkfifo(self._holding)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        with self._holding.open() as fifo:
            fifo.read()

    def _run(self) -> None:
        fifos = {"holding": str(self._holding), "until": str(self._fifo)}
        self._children.must("hold_lock", path=str(self._path), **fifos)

    def release(self) -> None:
        if not self._thread.is_alive():
            return
        with self._fifo.open("w") as fifo:
            fifo.write("go")
        self._thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "busy.db"
    with SQLiteSyncCheckpointer(place) as twin:
        twin.save(state_of(2), "t", "c1")
    return place


@pytest.fixture
def holder(path: Path, children: Children) -> Iterator[Holder]:
    found = Holder(path, children)
    found.start()
    yield found
    found.release()


def test_a_writer_that_waited_long_enough_says_that_the_file_is_locked(path: Path, holder: Holder) -> None:
    with blocking(SqliteEngine(path, busy_seconds=0.05)) as twin:
        with pytest.raises(Unavailable, match=r"busy\.db.*locked"):
            twin.save(state_of(4), "t")
        with pytest.raises(Unavailable, match="locked"):
            twin.delete("t")
        holder.release()
        assert twin.list_checkpoints("t") == ["c1"]
        twin.save(state_of(4), "t", "c2")
        assert twin.list_checkpoints("t") == ["c2", "c1"]


def test_readers_see_the_last_commit_while_another_process_writes(path: Path, holder: Holder) -> None:
    with blocking(SqliteEngine(path, busy_seconds=0)) as twin:
        assert twin.load("t") == state_of(2)
        assert twin.list_threads() == ["t"]
        assert len(list(twin.export_threads())) == 5
        holder.release()


def test_a_new_object_can_be_opened_and_read_while_another_process_writes(path: Path, holder: Holder) -> None:
    async def scenario() -> None:
        async with SQLiteCheckpointer(
            engine=ThreadedSqliteEngine(path, busy_seconds=0), owns_engine=True
        ) as checkpointer:
            assert await checkpointer.load("t") == state_of(2)

    asyncio.run(scenario())
    holder.release()


def test_a_writer_that_waits_gets_its_turn_when_the_lock_is_released(path: Path, holder: Holder) -> None:
    async def scenario() -> None:
        async with SQLiteCheckpointer(
            engine=ThreadedSqliteEngine(path, busy_seconds=60), owns_engine=True
        ) as checkpointer:
            saving = asyncio.ensure_future(checkpointer.save(state_of(4), "t", "c2"))
            assert await checkpointer.load("t") == state_of(2)  # not held up by the writer beside it
            assert not saving.done()
            await asyncio.to_thread(holder.release)
            assert await saving == "c2"
            assert await checkpointer.load("t") == state_of(4)

    asyncio.run(scenario())


def test_a_reader_keeps_one_snapshot_over_all_its_queries(path: Path) -> None:
    other = SQLiteSyncCheckpointer(path)
    done: list[str] = []

    def between(sql: str) -> None:
        if "FROM holdfast_entries" in sql and not done:  # the checkpoint has been read, its messages not yet
            done.append("deleted")
            other.delete("t")
            other.save(state_of(8, "another"), "t", "c2")

    with blocking(WatchedEngine(path, watcher=between)) as twin:
        assert twin.load("t") == state_of(2)
        assert done
        assert twin.load("t") == state_of(8, "another")
        assert twin.load("t", "c1") is None
    other.close()

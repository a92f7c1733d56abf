"""No space left: a clear error, nothing half written, everything stored stays readable, and then it goes on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import StorageFull
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.backends.sqlite_engine import SqliteEngine, ThreadedSqliteEngine
from holdfast.memory.sync import SyncCheckpointer
from tests.reliability.invariants import assert_sound
from tests.reliability.jobs import blocking

PAGES = 60


def _fill(twin: SyncCheckpointer) -> tuple[AgentState, list[str]]:
    """Save until there is no space left; the last state that was saved, and all ids."""
    state, saved = AgentState(), [twin.save(AgentState(), "t")]
    while True:
        longer = state.with_message(Message.user(f"word {len(saved)} " + os.urandom(2000).hex()))
        try:
            saved.append(twin.save(longer, "t"))
        except StorageFull as error:
            _assert_clear(error)
            return state, saved
        state = longer


def _assert_clear(error: StorageFull) -> None:
    assert "full" in str(error)
    assert "nothing was written" in str(error)
    assert ".db" in str(error)


def test_a_save_at_the_page_limit_says_so_and_what_was_stored_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "full.db"
    with blocking(SqliteEngine(path, max_pages=PAGES)) as twin:
        state, saved = _fill(twin)
        assert twin.load("t") == state
        assert twin.list_checkpoints("t", 1000) == saved[::-1]
        assert twin.load("t", saved[1]) is not None
        assert len(list(twin.export_threads())) == len(saved) + 4
        with pytest.raises(StorageFull):
            twin.save(state.with_message(Message.user("x" * 5000)), "another thread")
        assert not twin.exists("another thread")
    assert_sound(path)


def test_saving_goes_on_when_the_limit_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "full.db"
    with blocking(SqliteEngine(path, max_pages=PAGES)) as twin:
        state, saved = _fill(twin)
    with blocking(SqliteEngine(path, max_pages=PAGES * 4)) as twin:
        more = state.with_message(Message.user("there is space again"))
        last = twin.save(more, "t", parent=saved[-1])
        assert twin.load("t") == more
        assert twin.list_checkpoints("t", 1000) == [last, *saved[::-1]]
        assert [hit["checkpoint_id"] for hit in twin.search("space again")] == [last]
    assert_sound(path)


def test_saving_goes_on_in_the_same_object_when_a_thread_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "full.db"
    with blocking(SqliteEngine(path, max_pages=PAGES)) as twin:
        twin.save(AgentState().with_message(Message.user("old " * 4000)), "old")
        state, saved = _fill(twin)
        assert twin.delete("old")
        more = state.with_message(Message.user("y" * 3000))
        assert twin.save(more, "t", parent=saved[-1])
        assert twin.load("t") == more
    assert_sound(path)


def test_the_asynchronous_object_says_the_same(tmp_path: Path) -> None:
    import asyncio

    async def scenario() -> None:
        engine = ThreadedSqliteEngine(tmp_path / "full.db", max_pages=PAGES)
        async with SQLiteCheckpointer(engine=engine, owns_engine=True) as checkpointer:
            state = AgentState().with_message(Message.user("first"))
            await checkpointer.save(state, "t")
            with pytest.raises(StorageFull) as caught:
                await checkpointer.save(state.with_message(Message.user("x" * 1_000_000)), "t")
            _assert_clear(caught.value)
            assert await checkpointer.load("t") == state
            await checkpointer.save(state.with_message(Message.user("small")), "t")

    asyncio.run(scenario())
    assert_sound(tmp_path / "full.db")


def test_a_new_file_that_does_not_fit_is_refused_and_works_later(tmp_path: Path) -> None:
    path = tmp_path / "tiny.db"
    with blocking(SqliteEngine(path, max_pages=3)) as twin, pytest.raises(StorageFull):
        twin.save(AgentState(), "t")
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.load("t") is None
        twin.save(AgentState(), "t")
    assert_sound(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("needs tmpfs: mounting one takes root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_full_gives_a_clear_error_and_goes_on_when_there_is_space(small_disk: Path) -> None:
    path, ballast = small_disk / "disk.db", small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    with SQLiteSyncCheckpointer(path) as twin:
        state, saved = _fill(twin)
        assert twin.load("t") == state
        assert twin.list_checkpoints("t", 1000) == saved[::-1]
        ballast.unlink()
        more = state.with_message(Message.user("there is space again"))
        last = twin.save(more, "t", parent=saved[-1])
        assert twin.load("t") == more
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.list_checkpoints("t", 1000) == [last, *saved[::-1]]
    assert_sound(path)


def test_a_disk_with_no_byte_left_can_still_be_read_by_a_new_object(small_disk: Path) -> None:
    path = small_disk / "disk.db"
    state = AgentState().with_message(Message.user("kept"))
    with SQLiteSyncCheckpointer(path) as twin:
        twin.save(state, "t")
    _use_up(small_disk)
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.load("t") == state
        with pytest.raises(StorageFull):
            twin.save(state.with_message(Message.user("z" * 100_000)), "t")
        assert twin.load("t") == state


def _use_up(disk: Path) -> None:
    """Leave room for the shared memory of the write-ahead log, and for nothing else."""
    reserve = disk / "reserve"
    reserve.write_bytes(bytes(40_000))
    with (disk / "rest").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            reserve.unlink()

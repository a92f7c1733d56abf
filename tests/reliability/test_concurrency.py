"""Many at once: tasks, threads, processes, event loops, forks. Every message is kept, and kept once."""

import asyncio
import contextlib
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Closed, Conflict
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.backends.sqlite_engine import SqliteEngine
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.sync import SyncCheckpointer
from tests.reliability.children import Children
from tests.reliability.invariants import assert_sound
from tests.reliability.jobs import blocking, state_of


def _names(writers: int, messages: int) -> Counter[str]:
    return Counter(f"writer {writer} {number}" for writer in range(writers) for number in range(messages))


def _contents(state: AgentState | None) -> Counter[str | None]:
    assert state is not None
    return Counter(message.content for message in state.messages)


async def _append(checkpointer: BaseCheckpointer, text: str) -> int:
    """Load, append, save; again on `Conflict`. Returns how often it had to be tried again."""
    conflicts = 0
    while True:
        found = await checkpointer.get("shared")
        state, parent = (state_of(0), None) if found is None else (found.state, found.info.checkpoint_id)
        with contextlib.suppress(Conflict):
            await checkpointer.save(state.with_message(Message.user(text)), "shared", parent=parent)
            return conflicts
        conflicts += 1


def _append_blocking(twin: SyncCheckpointer, text: str) -> None:
    while True:
        found = twin.get("shared")
        state, parent = (state_of(0), None) if found is None else (found.state, found.info.checkpoint_id)
        with contextlib.suppress(Conflict):
            twin.save(state.with_message(Message.user(text)), "shared", parent=parent)
            return


async def _write_all(checkpointer: BaseCheckpointer, writer: int, messages: int) -> int:
    return sum([await _append(checkpointer, f"writer {writer} {number}") for number in range(messages)])


def test_sixteen_tasks_that_append_to_one_thread_lose_no_message(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    async def scenario() -> None:
        async with SQLiteCheckpointer(path, durability="normal") as checkpointer:
            conflicts = await asyncio.gather(*(_write_all(checkpointer, writer, 20) for writer in range(16)))
            assert sum(conflicts) > 0, "nobody was in anybody's way: nothing was tested"
            assert _contents(await checkpointer.load("shared")) == _names(16, 20)
            assert (await checkpointer.stats()).checkpoints == 320
            assert (await checkpointer.stats()).entries == 320

    asyncio.run(scenario())
    assert_sound(path)


def test_eight_processes_that_append_to_one_thread_lose_no_message(
    children: Children, tmp_path: Path
) -> None:
    path = tmp_path / "processes.db"
    outcomes = children.run_all(
        "retrying", [{"path": str(path), "name": f"writer {number}", "messages": 20} for number in range(8)]
    )
    assert [outcome.failure for outcome in outcomes] == [None] * 8
    with SQLiteSyncCheckpointer(path) as twin:
        assert _contents(twin.load("shared")) == _names(8, 20)
        assert twin.stats().checkpoints == 160
        assert twin.stats().entries == 160
    assert_sound(path)


def test_two_event_loops_in_two_threads_share_one_object(tmp_path: Path) -> None:
    path = tmp_path / "loops.db"
    checkpointer = SQLiteCheckpointer(path, durability="normal")
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(asyncio.run, _write_all(checkpointer, writer, 40)) for writer in range(2)]:
            future.result()

    async def look() -> None:
        async with checkpointer:
            assert _contents(await checkpointer.load("shared")) == _names(2, 40)

    asyncio.run(look())
    assert_sound(path)


def test_an_object_outlives_its_event_loop(tmp_path: Path) -> None:
    checkpointer = SQLiteCheckpointer(tmp_path / "loops.db", durability="normal")
    for number in range(5):
        asyncio.run(_append(checkpointer, f"writer 0 {number}"))
    assert _contents(asyncio.run(checkpointer.load("shared"))) == _names(1, 5)
    asyncio.run(checkpointer.close())


def test_threads_share_one_blocking_object(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"

    def work(writer: int) -> None:
        for number in range(20):
            _append_blocking(twin, f"writer {writer} {number}")

    with SQLiteSyncCheckpointer(path, durability="normal") as twin, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
        assert _contents(twin.load("shared")) == _names(8, 20)
    assert_sound(path)


def test_threads_share_one_blocking_object_in_memory() -> None:
    def work(writer: int) -> None:
        for number in range(20):
            _append_blocking(twin, f"writer {writer} {number}")
            twin.search("writer")

    with SQLiteSyncCheckpointer() as twin, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
        assert _contents(twin.load("shared")) == _names(4, 20)


def test_threads_do_everything_at_once_and_leave_a_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "mix.db"
    words = ["apple", "pear", "plum", "fig"]

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for number in range(25):
            thread_id = f"t{dice.randrange(4)}"
            with contextlib.suppress(Conflict, ValueError):
                action = dice.randrange(8)
                if action < 3:
                    twin.save(state_of(dice.randrange(6), dice.choice(words)), thread_id)
                elif action == 3:
                    twin.fork(thread_id, None, f"f{seed} {number}")
                elif action == 4:
                    twin.delete(thread_id, dice.choice(twin.list_checkpoints(thread_id) or ["none"]))
                elif action == 5:
                    twin.prune(keep_last=2)
                elif action == 6:
                    twin.search(dice.choice(words))
                elif head := twin.head(thread_id):
                    twin.put_writes(thread_id, head.checkpoint_id, "task", [("channel", number)])

    with SQLiteSyncCheckpointer(path, durability="normal") as twin, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
        for thread_id in twin.list_threads():
            assert twin.load(thread_id) is not None
        list(twin.export_threads())
    assert_sound(path)


def test_closing_while_threads_save_either_saves_or_says_closed(tmp_path: Path) -> None:
    path = tmp_path / "closing.db"
    for number in range(10):
        thread_id = f"t{number}"
        twin = SQLiteSyncCheckpointer(path, durability="normal")
        twin.exists("t")
        begun = threading.Barrier(4)
        with ThreadPoolExecutor(3) as pool:
            running = [pool.submit(_save_until_closed, twin, thread_id, begun) for _ in range(3)]
            begun.wait()
            twin.close()
            saved = [checkpoint_id for future in running for checkpoint_id in future.result()]
        assert [file.name for file in tmp_path.iterdir()] == ["closing.db"], "a connection was left open"
        with SQLiteSyncCheckpointer(path) as other:
            assert sorted(other.list_checkpoints(thread_id, 100)) == sorted(saved)


def _save_until_closed(twin: SyncCheckpointer, thread_id: str, begun: threading.Barrier) -> list[str]:
    saved: list[str] = []
    begun.wait()
    with contextlib.suppress(Closed):
        while len(saved) < 20:
            saved.append(twin.save(AgentState(), thread_id))
    return saved


class ClosedMeanwhile(SqliteEngine):
    """Is closed, as by another thread, while a writer waits for its turn."""

    def _write(self, *args: Any) -> Any:
        self.close_now()
        return super()._write(*args)


def test_a_writer_that_waited_while_the_object_was_closed_opens_nothing(tmp_path: Path) -> None:
    twin = blocking(ClosedMeanwhile(tmp_path / "closed.db"))
    assert not twin.exists("t")
    with pytest.raises(Closed):
        twin.save(AgentState(), "t")
    assert [file.name for file in tmp_path.iterdir()] == ["closed.db"], "a connection was left open"


def test_a_writer_whose_head_was_left_and_came_back_does_not_write_over_what_a_fork_reads(
    tmp_path: Path,
) -> None:
    """Another process appended, forked, and deleted what it had appended: the head is ours, the log's end is not."""
    path = tmp_path / "back.db"
    with SQLiteSyncCheckpointer(path) as ours, SQLiteSyncCheckpointer(path) as theirs:
        ours.save(state_of(2), "t")
        head = ours.save(state_of(4), "t")
        gone = theirs.save(state_of(6), "t")
        theirs.fork("t", None, "fork")
        theirs.delete("t", gone)
        longer = state_of(4).with_messages(state_of(5, "other").messages)
        ours.save(longer, "t", parent=head)
        assert theirs.load("t") == longer
        assert ours.load("fork") == state_of(6)
    assert_sound(path)


# ── forked processes ──────────────────────────────────────────────────────────────────────────────


def test_an_object_made_before_a_fork_works_on_both_sides(children: Children, tmp_path: Path) -> None:
    for threaded in (False, True):
        path = tmp_path / f"{threaded}.db"
        lines = children.must("fork_and_write", path=str(path), threaded=threaded)
        assert lines == ["child done", "parent done"]
        with SQLiteSyncCheckpointer(path) as twin:
            assert _contents(twin.load("shared")) == Counter(
                [f"{who} {number}" for who in ("before", "child", "parent", "after") for number in range(10)]
            )
        assert_sound(path)


def test_a_child_that_closes_an_inherited_object_does_not_close_its_parents(
    children: Children, tmp_path: Path
) -> None:
    path = tmp_path / "inherited.db"
    children.must("fork_and_close", path=str(path))
    with SQLiteSyncCheckpointer(path) as twin:
        assert _contents(twin.load("shared")) == Counter([f"{who} 0" for who in ("before", "after")])
    assert_sound(path)

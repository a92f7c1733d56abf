"""Cancelled, closed or forgotten in the middle: never half done, nothing left running, nothing to complain about."""

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import pytest

from holdfast.core.state import AgentState
from holdfast.errors import Closed, Conflict
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.testing.faults import WatchedThreadedEngine
from tests.reliability.invariants import assert_sound
from tests.reliability.jobs import state_of

PATIENCE = 30.0


class Gate:
    """Holds the worker just before a statement that begins so, once it is armed."""

    def __init__(self, statement: str = "COMMIT") -> None:
        self._statement = statement
        self._armed = threading.Event()
        self.reached = threading.Event()
        self.opened = threading.Event()

    def arm(self) -> None:
        self._armed.set()

    def __call__(self, sql: str) -> None:
        if self._armed.is_set() and not self.reached.is_set() and sql.startswith(self._statement):
            self.reached.set()
            assert self.opened.wait(PATIENCE)

    async def wait_until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, PATIENCE)


def _open(path: Path, gate: Gate) -> SQLiteCheckpointer:
    return SQLiteCheckpointer(engine=WatchedThreadedEngine(path, watcher=gate), owns_engine=True)


def _stored(path: Path) -> list[str]:
    with SQLiteSyncCheckpointer(path) as twin:
        return twin.list_checkpoints("t")


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO holdfast_checkpoints", "COMMIT"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_save_that_is_cancelled_inside_is_finished_before_it_says_so(
    statement: str, times: int, tmp_path: Path
) -> None:
    path, gate = tmp_path / "cancel.db", Gate(statement)

    async def scenario() -> None:
        async with _open(path, gate) as checkpointer:
            first = await checkpointer.save(state_of(2), "t")
            gate.arm()
            saving = asyncio.ensure_future(checkpointer.save(state_of(4), "t", parent=first))
            await gate.wait_until_reached()
            for _ in range(times):
                saving.cancel()
                await asyncio.sleep(0)
                assert not saving.done(), "the caller was told before the work ended"
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await saving
            assert await checkpointer.load("t") == state_of(4)
            with pytest.raises(Conflict):
                await checkpointer.save(state_of(6), "t", parent=first)
            await checkpointer.save(state_of(6), "t")
            assert await checkpointer.load("t") == state_of(6)

    asyncio.run(scenario())
    assert len(_stored(path)) == 3
    assert_sound(path)


def test_a_save_that_is_cancelled_while_it_waits_for_its_turn_writes_nothing(tmp_path: Path) -> None:
    path, gate = tmp_path / "cancel.db", Gate()

    async def scenario() -> None:
        async with _open(path, gate) as checkpointer:
            await checkpointer.save(state_of(2), "t", "c1")
            gate.arm()
            running = asyncio.ensure_future(checkpointer.save(state_of(4), "t", "c2"))
            await gate.wait_until_reached()
            waiting = asyncio.ensure_future(checkpointer.save(state_of(6), "t", "c3"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting  # at once: the worker is still held
            gate.opened.set()
            assert await running == "c2"
            assert await checkpointer.load("t") == state_of(4)

    asyncio.run(scenario())
    assert _stored(path) == ["c2", "c1"]


def test_a_failing_save_that_is_cancelled_says_that_it_was_cancelled(tmp_path: Path) -> None:
    gate = Gate("ROLLBACK")

    async def scenario() -> None:
        async with _open(tmp_path / "cancel.db", gate) as checkpointer:
            await checkpointer.save(state_of(2), "t")
            gate.arm()
            saving = asyncio.ensure_future(checkpointer.save(state_of(4), "t", parent="stale"))
            await gate.wait_until_reached()
            saving.cancel()
            await asyncio.sleep(0)
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await saving

    asyncio.run(scenario())


def test_a_timeout_in_the_middle_of_a_save_leaves_the_object_usable(tmp_path: Path) -> None:
    path, gate = tmp_path / "cancel.db", Gate()

    async def scenario() -> None:
        async with _open(path, gate) as checkpointer:
            await checkpointer.save(state_of(2), "t")
            gate.arm()
            opening = asyncio.get_running_loop().create_task(_open_when_reached(gate))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await checkpointer.save(state_of(4), "other")
            gate.opened.set()
            await checkpointer.save(state_of(6), "t")
            await opening
            assert await checkpointer.load("t") == state_of(6)

    asyncio.run(scenario())
    assert_sound(path)


async def _open_when_reached(gate: Gate) -> None:
    await gate.wait_until_reached()
    gate.opened.set()


def test_a_reader_that_is_cancelled_gives_its_connection_back(tmp_path: Path) -> None:
    gate = Gate("SELECT")

    async def scenario() -> None:
        async with _open(tmp_path / "cancel.db", gate) as checkpointer:
            await checkpointer.save(state_of(2), "t")
            gate.arm()
            loading = asyncio.ensure_future(checkpointer.load("t"))
            await gate.wait_until_reached()
            loading.cancel()
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await loading
            found = await asyncio.gather(*(checkpointer.load("t") for _ in range(10)))
            assert found == [state_of(2)] * 10

    asyncio.run(scenario())


# ── loops that end, objects that are forgotten ────────────────────────────────────────────────────


@pytest.fixture
def complaints(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What asyncio logs about futures and tasks that nobody took care of."""

    def gather() -> list[str]:
        gc.collect()
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    return gather


def test_a_loop_that_is_closed_under_a_running_save_does_no_harm(
    tmp_path: Path, complaints: Callable[[], list[str]]
) -> None:
    path, gate = tmp_path / "loop.db", Gate()
    checkpointer = _open(path, gate)
    asyncio.run(checkpointer.save(state_of(2), "t", "c1"))
    gate.arm()
    loop = asyncio.new_event_loop()
    save = checkpointer.save(state_of(4), "t", "c2")
    loop.call_soon(loop.stop)
    task = loop.create_task(save)
    loop.run_forever()
    assert gate.reached.wait(PATIENCE)
    loop.close()
    gate.opened.set()

    async def go_on() -> None:
        async with checkpointer:
            await checkpointer.save(state_of(6), "t", "c3")  # its turn comes after the one under way
            assert await checkpointer.load("t", "c2") == state_of(4)

    asyncio.run(go_on())
    assert not task.done()
    del task, save
    assert [line for line in complaints() if "Task was destroyed" not in line] == []  # the test left it so
    assert _stored(path) == ["c3", "c2", "c1"]


async def _use(checkpointer: SQLiteCheckpointer) -> None:
    await checkpointer.save(state_of(2), "t", "c1")
    await asyncio.gather(*(checkpointer.load("t") for _ in range(20)))


def test_an_object_that_is_forgotten_without_close_ends_its_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    checkpointer = SQLiteCheckpointer(tmp_path / "forgotten.db")
    asyncio.run(_use(checkpointer))
    mine = [thread for thread in set(threading.enumerate()) - before if "holdfast" in thread.name]
    assert mine
    gone = weakref.ref(checkpointer)
    del checkpointer
    gc.collect()
    assert gone() is None
    for thread in mine:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in mine)
    assert _stored(tmp_path / "forgotten.db") == ["c1"]


def test_closing_ends_the_threads_and_leaves_one_file(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    async def use() -> None:
        async with SQLiteCheckpointer(tmp_path / "closed.db") as checkpointer:
            await _use(checkpointer)

    asyncio.run(use())
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    assert set(threading.enumerate()) <= before
    assert [file.name for file in tmp_path.iterdir()] == ["closed.db"]


def test_two_objects_on_one_engine_that_was_closed_say_so_instead_of_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = Gate("nothing")
        engine = WatchedThreadedEngine(tmp_path / "shared.db", watcher=gate)
        one = SQLiteCheckpointer(engine=engine, owns_engine=True)
        other = SQLiteCheckpointer(engine=engine)
        await one.save(AgentState(), "t")
        await one.close()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(Closed):
                await other.load("t")
            with pytest.raises(Closed):
                await other.save(AgentState(), "t")
            await other.close()

    asyncio.run(scenario())


def test_closing_while_saves_are_queued_finishes_or_refuses_each(tmp_path: Path) -> None:
    path = tmp_path / "closing.db"

    async def scenario() -> list[object]:
        checkpointer = SQLiteCheckpointer(path, durability="normal")
        saves = [
            asyncio.ensure_future(checkpointer.save(AgentState(), "t", f"c{number}")) for number in range(20)
        ]
        await asyncio.sleep(0)
        await checkpointer.close()
        return list(await asyncio.gather(*saves, return_exceptions=True))

    outcomes = asyncio.run(scenario())
    saved = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert all(isinstance(outcome, str | Closed) for outcome in outcomes)
    assert sorted(_stored_all(path)) == sorted(saved)
    assert [file.name for file in tmp_path.iterdir()] == ["closing.db"]


def _stored_all(path: Path) -> list[str]:
    with SQLiteSyncCheckpointer(path) as twin:
        return twin.list_checkpoints("t", 100)


@pytest.mark.parametrize("callers", [1, 20])
def test_each_caller_goes_on_in_its_own_task_and_context(callers: int, tmp_path: Path) -> None:
    name = ContextVar("name", default="nobody")

    async def caller(checkpointer: SQLiteCheckpointer, number: int) -> None:
        name.set(f"caller {number}")
        task, state = asyncio.current_task(), state_of(number)
        for turn in range(10):
            await checkpointer.save(state, f"t{number}", f"c{turn}")
            assert (asyncio.current_task(), name.get()) == (task, f"caller {number}")
            assert await checkpointer.load(f"t{number}") == state
            assert (asyncio.current_task(), name.get()) == (task, f"caller {number}")

    async def scenario() -> None:
        async with SQLiteCheckpointer(tmp_path / "callers.db") as checkpointer:
            await asyncio.gather(*(caller(checkpointer, number) for number in range(callers)))
        assert name.get() == "nobody"

    asyncio.run(scenario())

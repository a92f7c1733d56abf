"""What SQLite does for one call, counted in steps of its virtual machine: it must not grow with the thread."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.memory.backends.sqlite_engine import SqliteEngine
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.sync import SyncCheckpointer
from holdfast.memory.sync_store import SyncStore

SHORT, LONG = 12, 900

Call = Callable[[SyncCheckpointer, AgentState, str], object]

CALLS: dict[str, Call] = {
    "save": lambda threads, state, head: threads.save(
        state.with_message(Message.user("more")), "t", parent=head
    ),
    "put_writes": lambda threads, state, head: threads.put_writes("t", head, "task", [("channel", 1)]),
    "get_writes": lambda threads, state, head: threads.get_writes("t", head),
    "head": lambda threads, state, head: threads.head("t"),
    "get_metadata by id": lambda threads, state, head: threads.get_metadata("t", head),
    "list_checkpoints": lambda threads, state, head: threads.list_checkpoints("t", 5),
    "fork": lambda threads, state, head: threads.fork("t", head, "fork"),
    "fork at a name": lambda threads, state, head: threads.fork("t", "first", "fork"),
    "list_threads": lambda threads, state, head: threads.list_threads(5),
}


def _watched(engine: SqliteEngine, call: Callable[[], object]) -> int:
    """Steps of the virtual machine while the call runs."""
    counted = [0]

    def step() -> int:
        counted[0] += 1
        return 0

    connections = [engine._writer, *engine._readers]
    for connection in connections:
        assert connection is not None
        connection.set_progress_handler(step, 1)
    call()
    for connection in connections:
        assert connection is not None
        connection.set_progress_handler(None, 1)
    return counted[0]


def _steps(path: Path, length: int, call: Call) -> int:
    """Steps of the virtual machine for the call on a thread of that many checkpoints."""
    engine = SqliteEngine(path, durability="normal")
    with SyncCheckpointer(SQLiteCheckpointer(engine=engine)) as threads:
        state = AgentState()
        head = threads.save(state, "t", "first")
        for number in range(length - 1):
            state = state.with_message(Message.user(f"message {number}"))
            head = threads.save(state, "t")
        threads.head("t")  # opens a connection for reading
        counted = _watched(engine, lambda: call(threads, state, head))
    engine.close_now()
    return counted


@pytest.mark.parametrize("name", CALLS)
def test_a_long_thread_costs_no_more_steps_than_a_short_one(tmp_path: Path, name: str) -> None:
    short = _steps(tmp_path / "short.db", SHORT, CALLS[name])
    long = _steps(tmp_path / "long.db", LONG, CALLS[name])
    assert 0 < long <= 1.2 * short + 20, (short, long)


StoreCall = Callable[[SyncStore], object]

STORE_CALLS: dict[str, StoreCall] = {
    "put a new item": lambda store: store.put(("n",), "new", {"text": "another note"}),
    "put again": lambda store: store.put(("n",), "5", {"text": "another note"}, expected_version=6),
    "get_item": lambda store: store.get_item(("n",), "5"),
    "delete": lambda store: store.delete(("n",), "5"),
    "exists": lambda store: store.exists(("n",), "5"),
    "list_keys": lambda store: store.list_keys(("n",), 5),
    "newest": lambda store: store.search(("n",), None, 5),
    "neighbours": lambda store: store.neighbours(("n",), "s0", 5, 2),
    "list_namespaces": lambda store: store.list_namespaces(),
}


def _store_steps(path: Path, items: int, call: StoreCall) -> int:
    engine = SqliteEngine(path, durability="normal")
    with SyncStore(SQLiteStore(engine=engine)) as store:
        for number in range(items):
            value = {"text": f"a note about things, only{number}"}
            store.put(("n",), str(number), value, {"group": f"s{number // 20}", "ordinal": number % 20})
        store.exists(("n",), "5")
        counted = _watched(engine, lambda: call(store))
    engine.close_now()
    return counted


@pytest.mark.parametrize("name", STORE_CALLS)
def test_a_full_namespace_costs_no_more_steps_than_a_small_one(tmp_path: Path, name: str) -> None:
    small = _store_steps(tmp_path / "small.db", 40, STORE_CALLS[name])
    full = _store_steps(tmp_path / "full.db", 1500, STORE_CALLS[name])
    assert 0 < full <= 1.2 * small + 20, (small, full)

"""What the children of `children` do. Everything is imported before the first fork; no database is opened."""

import asyncio
import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Conflict, HoldfastError
from holdfast.memory import AgentMemory
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.backends.sqlite_engine import SqliteEngine, ThreadedSqliteEngine
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.embedder import HashEmbedder, store_options
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.memory.reembedding import Reembedded
from holdfast.memory.sync import SyncCheckpointer
from holdfast.memory.vectors import Metric, VectorSpace
from holdfast.testing.clock import FrozenClock
from holdfast.testing.faults import StatementCounter, WatchedEngine, WatchedThreadedEngine, die

with contextlib.suppress(ImportError):
    import numpy as _numpy  # noqa: F401 (before the first fork: it takes longer than all that a child does)

Report = Callable[[str], None]

START = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES_A_SAVE = 2


def state_of(count: int, word: str = "message") -> AgentState:
    """A state with that many messages, each of which tells its place."""
    messages = tuple(Message.user(f"{word} {number}") for number in range(count))
    return AgentState(run_id="run", created_at=START, updated_at=START, messages=messages)


def blocking(engine: SqliteEngine, **options: Any) -> SyncCheckpointer:
    """A blocking checkpointer on that engine."""
    return SyncCheckpointer(SQLiteCheckpointer(engine=engine, owns_engine=True, **options))


# ── a writer that is killed ───────────────────────────────────────────────────────────────────────


class _Journal:
    """Reports each statement of a save, and may die before one of them."""

    def __init__(self, report: Report, die_at: Sequence[Any] | None) -> None:
        self._report = report
        self._save: int = die_at[0] if die_at else 0
        self._point: int | str | None = die_at[1] if die_at else None
        self._saves = self._events = 0

    def begin(self) -> None:
        self._saves += 1
        self._report("begin")

    def returned(self) -> None:
        self._report("returned")
        if self._point == "returned" and self._saves >= self._save:
            die()

    def __call__(self, sql: str) -> None:
        if not self._saves:
            return
        if sql != "...":
            self._report("at " + _short(sql))
        self._events += self._saves >= self._save
        if self._events == self._point:
            die()


def _short(sql: str) -> str:
    words = re.sub(r"\s+", " ", sql).split(" ")
    table = next((word for word in words if word.startswith("holdfast_")), "")
    return f"{words[0]} {table.removeprefix('holdfast_')}".strip()


def append(
    report: Report,
    path: str,
    *,
    die_at: Sequence[Any] | None = None,
    steps: int | None = None,
    threaded: bool = False,
    saves: int = 1000,
) -> None:
    """Go on with the thread "t": each save adds messages, is told before and acknowledged after.

    ``die_at``: number of a save, and before which statement from there on (with ``steps``: or step in a statement).
    """
    journal = _Journal(report, die_at)
    if threaded:
        asyncio.run(_append_threaded(report, path, journal, saves))
        return
    twin = blocking(WatchedEngine(path, watcher=journal, steps=steps))
    found = twin.get("t")
    parent, length = (None, 0) if found is None else (found.info.checkpoint_id, len(found.state.messages))
    state = state_of(0) if found is None else found.state
    report("ready")
    for _ in range(saves):
        state = state.with_messages(_next(length))
        length += MESSAGES_A_SAVE
        journal.begin()
        parent = twin.save(state, "t", metadata={"length": length}, parent=parent)
        journal.returned()
        report(f"ack {parent}")


async def _append_threaded(report: Report, path: str, journal: _Journal, saves: int) -> None:
    checkpointer = SQLiteCheckpointer(engine=WatchedThreadedEngine(path, watcher=journal), owns_engine=True)
    found = await checkpointer.get("t")
    parent, length = (None, 0) if found is None else (found.info.checkpoint_id, len(found.state.messages))
    state = state_of(0) if found is None else found.state
    report("ready")
    for _ in range(saves):
        state = state.with_messages(_next(length))
        length += MESSAGES_A_SAVE
        journal.begin()
        parent = await checkpointer.save(state, "t", metadata={"length": length}, parent=parent)
        journal.returned()
        report(f"ack {parent}")


def _next(length: int) -> list[Message]:
    return [Message.user(f"message {length + number}") for number in range(MESSAGES_A_SAVE)]


# ── other operations, killed before each of their statements ──────────────────────────────────────


def prepare(report: Report, path: str) -> None:
    """A file with all kinds of rows: forks of forks, edits, hidden checkpoints, pending writes, a second scope."""
    clock = FrozenClock(START)
    with SQLiteSyncCheckpointer(path, clock=clock) as twin:
        for number in range(1, 7):
            clock.advance(days=1)
            twin.save(state_of(2 * number, "apple"), "base", f"b{number}", {"turn": number})
        twin.save(state_of(3, "pear"), "base", "edit")
        twin.fork("base", "b3", "branch")
        twin.put_writes("base", "b2", "task", [("channel", {"value": 1}), ("channel", 2)])
        for number in range(1, 4):
            twin.save(state_of(6 + number, "apple"), "branch", f"r{number}")
        twin.fork("branch", "r2", "twig")
        twin.save(state_of(9, "plum"), "twig", "w1")
        twin.delete("branch", "b1")
        twin.search("apple")
        twin.put_writes("branch", "r3", "task", [("channel", "pending")])
        twin.save(state_of(12, "fresh"), "late", "l1")
        tenant = twin.scoped("tenant")
        tenant.save(state_of(8, "secret"), "base", "t1")
        tenant.fork("base", "t1", "other")
    report("done")


OPERATIONS: dict[str, Callable[[SyncCheckpointer], Any]] = {
    "save on a fork": lambda twin: twin.save(state_of(9, "new"), "twig", "x1", parent="w1"),
    "save that folds writes": lambda twin: twin.save(state_of(12, "apple"), "branch", "x1", parent="r3"),
    "first save": lambda twin: twin.save(state_of(4, "new"), "brand new", "x1"),
    "put_writes": lambda twin: twin.put_writes("base", "b2", "task", [("channel", 3)]),
    "delete a thread that forks read": lambda twin: twin.delete("base"),
    "delete a fork": lambda twin: twin.delete("twig"),
    "delete a thread": lambda twin: twin.delete("late"),
    "delete the head": lambda twin: twin.delete("base", "edit"),
    "delete an inherited checkpoint": lambda twin: twin.delete("twig", "b2"),
    "prune": lambda twin: twin.prune(keep_last=1),
    "vacuum with stale threads": lambda twin: twin.vacuum(0.5, stale_threads=True),
    "fork": lambda twin: twin.fork("base", "b4", "x"),
    "copy to another scope": lambda twin: twin.copy_thread("base", "copied", scope="tenant"),
    "import": lambda twin: twin.scoped("tenant").import_threads(list(twin.export_threads("late"))),
    "text index catch-up": lambda twin: twin.search("fresh"),
    "delete a scope": lambda twin: twin.delete_scope("tenant"),
    "save and close": lambda twin: (twin.save(state_of(2, "new"), "last", "x1"), twin.close()),
}


def operate(report: Report, path: str, *, operation: str, die_before: int, steps: int | None = None) -> None:
    """One operation on a prepared file; die just before its statement with that number."""
    watching = [False]
    counter = StatementCounter(die_before)

    def watch(sql: str) -> None:
        if watching[0]:
            counter(sql)

    clock = FrozenClock(START)
    clock.advance(days=30)
    twin = blocking(WatchedEngine(path, watcher=watch, steps=steps), clock=clock)
    twin.exists("base")
    watching[0] = True
    OPERATIONS[operation](twin)
    report("done")
    # Ends like a killed process: connections are not closed, the write-ahead log stays.


def first_open(report: Report, path: str, *, die_before: int) -> None:
    """Create the tables of a new file; die just before the statement with that number."""
    twin = blocking(WatchedEngine(path, watcher=StatementCounter(die_before)))
    twin.save(state_of(2), "t", "c1")
    report("done")


# ── a store ───────────────────────────────────────────────────────────────────────────────────────

HERE, BELOW = ("user", "facts"), ("user", "facts", "old")


def open_store(path: str | Path, engine: SqliteEngine | None = None) -> SQLiteSyncStore:
    """A store with vectors of two dimensions, at a fixed time."""
    return SQLiteSyncStore(path, dimension=2, clock=FrozenClock(START), engine=engine)


def prepare_store(report: Report, path: str) -> None:
    """A file with items that have words, vectors, metadata and an end of life, in three namespaces."""
    with open_store(path) as store:
        for number in range(6):
            store.put_with_embedding(
                HERE,
                f"k{number}",
                f"apple pear {number}",
                [1.0, number / 8],
                {"group": "g", "ordinal": number},
            )
        store.put(HERE, "plain", {"note": "apple tart"}, ttl=60)
        store.put(BELOW, "k", "apple cake")
        store.put(("other",), "k", "apple pie")
    report("done")


STORE_OPERATIONS: dict[str, Callable[[SQLiteSyncStore], Any]] = {
    "put": lambda store: store.put(HERE, "new", "plum jam"),
    "put of the first item of a namespace": lambda store: store.put(("new",), "k", "plum jam"),
    "put over an item": lambda store: store.put(HERE, "k1", "plum jam"),
    "put with an embedding": lambda store: store.put_with_embedding(HERE, "k2", "plum", [0.0, 1.0]),
    "put_batch": lambda store: store.put_batch([(HERE, f"b{n}", f"plum {n}", {}) for n in range(4)]),
    "batch": lambda store: store.batch(
        [PutOp(HERE, "new", "plum"), DeleteOp(HERE, "k3"), DeleteOp(BELOW, "k")]
    ),
    "delete": lambda store: store.delete(HERE, "k4"),
    "change_space": lambda store: store.change_space(HERE, VectorSpace(2, Metric.COSINE, "another")),
    "clear_namespace": lambda store: store.clear_namespace(HERE, prefix=True),
}


def operate_store(report: Report, path: str, *, operation: str, die_before: int) -> None:
    """One operation on a prepared store; die just before its statement with that number."""
    watching = [False]
    counter = StatementCounter(die_before)

    def watch(sql: str) -> None:
        if watching[0]:
            counter(sql)

    store = open_store(path, WatchedEngine(path, watcher=watch))
    store.exists(HERE, "k0")
    watching[0] = True
    STORE_OPERATIONS[operation](store)
    report("done")


# ── many at once ──────────────────────────────────────────────────────────────────────────────────


def retrying(report: Report, path: str, *, name: str, messages: int) -> None:
    """Add messages to one thread that others add to as well: load, append, save; again on `Conflict`."""
    with SQLiteSyncCheckpointer(path) as twin:
        conflicts = 0
        for number in range(messages):
            while True:
                found = twin.get("shared")
                state, parent = (
                    (state_of(0), None) if found is None else (found.state, found.info.checkpoint_id)
                )
                with contextlib.suppress(Conflict):
                    twin.save(state.with_message(Message.user(f"{name} {number}")), "shared", parent=parent)
                    break
                conflicts += 1
    report(f"conflicts {conflicts}")


def save_once(report: Report, path: str, *, thread_id: str) -> None:
    """Open a file, perhaps for the first time, and save."""
    with SQLiteSyncCheckpointer(path) as twin:
        report("ack " + twin.save(state_of(2), thread_id))


def hold_lock(report: Report, path: str, *, holding: str, until: str) -> None:
    """Hold the write lock with a change that is not committed; say so in one fifo, and wait for the other."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE holdfast_threads SET updated_at = 0")
    Path(holding).write_text("held")
    Path(until).read_text()
    connection.execute("ROLLBACK")


def as_nobody(report: Report, path: str, *, write: bool) -> None:
    """Use the file as a user who may only read it."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    twin = SQLiteSyncCheckpointer(path)
    try:
        report("read " + str(twin.exists("t")))
        if write:
            twin.save(state_of(4), "t")
    except HoldfastError as error:
        report(f"{type(error).__name__} {error}")


# ── forked with an open object ────────────────────────────────────────────────────────────────────


class _Both:
    """A checkpointer, blocking or on an event loop that is made for each call."""

    def __init__(self, path: str, *, threaded: bool) -> None:
        self._engine: Any = ThreadedSqliteEngine(path) if threaded else SqliteEngine(path)
        self._loops = SQLiteCheckpointer(engine=self._engine, owns_engine=True)
        self._twin = None if threaded else SyncCheckpointer(self._loops)

    def append(self, text: str) -> None:
        while True:
            found = self._call("get", "shared")
            state, parent = (state_of(0), None) if found is None else (found.state, found.info.checkpoint_id)
            with contextlib.suppress(Conflict):
                self._call("save", state.with_message(Message.user(text)), "shared", parent=parent)
                return

    def close(self) -> None:
        self._call("close")

    def connections(self) -> list[sqlite3.Connection]:
        return [connection for connection in (self._engine._writer, *self._engine._readers) if connection]

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._twin is not None:
            return getattr(self._twin, name)(*args, **kwargs)
        return asyncio.run(getattr(self._loops, name)(*args, **kwargs))


def _in_fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def fork_and_write(report: Report, path: str, *, threaded: bool) -> None:
    """Use an object, fork, use it in both processes at once, then again in the first."""
    shared = _Both(path, threaded=threaded)
    for number in range(10):
        shared.append(f"before {number}")

    inherited = shared.connections()
    assert inherited

    def child() -> None:
        for number in range(10):
            shared.append(f"child {number}")
        assert not any(mine is theirs for mine in shared.connections() for theirs in inherited)
        shared.close()

    pid = _in_fork(child)
    for number in range(10):
        shared.append(f"parent {number}")
    _, status = os.waitpid(pid, 0)
    assert status == 0
    report("child done")
    for number in range(10):
        shared.append(f"after {number}")
    shared.close()
    report("parent done")


def fork_and_close(report: Report, path: str) -> None:
    """Fork with an open object; the child closes it without having used it."""
    for threaded in (False, True):
        shared = _Both(path, threaded=threaded)
        shared.append("before 0" if not threaded else "after 0")
        pid = _in_fork(shared.close)
        _, status = os.waitpid(pid, 0)
        assert status == 0
        found = shared._call("get", "shared")
        assert found is not None
        shared.close()
    report("done")


def fill_store(report: Report, path: str, *, name: str, items: int) -> None:
    """Put items, and count them all in one item that others count in as well."""
    with open_store(path) as store:
        for number in range(items):
            store.put(HERE, f"{name} {number}", f"item of {name}")
            while True:
                found = store.get_item(("count",), "items")
                version, count = (0, 0) if found is None else (found.version, found.value)
                with contextlib.suppress(Conflict):
                    store.put(("count",), "items", count + 1, expected_version=version)
                    break
    report("done")


# ── a memory that is embedded anew ────────────────────────────────────────────────────────────────


async def _reembed(path: str, engine: SqliteEngine | None, dimension: int) -> Reembedded:
    embedder = HashEmbedder(dimension)
    store = SQLiteStore(path, engine=engine, owns_engine=True, **store_options(embedder))
    async with AgentMemory(store, embedder=embedder) as memory:
        return await memory.reembed()


def reembed_memory(report: Report, path: str, *, dimension: int, die_before: int) -> None:
    """Embed a memory anew; die just before the statement with that number."""
    engine = WatchedThreadedEngine(path, watcher=StatementCounter(die_before, die)) if die_before else None
    done = asyncio.run(_reembed(path, engine, dimension))
    report(f"{done.dropped} {done.embedded}")

"""Faults on purpose: engines that tell what they are about to do, so that a test can stop or kill them just there."""

import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.memory.backends.sqlite_engine import SqliteEngine, ThreadedSqliteEngine

Watcher = Callable[[str], None]
"""Gets the text of a statement just before it runs, in the thread that runs it. What it raises is lost."""


def die() -> NoReturn:
    """End this process as a power cut would end it: nothing is cleaned up, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
    raise AssertionError("SIGKILL was survived")


class StatementCounter:
    """A watcher that acts once, just before the statement with that number; the first is number 1."""

    def __init__(self, number: int, action: Callable[[], Any] = die) -> None:
        self.seen: list[str] = []
        self._number = number
        self._action = action

    def __call__(self, sql: str) -> None:
        self.seen.append(sql)
        if len(self.seen) == self._number:
            self._action()


class _Watched(SqliteEngine):
    """Tells the watcher of each statement. ``steps`` also tells of progress inside a statement, as "...": after so
    many instructions of SQLite's virtual machine each."""

    def __init__(self, *args: Any, watcher: Watcher, steps: int | None = None, **options: Any) -> None:
        self._watcher = watcher
        self._steps = steps
        super().__init__(*args, **options)

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        # Statements that a virtual table runs for itself are told of as comments.
        connection.set_trace_callback(self._watcher)
        if self._steps is not None:
            connection.set_progress_handler(self._progress, self._steps)
        return connection

    def _progress(self) -> int:
        self._watcher("...")
        return 0


class WatchedEngine(_Watched):
    """:class:`SqliteEngine`, watched."""


class WatchedThreadedEngine(_Watched, ThreadedSqliteEngine):
    """:class:`ThreadedSqliteEngine`, watched."""

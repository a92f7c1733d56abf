"""Who may write to a Chroma collection: one at a time, over threads, event loops and, with a file, processes."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.core.errors import Unavailable

_PAUSE = 0.001
_LONGEST_PAUSE = 0.02

_locks: dict[str, threading.Lock] = {}
_guard = threading.Lock()


class WriteLock:
    """What is named alike is held by one thread at a time; with a ``path`` also by one process at a time.

    The system releases the file's lock when its holder dies. The file itself is empty and stays.
    """

    def __init__(self, name: str, path: str | None, busy_seconds: float) -> None:
        self._name = name
        self._path = path if file_locks() else None
        self._busy_seconds = busy_seconds

    @property
    def between_processes(self) -> bool:
        return self._path is not None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Blocks: never call it on an event loop."""
        with _guard:
            lock = _locks.setdefault(self._name, threading.Lock())
        if not lock.acquire(timeout=self._busy_seconds):
            raise self._busy()
        try:
            if self._path is None:
                yield
            else:
                with self._held_file(self._path):
                    yield
        finally:
            lock.release()

    @contextmanager
    def _held_file(self, path: str) -> Iterator[None]:
        import fcntl

        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise Unavailable(f"can't open the lock file {path}: {error.strerror}") from error
        try:
            deadline, pause = time.monotonic() + self._busy_seconds, _PAUSE
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > deadline:
                    raise self._busy()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # also where a forked child still has the file open
        finally:
            os.close(file)

    def _busy(self) -> Unavailable:
        return Unavailable(f"{self._name}: another writer was at it for {self._busy_seconds:g} s")


def file_locks() -> bool:
    """Whether this system has locks on files that end with their process."""
    try:
        import fcntl  # noqa: F401 (asked for, not used)
    except ImportError:  # Windows
        return False
    return True


def _after_fork() -> None:
    """In a forked child the threads that hold locks are not there."""
    global _guard  # noqa: PLW0603 (the lock itself may be held for ever)
    _guard = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork)

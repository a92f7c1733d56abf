"""Threads that do blocking work for event loops: one for writes, in order, and a few for reads.

A call that is cancelled before it starts is not made; one that has started is waited for, so that it is never half
done when its caller learns of the cancellation.
"""

import asyncio
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_READERS = 3


class _Job:
    """Work for a thread, and the future that its caller waits for. The future is touched by its loop alone."""

    __slots__ = ("_claim", "_done", "_future", "_loop", "_work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop | None) -> None:
        self._work = work
        self._loop = loop
        self._future: asyncio.Future[Any] | None = None if loop is None else loop.create_future()
        self._claim = [True]
        self._done = False

    def claim(self) -> bool:
        """True for just one caller: the worker that does the job, or the canceller."""
        try:
            return self._claim.pop()
        except IndexError:
            return False

    def do(self) -> None:
        if not self.claim():
            return
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._work()
        except BaseException as caught:  # handed to the caller, whatever it is
            error = caught
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._finish, value, error)
            except RuntimeError:
                return  # that loop is closed: nobody waits any more

    def waiting(self) -> "asyncio.Future[Any]":
        assert self._future is not None
        return self._future

    async def finished(self) -> None:
        """Wait for the end of work that can't be stopped, however often the waiting itself is cancelled."""
        while not self._done:
            assert self._loop is not None
            self._future = self._loop.create_future()
            try:
                await self._future
            except asyncio.CancelledError:
                continue
            except BaseException:
                return  # the caller learns that it was cancelled

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._done = True
        if self._future is None or self._future.done():
            return
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)


_Queue = queue.SimpleQueue["_Job | None"]


class Workers:
    """Threads are started when they are first needed and are daemons: a process may end without closing them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._writes: _Queue = queue.SimpleQueue()
        self._reads: _Queue = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._threads = {"write": 0, "read": 0}
        weakref.finalize(self, _stop, self._writes, 1, self._reads, _READERS)

    async def call(self, work: Callable[[], T], *, write: bool) -> T:
        """Do the work in a thread and return what it returns."""
        loop = asyncio.get_running_loop()
        job = _Job(work, loop)
        self._put(job, write)
        try:
            value: T = await job.waiting()
        except asyncio.CancelledError:
            if not job.claim():
                await job.finished()
            raise
        return value

    def post(self, work: Callable[[], Any]) -> None:
        """Do the work after the writes that are queued; nobody waits for it."""
        self._put(_Job(work, None), True)

    def stop(self) -> None:
        """Let the threads end once they have done what is queued. A later call starts new ones."""
        with self._starting:
            _stop(self._writes, self._threads["write"], self._reads, self._threads["read"])
            self._threads = {"write": 0, "read": 0}

    def _put(self, job: _Job, write: bool) -> None:
        with self._starting:  # or a job might be put behind the word that ends the last thread
            if write:
                if not self._threads["write"]:
                    self._start_thread("write", self._writes)
                self._writes.put(job)
            else:
                running = self._threads["read"]
                if not running or (running < _READERS and not self._reads.empty()):
                    self._start_thread("read", self._reads)
                self._reads.put(job)

    def _start_thread(self, kind: str, jobs: _Queue) -> None:
        self._threads[kind] += 1
        threading.Thread(target=_work, args=(jobs,), name=f"{self._name} {kind}", daemon=True).start()


def _work(jobs: _Queue) -> None:
    while (job := jobs.get()) is not None:
        job.do()
        del job  # or the last job, and all that it refers to, would live until the next one


def _stop(writes: _Queue, writers: int, reads: _Queue, readers: int) -> None:
    for _ in range(writers):
        writes.put(None)
    for _ in range(readers):
        reads.put(None)

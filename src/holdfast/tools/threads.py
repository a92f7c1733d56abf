"""Threads for blocking tools.

Not asyncio's default executor: it has few threads, so that some stuck tools would stop every conversation, and a
process waits for them when it ends. Here threads are daemons, many, started when needed, and end when idle.
"""

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Final

MAX_THREADS: Final = 256
IDLE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What work gave back or raised. An exception is carried as a value: a future refuses some of them."""

    value: Any = None
    error: BaseException | None = None


class Job:
    """Work for a thread, and the future that its caller waits for, which only its own loop touches."""

    __slots__ = ("_claim", "_context", "_loop", "_work", "reply", "started")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._context: Context | None = copy_context()
        self._loop = asyncio.get_running_loop()
        self._claim = [True]
        self.reply: asyncio.Future[Outcome] = self._loop.create_future()
        self.started = False

    def claim(self) -> bool:
        """True for just one caller: the thread that does the job, or the one who gives it up before that."""
        try:
            return self._claim.pop()
        except IndexError:
            return False

    def do(self) -> Outcome | None:
        """In a thread: what came of the work; None if it was given up. Never raises."""
        if not self.claim():
            return None
        self.started = True
        work, context = self._work, self._context
        self._work = self._context = None  # nothing here holds what the work was about once it is done
        assert work is not None
        assert context is not None
        try:
            return Outcome(value=context.run(work))
        except BaseException as error:  # handed to the caller, whatever it is
            return Outcome(error=error)

    def deliver(self, outcome: Outcome | None) -> None:
        """In a thread. An outcome that nobody waits for any more is dropped."""
        if outcome is not None:
            with suppress(RuntimeError):  # that loop is closed
                self._loop.call_soon_threadsafe(self._finish, outcome)

    def _finish(self, outcome: Outcome) -> None:
        if not self.reply.done():
            self.reply.set_result(outcome)


class _Worker:
    __slots__ = ("inbox",)

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Job] = queue.SimpleQueue()


class ThreadPool:
    """Daemon threads for jobs, at most ``max_threads``; with all of them busy, jobs wait for their turn.

    The thread that was idle for the shortest time is taken first, so that those which a burst needed end after it.
    """

    def __init__(self, *, max_threads: int = MAX_THREADS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._max_threads = max_threads
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._waiting: deque[Job] = deque()
        self._threads = 0

    @property
    def threads(self) -> int:
        """How many threads there are now."""
        return self._threads

    async def run(self, job: Job) -> Outcome:
        """Do the job in a thread. A cancelled caller goes on at once: a job that was not begun is never done, one
        that was runs on in its thread, and its outcome is dropped.
        """
        self._submit(job)
        try:
            return await job.reply
        finally:
            if job.claim():
                with self._lock, suppress(ValueError):
                    self._waiting.remove(job)

    def _submit(self, job: Job) -> None:
        with self._lock:
            if self._idle:
                self._idle.pop().inbox.put(job)
                return
            if self._threads >= self._max_threads:
                self._waiting.append(job)
                return
            self._threads += 1
        self._start(job)

    def _start(self, job: Job) -> None:
        worker = _Worker()
        worker.inbox.put(job)
        try:
            threading.Thread(target=self._work, args=(worker,), name="holdfast tool", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    raise
                self._waiting.append(job)

    def _work(self, worker: _Worker) -> None:
        job: Job | None = worker.inbox.get()
        while job is not None:
            outcome = job.do()
            following = self._following(worker)  # first, so that who gets the outcome finds this thread idle
            job.deliver(outcome)
            del job, outcome  # or they, and all that they refer to, would live until the next job
            job = following or self._wait(worker)

    def _following(self, worker: _Worker) -> Job | None:
        """The job that waits the longest. If there is none, the worker is idle from now on."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(worker)
            return None

    def _wait(self, worker: _Worker) -> Job | None:
        """The idle worker's next job, or None if it is to end."""
        try:
            return worker.inbox.get(timeout=self._idle_seconds)
        except queue.Empty:
            pass
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                self._threads -= 1
                return None
        return worker.inbox.get()  # a job was given to it at the last moment


_pools: dict[int, ThreadPool] = {}


def tool_threads() -> ThreadPool:
    """The pool of this process. A forked child has none of its parent's threads, and gets its own."""
    pid = os.getpid()
    pool = _pools.get(pid)
    if pool is None:
        pool = _pools.setdefault(pid, ThreadPool())
    return pool

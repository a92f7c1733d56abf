"""Threads that do blocking work for event loops: one for writes, in order, and a few for reads.

A call that is cancelled before it starts is not made; one that has started is waited for, so that it is never half
done when its caller learns of the cancellation.
"""

import asyncio
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

_READERS = 3


class _Inbox:
    """Results on their way to one event loop: a queue, and a bell that the loop listens to.

    It stays alive, and its bell with it, while a job may still ring it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._done: deque[_Job] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            loop.add_reader(self._bell, self._deliver)
        except BaseException:
            os.close(self._bell)
            raise

    def put(self, job: "_Job") -> None:
        """From any thread."""
        self._done.append(job)
        os.eventfd_write(self._bell, 1)

    def _deliver(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        done = self._done
        if len(done) == 1:
            done.popleft().finish(at_once=True)
        while done:  # the loop has its say between their callers
            done.popleft().finish()

    def __del__(self) -> None:
        with suppress(AttributeError):  # there was no bell
            os.close(self._bell)


class _Post:
    """The same for a loop that can't listen to a bell: by the loop's own, dearer way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)

    def put(self, job: "_Job") -> None:
        loop = self._loop()
        if loop is not None:
            with suppress(RuntimeError):  # that loop is closed: nobody waits any more
                loop.call_soon_threadsafe(job.finish)


class _Reply(asyncio.Future[Any]):
    """What a caller waits for. Work that has begun can't be cancelled: its caller is cancelled when it is done.

    (A task whose future refuses to be cancelled is cancelled as soon as that future has a result.)

    The first callback, nearly always the task that awaits it, can be called at once: that spares a turn of the loop.
    """

    __slots__ = ("job", "waiter")

    job: "_Job"
    waiter: tuple[Callable[[Any], object], Context] | None

    def add_done_callback(
        self, fn: Callable[["_Reply"], object], /, *, context: Context | None = None
    ) -> None:
        if context is None or self.waiter is not None or self.done():
            super().add_done_callback(fn, context=context)
        else:
            self.waiter = (fn, context)

    def remove_done_callback(self, fn: Callable[["_Reply"], object], /) -> int:
        self.wait_in_line()
        return super().remove_done_callback(fn)

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.job.claim():
            return False
        self.wait_in_line()
        return super().cancel(msg)

    def wait_in_line(self) -> None:
        """Make the first callback one like any other: called by the loop, in its next turn."""
        if self.waiter is not None:
            (fn, context), self.waiter = self.waiter, None
            super().add_done_callback(fn, context=context)


class _Job:
    """Work for a thread, and the future that its caller waits for, which is touched by its loop alone."""

    __slots__ = ("_claim", "_error", "_inbox", "_reply", "_value", "_work")

    def __init__(self, work: Callable[[], Any], inbox: _Inbox | _Post | None, reply: _Reply | None) -> None:
        self._work = work
        self._inbox = inbox
        self._reply = reply
        self._claim = [True]
        self._value: Any = None
        self._error: BaseException | None = None

    def claim(self) -> bool:
        """True for just one caller: the worker that does the job, or the canceller."""
        try:
            return self._claim.pop()
        except IndexError:
            return False

    def do(self) -> None:
        try:
            self._claim.pop()
        except IndexError:
            return  # cancelled
        try:
            self._value = self._work()
        except BaseException as caught:  # handed to the caller, whatever it is
            self._error = caught
        self._work = _nothing  # when the caller goes on, nothing here holds what the work was about
        if self._inbox is not None:
            self._inbox.put(self)

    def finish(self, *, at_once: bool = False) -> None:
        """On the caller's loop. ``at_once``: the caller goes on within this call."""
        reply, self._reply = self._reply, None
        if reply is None or reply.done():
            return
        if not at_once:
            reply.wait_in_line()
        waiter, reply.waiter = reply.waiter, None
        if self._error is None:
            reply.set_result(self._value)
        else:
            reply.set_exception(self._error)
        self._value = self._error = None
        if waiter is not None:
            call, context = waiter
            context.run(call, reply)


def _nothing() -> None:
    """Work that is done."""


_Queue = queue.SimpleQueue["_Job | None"]


class Workers:
    """Threads are started when they are first needed and are daemons: a process may end without closing them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._writes: _Queue = queue.SimpleQueue()
        self._reads: _Queue = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._threads = {"write": 0, "read": 0}
        self._inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox | _Post] = (
            weakref.WeakKeyDictionary()
        )
        self._latest: tuple[Callable[[], asyncio.AbstractEventLoop | None], _Inbox | _Post] | None = None
        weakref.finalize(self, _stop, self._writes, 1, self._reads, _READERS)

    def call(self, work: Callable[[], T], *, write: bool) -> "asyncio.Future[T]":
        """Do the work in a thread; the future has what it returns."""
        loop = asyncio.get_running_loop()
        latest = self._latest  # nearly always there is only one loop
        inbox = latest[1] if latest is not None and latest[0]() is loop else self._inbox_of(loop)
        reply = _Reply(loop=loop)
        reply.waiter = None
        reply.job = job = _Job(work, inbox, reply)
        self._put(job, write)
        return reply

    def post(self, work: Callable[[], Any]) -> None:
        """Do the work after the writes that are queued; nobody waits for it."""
        self._put(_Job(work, None, None), True)

    def stop(self) -> None:
        """Let the threads end once they have done what is queued. A later call starts new ones."""
        with self._starting:
            _stop(self._writes, self._threads["write"], self._reads, self._threads["read"])
            self._threads = {"write": 0, "read": 0}

    def _inbox_of(self, loop: asyncio.AbstractEventLoop) -> _Inbox | _Post:
        inbox = self._inboxes.get(loop)
        if inbox is None:
            try:
                inbox = _Inbox(loop)
            except (
                AttributeError,
                NotImplementedError,
                OSError,
            ):  # not Linux; not a selector's loop; no file left
                inbox = _Post(loop)
            self._inboxes[loop] = inbox
        self._latest = (weakref.ref(loop), inbox)
        return inbox

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

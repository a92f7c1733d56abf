"""Blocking calls of coroutines, from anywhere.

Each call has an event loop in a thread to itself while it lasts. So it never needs the loop of the thread that it
blocks, nor one that another call blocks: nested at any depth, such calls can't wait for each other in a circle.
Loops are kept for later calls, which find connections still open and background tasks still at work.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar

__all__ = ["run_blocking"]

T = TypeVar("T")

MAX_IDLE: Final = 4


def run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the coroutine that ``make`` returns, or its exception. Blocks the calling thread.

    It sees the caller's context variables. If the waiting caller is interrupted (Ctrl-C), the coroutine is cancelled
    and has ended when the interrupt goes on; a second interrupt does not wait for it.
    """
    pool = _pool()
    portal = pool.lease()
    call = _Call(make)
    try:
        portal.start(call)
        call.done.wait()
    except BaseException:
        portal.interrupt(call)
        pool.release(portal)
        raise
    pool.release(portal)
    return call.result()


class _Call(Generic[T]):
    """One coroutine, run as a task of a portal's loop, and what came of it."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make: Callable[[], Coroutine[Any, Any, T]] | None = make
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None
        self._values: list[T] = []
        self._error: BaseException | None = None
        self.done = threading.Event()

    def begin(self) -> None:
        """On the loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), context=self._context)
        # Not at the coroutine's own end: one that is cancelled before its first step has none.
        self._task.add_done_callback(lambda _: self.done.set())

    def cancel(self) -> None:
        """On the loop. If `begin` was not called before, it never will be."""
        if self._task is None:
            self.done.set()
        else:
            self._task.cancel()

    async def _run(self) -> None:
        make, self._make = self._make, None
        assert make is not None
        try:
            self._values.append(await make())
        except BaseException as error:  # the caller's, whatever it is; in a task, some would end the loop
            self._error = error
        del make

    def result(self) -> T:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._values.pop()
        finally:
            del error  # or it would refer to itself by its traceback


class _Portal:
    """An event loop that runs in a thread of its own until it is closed, also between two calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = False
        try:
            threading.Thread(target=self._main, name="holdfast portal", daemon=True).start()
        except BaseException:
            self._loop.close()
            raise

    def start(self, call: _Call[Any]) -> None:
        self._loop.call_soon_threadsafe(call.begin)

    def interrupt(self, call: _Call[Any]) -> None:
        """Cancel the call and wait for its end. If that is interrupted too, the portal is lost, but not blocked on."""
        self._loop.call_soon_threadsafe(call.cancel)
        call.done.wait()

    def close(self) -> None:
        """Let the thread end. Tasks that are left are cancelled, as when a program ends."""
        self._closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closing:
            self._turn(self._loop.run_forever)
        self._turn(lambda: self._loop.run_until_complete(_wind_up()))
        asyncio.set_event_loop(None)
        self._loop.close()

    def _turn(self, run: Callable[[], object]) -> None:
        # Raised in a task, these are also its result: they are for who awaits that task, not for this thread.
        with suppress(KeyboardInterrupt, SystemExit):
            run()


async def _wind_up() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


class _Pool:
    """Idle portals. The one that was used last is taken first: its connections are the warmest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Portal] = []
        # All of them, for a forked child: were a loop collected there, closing it would take away the parent's
        # registrations, which the two share.
        self._all: set[_Portal] = set()

    def lease(self) -> _Portal:
        """A portal for one call alone."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        portal = _Portal()
        with self._lock:
            self._all.add(portal)
        return portal

    def release(self, portal: _Portal) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(portal)
                return
            self._all.discard(portal)
        portal.close()


_pools: Final[dict[int, _Pool]] = {}


def _pool() -> _Pool:
    """The pool of this process. A forked child has none of its parent's threads; it never touches their portals."""
    pid = os.getpid()
    pool = _pools.get(pid)
    if pool is None:
        pool = _pools.setdefault(pid, _Pool())
    return pool

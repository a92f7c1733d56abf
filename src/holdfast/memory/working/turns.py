"""One at a time: who works on the same thing waits for the one before, in the order of arrival."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Final

__all__ = ["one_at_a_time"]

# A key is here while somebody works on it, with those who wait; so the table is as large as the work in hand. An
# asyncio.Lock belongs to one event loop; one process may have several, in several threads.
_busy: Final[dict[Hashable, deque[Future[None]]]] = {}
_guard: Final = threading.Lock()


@asynccontextmanager
async def one_at_a_time(key: Hashable) -> AsyncIterator[None]:
    """Inside, nobody else in this process is inside with an equal key. It must not be entered again from within."""
    with _guard:
        waiting = _busy.get(key)
        mine: Future[None] | None = None
        if waiting is None:
            _busy[key] = deque()
        else:
            mine = Future()
            waiting.append(mine)
    if mine is not None:
        try:
            await asyncio.wrap_future(mine)
        except BaseException:
            if mine.cancel():
                _withdraw(key, mine)
            else:  # it was handed over while this task was being cancelled
                _hand_over(key)
            raise
    try:
        yield
    finally:
        _hand_over(key)


def _withdraw(key: Hashable, waiter: Future[None]) -> None:
    with _guard, suppress(KeyError, ValueError):  # passed over already
        _busy[key].remove(waiter)


def _hand_over(key: Hashable) -> None:
    while True:
        with _guard:
            waiting = _busy[key]
            if not waiting:
                del _busy[key]
                return
            following = waiting.popleft()
        if following.set_running_or_notify_cancel():
            following.set_result(None)
            return

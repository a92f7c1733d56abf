"""Vendor clients hold connections of one event loop; a model may be used on several. So: one client per loop."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["PerLoop"]

C = TypeVar("C")


class PerLoop(Generic[C]):
    """One client for each event loop that asks for one, safe to use from several threads.

    A client is closed by `aclose`, when its loop shuts down (`asyncio.run` does that), or when this object is
    dropped. `close` is how: ``PerLoop(lambda client: client.close())``.
    """

    def __init__(self, close: Callable[[C], Awaitable[object]]) -> None:
        self._close = close
        self._lock = threading.Lock()
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[None, None]]] = (
            WeakKeyDictionary()
        )

    def get(self, make: Callable[[], C]) -> C:
        """The running loop's client, made by `make` if there is none."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._kept:
                return self._kept[loop][0]
            # A client refers to its loop, so that a weak key alone would keep both for ever.
            for other in [known for known in self._kept if known.is_closed()]:
                del self._kept[other]
        client = make()  # nobody else runs on this loop, so nobody can be faster
        keeper = _keep(client, self._close)
        _start(keeper)
        with self._lock:
            self._kept[loop] = client, keeper
        return client

    async def aclose(self) -> None:
        """Close the running loop's client. The next `get` makes a new one."""
        with self._lock:
            kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await kept[1].aclose()


async def _keep(client: C, close: Callable[[C], Awaitable[object]]) -> AsyncGenerator[None, None]:
    """Waits for its own end, then closes `client`.

    An event loop that shuts down ends the asynchronous generators that were started on it, and so does one
    whose generator is dropped: there is no other way to hear of it.
    """
    try:
        yield
    finally:
        await close(client)


def _start(keeper: AsyncGenerator[None, None]) -> None:
    """Run `keeper` up to its ``yield``, which it reaches without waiting."""
    with suppress(StopIteration):
        keeper.__anext__().__await__().__next__()

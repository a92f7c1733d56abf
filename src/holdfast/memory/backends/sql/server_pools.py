"""Connections for event loops: each loop has a pool of its own, which is closed on it, or given up with it."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

P = TypeVar("P")


class LoopPools(Generic[P]):
    """A pool for each running event loop.

    ``make`` makes one, on its loop; ``close`` closes one, on its loop. ``abandon`` lets go of one whose loop is gone,
    where nothing can be awaited any more.
    """

    def __init__(
        self, make: Callable[[], P], close: Callable[[P], Awaitable[None]], abandon: Callable[[P], None]
    ) -> None:
        self._make = make
        self._close = close
        self._abandon = abandon
        self._pools: dict[int, tuple[weakref.ref[asyncio.AbstractEventLoop], P]] = {}

    def mine(self) -> P:
        """The running loop's pool."""
        loop = asyncio.get_running_loop()
        found = self._pools.get(id(loop))
        if found is not None and found[0]() is loop:
            return found[1]
        for key, (reference, pool) in list(self._pools.items()):
            other = reference()
            if other is None or other.is_closed():
                self._abandon(pool)
                self._pools.pop(key, None)
        new = self._make()
        self._pools[id(loop)] = (weakref.ref(loop), new)
        return new

    async def close(self, patience: float) -> None:
        """Close all: those of other loops on their loops, if these run, for which it waits so many seconds."""
        here = asyncio.get_running_loop()
        pools, self._pools = self._pools, {}
        for reference, pool in pools.values():
            loop = reference()
            if loop is here:
                await self._close(pool)
            elif loop is not None and loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(_awaited(self._close(pool)), loop)
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(asyncio.wrap_future(closing), patience)
            else:
                self._abandon(pool)


async def _awaited(waiting: Awaitable[None]) -> None:
    await waiting

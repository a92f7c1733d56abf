"""Connections belong to the event loop that they were made on: each loop has its own."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class LoopPool(Protocol):
    """The connections of one event loop."""

    async def close(self) -> None: ...
    def abandon(self) -> None:
        """Its loop is gone: nothing can be awaited there any more."""
        ...


P = TypeVar("P", bound=LoopPool)


class LoopPools(Generic[P]):
    """A pool for each event loop; those of dead loops go."""

    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        self._pools: dict[int, tuple[weakref.ref[asyncio.AbstractEventLoop], P]] = {}

    def mine(self) -> P:
        """The running loop's pool."""
        loop = asyncio.get_running_loop()
        found = self._pools.get(id(loop))
        if found is not None and found[0]() is loop:
            return found[1]
        for key, (other, pool) in list(self._pools.items()):
            alive = other()
            if alive is None or alive.is_closed():
                pool.abandon()
                self._pools.pop(key, None)
        new = self._make()
        self._pools[id(loop)] = (weakref.ref(loop), new)
        return new

    async def close(self, seconds: float) -> None:
        """Close all: each on its loop while that runs, for so long at the most."""
        here = asyncio.get_running_loop()
        pools, self._pools = self._pools, {}
        for reference, pool in pools.values():
            loop = reference()
            if loop is here:
                await pool.close()
            elif loop is not None and loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(pool.close(), loop)
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(asyncio.wrap_future(closing), seconds)
            else:
                pool.abandon()

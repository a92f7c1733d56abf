"""What psycopg's pool keeps to itself when it connects: why it failed, what it made, that its loop ends."""

import asyncio
import time
from itertools import count
from typing import Any

from psycopg import AsyncConnection, Error
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from holdfast.core.errors import Unavailable

_REFUSED = ("28", "3D000", "42501", "08P01")


def give_up(refused: list[Exception], deadline: float) -> None:
    """Raise what the server says, if it says that it won't have us, or if there was time enough."""
    error = refused[-1] if refused else None
    state = (isinstance(error, Error) and error.sqlstate) or ""
    text = str(error)
    if error is not None and (
        state.startswith(_REFUSED) or "authentication failed" in text or "does not exist" in text
    ):
        raise Unavailable(text)
    if time.monotonic() >= deadline:
        if error is not None:
            raise Unavailable(text)
        raise PoolTimeout


def remembering(base: Any, refused: list[Exception]) -> Any:
    """A connection class that remembers why the last attempt to connect failed: the pool only logs it."""

    class Remembering(base):  # type: ignore[misc]  # the base is a parameter
        @classmethod
        def connect(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                connection = super().connect(*args, **kwargs)
            except Exception as error:
                refused[:] = [error]
                raise
            refused.clear()
            return connection

    return Remembering


_names = count(1)


class EndingPool(AsyncConnectionPool[Any]):
    """A pool whose tasks end with their event loop.

    A worker that is cancelled while it connects or takes a connection back, because its loop ends, takes that for a
    failure and goes on: the loop would wait for it for ever. So there is one more task, which is cancelled with them
    and then insists.
    """

    def __init__(self, info: str, **options: Any) -> None:
        super().__init__(info, name=f"holdfast-{next(_names)}", **options)
        self._watching: asyncio.Task[None] | None = None

    async def open(self, *args: Any, **options: Any) -> None:
        self._watching = asyncio.create_task(self._watch())
        await super().open(*args, **options)

    async def close(self, *args: Any, **options: Any) -> None:
        await super().close(*args, **options)
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for task in asyncio.all_tasks():
                if task.get_name().startswith(f"{self.name}-"):
                    _insist(task)


def _insist(task: asyncio.Task[Any]) -> None:
    """Cancel until it is done."""
    if not task.done():
        task.cancel()
        task.get_loop().call_later(0.01, _insist, task)


def remembering_async(refused: list[Exception], made: Any) -> Any:
    """The same for event loops; it also remembers the connections, which outlive their loop."""

    class Remembering(AsyncConnection[Any]):
        @classmethod
        async def connect(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                connection = await super().connect(*args, **kwargs)
            except Exception as error:
                refused[:] = [error]
                raise
            refused.clear()
            made.add(connection)
            return connection

    return Remembering

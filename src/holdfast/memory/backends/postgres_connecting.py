"""What psycopg's pool keeps to itself when it connects: why it failed, what it made, that its loop ends."""

import asyncio
import time
from typing import Any

from psycopg import AsyncConnection, Error
from psycopg_pool import PoolTimeout

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


def _insist(task: asyncio.Task[Any] | None) -> None:
    """Cancel until it is done. A pool's worker that is cancelled while it connects, because its loop ends, takes that
    for a failure to connect and goes on: the loop would wait for it for ever."""
    if task is not None and not task.done():
        task.cancel()
        task.get_loop().call_later(0.01, _insist, task)


def remembering_async(refused: list[Exception], made: Any) -> Any:
    """The same for event loops; it also remembers the connections, which outlive their loop."""

    class Remembering(AsyncConnection[Any]):
        @classmethod
        async def connect(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                connection = await super().connect(*args, **kwargs)
            except asyncio.CancelledError:
                _insist(asyncio.current_task())
                raise
            except Exception as error:
                refused[:] = [error]
                raise
            refused.clear()
            made.add(connection)
            return connection

    return Remembering

"""How a run tells its consumer what happens, and learns that nobody listens any more."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any

from holdfast.agent.events import Event

__all__ = ["Channel", "Left", "Silence", "iterate"]


class Left(BaseException):
    """The consumer has left. Raised where an event is handed over: the safe points of a run."""


class Silence:
    """For a run that is only awaited: nobody listens."""

    listening = False

    async def emit(self, event: Event) -> None:
        """Nothing to do."""


class Channel(Silence):
    """Hands one event over at a time: the run goes on when the consumer asks for the next one."""

    listening = True

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = False
        self._offered: asyncio.Future[Event | None] = self._loop.create_future()
        self._taken: asyncio.Future[None] | None = None

    async def emit(self, event: Event) -> None:
        """Returns when the consumer wants to know what comes next; `Left` if it never will."""
        if self._left:
            raise Left
        self._taken = self._loop.create_future()
        self._offered.set_result(event)
        await self._taken
        if self._left:
            raise Left

    async def take(self) -> Event | None:
        """The next event, or ``None`` at the end."""
        if self._taken is not None and not self._taken.done():
            self._offered = self._loop.create_future()
            self._taken.set_result(None)
        return await self._offered

    def end(self) -> None:
        """There will be no further event."""
        if not self._offered.done():
            self._offered.set_result(None)

    def leave(self) -> None:
        """The consumer is gone: the run ends at its next safe point."""
        self._left = True
        if self._taken is not None and not self._taken.done():
            self._offered = self._loop.create_future()
            self._taken.set_result(None)


async def iterate(
    work: Callable[[Channel], Coroutine[Any, Any, None]],
) -> AsyncGenerator[Event, None]:
    """The events of ``work``, which runs in a task of its own. Closing the generator waits for its safe point;
    cancelling the consumer cancels it."""
    channel = Channel()
    task = asyncio.create_task(work(channel))
    task.add_done_callback(lambda _: channel.end())
    try:
        while (event := await channel.take()) is not None:
            yield event
        with suppress(Left):  # another task has closed the run
            await task
    except GeneratorExit:
        channel.leave()
        raise
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # whoever left does not hear of it; it counts as seen

"""Waiting for PostgreSQL on an event loop."""

import asyncio
from collections.abc import Generator
from typing import Any

from psycopg.waiting import Ready, Wait


class Turn(asyncio.Future[Any]):
    """One exchange on the running event loop: it is woken when there is something to read, and goes on in place.

    ``finishes``: it can't be cancelled once it has begun. (A task whose future refuses to be cancelled is cancelled as
    soon as that future has a result.) psycopg's own way takes a task, an event and several turns of the loop.
    """

    def __init__(self, steps: Generator[Any, Any, Any], descriptor: int, *, finishes: bool) -> None:
        self._running = asyncio.get_running_loop()
        super().__init__(loop=self._running)
        self._steps = steps
        self._descriptor = descriptor
        self._finishes = finishes
        self._reading = self._writing = False
        self._go_on(None)

    def _go_on(self, ready: Ready | None) -> None:
        if self.done():
            return
        try:
            wanted = self._steps.send(ready)
        except StopIteration as stop:
            self._stop_listening()
            self.set_result(stop.value)
        except Exception as error:
            self._stop_listening()
            self.set_exception(error)
        else:
            self._listen(bool(wanted & Wait.W))

    def _listen(self, to_write: bool) -> None:
        if not self._reading:
            self._reading = True
            self._running.add_reader(self._descriptor, self._go_on, Ready.R)
        if to_write != self._writing:
            self._writing = to_write
            if to_write:
                self._running.add_writer(self._descriptor, self._go_on, Ready.W)
            else:
                self._running.remove_writer(self._descriptor)

    def _stop_listening(self) -> None:
        if self._reading:
            self._running.remove_reader(self._descriptor)
        if self._writing:
            self._running.remove_writer(self._descriptor)
        self._reading = self._writing = False

    def cancel(self, msg: Any | None = None) -> bool:
        if self._finishes and not self.done():
            return False
        self._stop_listening()
        return super().cancel(msg)

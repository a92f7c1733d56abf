"""What a person does while a chat lasts: types lines, presses Ctrl-C."""

import asyncio
import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["Interrupts", "Lines"]


class Interrupts:
    """Ctrl-C: while a line is read it raises `KeyboardInterrupt` there, else it calls what stands in `calling`.

    It never ends the process: whoever presses it during an answer means the answer. Where the event loop can't take
    signals (in another thread than the main one, on Windows), all stays as it was.
    """

    def __init__(self) -> None:
        self._action: Callable[[], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """For as long as the chat lasts."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread():
            self._loop = asyncio.get_running_loop()
        try:
            self._listen()
            yield
        finally:
            self._ignore()
            if self._loop is not None:
                signal.signal(signal.SIGINT, before)

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._ignore()
        try:
            yield
        finally:
            self._listen()

    @contextmanager
    def calling(self, action: Callable[[], object]) -> Iterator[None]:
        """``action`` is called by the event loop, between two steps of what runs there."""
        before, self._action = self._action, action
        try:
            yield
        finally:
            self._action = before

    def _listen(self) -> None:
        if self._loop is not None:
            with suppress(NotImplementedError):
                self._loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _ignore(self) -> None:
        """Back to Python's own handler, which raises."""
        if self._loop is not None:
            with suppress(NotImplementedError):
                self._loop.remove_signal_handler(signal.SIGINT)

    def _interrupt(self) -> None:
        if self._action is not None:
            self._action()


class Lines:
    """The lines that a person types, or those of a pipe. A backslash at the end: it goes on in the next line."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self.is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        if self.is_interactive:
            with suppress(ImportError):  # where there is none, a line can't be edited; that is all
                import readline  # noqa: F401 - importing it lets `input` edit lines and remember them

    def read(self, prompt: str) -> str | None:
        """The next line, ``None`` at the end. In a pipe there is no prompt."""
        parts: list[str] = []
        while True:
            line = self._line("... " if parts else prompt)
            if line is None:
                return "\n".join(parts) if parts else None
            if not line.endswith("\\"):
                return "\n".join([*parts, line])
            parts.append(line[:-1])

    def _line(self, prompt: str) -> str | None:
        with self._interrupts.reading():
            if self.is_interactive:
                try:
                    return input(prompt)
                except EOFError:
                    sys.stdout.write("\n")
                    return None
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None

"""The blocking SDK of OCI off the event loop: a thread for each call, and a way to end one that waits."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Final

__all__ = ["Line", "documents"]

_END: Final = object()
_calls = threading.local()


class Line:
    """A client of the SDK, made by the first call that needs it, in that call's thread: making one may block."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._client: Any = None

    def client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._make()
                _watch(self._client.base_client.session)
            return self._client

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.base_client.session.close()


async def documents(line: Line, details: dict[str, Any], *, silence: float | None) -> AsyncIterator[Any]:
    """What the service answers: one document, or those of a stream as they come.

    `TimeoutError` if nothing comes for `silence` seconds. Leaving early closes the connection.
    """
    call = _Call(asyncio.get_running_loop())
    # A thread of its own, and no pool: a pool's size would limit the conversations of a process, and a process that
    # ends would wait for a call that nobody waits for.
    threading.Thread(target=call.run, args=(line, details), name="holdfast-oci", daemon=True).start()
    try:
        while True:
            async with asyncio.timeout(silence):
                item = await call.items.get()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        call.hang_up()


class _Call:
    """One call of the SDK. `run` is the thread's; the rest is the event loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.items: asyncio.Queue[Any] = asyncio.Queue()
        self._loop = loop
        self._connection: Any = None
        self._over = False

    def run(self, line: Line, details: dict[str, Any]) -> None:
        _calls.current = self
        try:
            for document in _talk(line.client(), details, self._release):
                self._put(document)
            self._release()
            self._put(_END)
        except BaseException as error:  # it is the caller's
            self._release()
            with suppress(_HungUp):
                self._put(error)

    def _release(self) -> None:
        """The answer is read: the connection may be another call's by now."""
        self._connection = None

    def _put(self, item: Any) -> None:
        if self._over:
            raise _HungUp
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(self.items.put_nowait, item)

    def connected(self, connection: Any) -> None:
        self._connection = connection
        if self._over:
            raise _HungUp

    def hang_up(self) -> None:
        """End the call if it still runs: shutting its socket down is what wakes a thread that reads from it."""
        self._over = True
        sock = getattr(self._connection, "sock", None)
        if sock is not None:
            with suppress(OSError):  # it is closed already
                sock.shutdown(socket.SHUT_RDWR)


class _HungUp(Exception):
    """Nobody waits for the answer any more."""


def _talk(client: Any, details: dict[str, Any], release: Callable[[], None]) -> Iterator[Any]:
    from oci.retry import NoneRetryStrategy

    # The SDK's own retries know nothing of Retry-After, and sleep where nobody can wake them.
    answer = client.chat(details, retry_strategy=NoneRetryStrategy()).data
    if isinstance(answer, dict | list | str):
        release()
        yield json.loads(answer) if isinstance(answer, str) else answer
        return
    try:
        if hasattr(answer, "events"):
            yield from (json.loads(event.data) for event in answer.events() if event.data != "[DONE]")
        elif "text/event-stream" in answer.headers.get(
            "content-type", ""
        ):  # with a charset, which the SDK minds
            lines = (line[5:].strip() for line in answer.iter_lines() if line.startswith(b"data:"))
            yield from (json.loads(line) for line in lines if line != b"[DONE]")
        else:
            yield json.loads(answer.content)
    finally:
        answer.close()


def _watch(session: Any) -> None:
    """Let each connection of the session tell the call that uses it."""
    for adapter in session.adapters.values():
        manager = adapter.poolmanager
        manager.pool_classes_by_scheme = {
            scheme: _watched(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
        }


def _watched(pool: Any) -> Any:
    def request(self: Any, *arguments: Any, **options: Any) -> Any:
        call = getattr(_calls, "current", None)
        if call is not None:
            call.connected(self)
        return kind.request(self, *arguments, **options)

    kind = pool.ConnectionCls
    connection = type(kind.__name__, (kind,), {"request": request})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})

"""A small HTTP server on loopback that plays a model's service: scripted replies, streams that can be cut or held."""

import json
import socket
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

__all__ = ["Request", "WireServer", "sse"]

WAIT = 20.0
"""Seconds after which a test that waits for the other side gives up."""


def sse(*events: Any, event: str | None = None) -> bytes:
    """Server-sent events, one for each argument: JSON, or text as it is (``"[DONE]"``)."""
    name = f"event: {event}\n" if event else ""
    datas = [item if isinstance(item, str) else json.dumps(item) for item in events]
    return "".join(f"{name}data: {data}\n\n" for data in datas).encode()


@dataclass(frozen=True)
class Request:
    """What the server was asked. Header names are in lower case; `json` is None if the body isn't JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True)
class _Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] = ()
    streamed: bool = False
    end: Literal["whole", "cut", "hold", "drop"] = "whole"


class WireServer:
    """Answers each request with the next scripted reply, and keeps what it was asked in `requests`.

    ``with WireServer() as server:`` runs it in threads of its own. A request beyond the script gets status 400,
    which no client tries again.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.asked = threading.Event()
        """Set when a request has come."""
        self.hung_up = threading.Event()
        """Set when a client closed a connection whose reply was held (`stream(hold=True)`, `hang`)."""
        self._script: deque[_Reply] = deque()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.wire = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def reply(
        self,
        *,
        status: int = 200,
        json: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A whole reply: JSON, or a body as it is (give its Content-Type in `headers`)."""
        kind = {} if body is not None else {"Content-Type": "application/json"}
        return self._add(
            _Reply(status, {**kind, **(headers or {})}, (body if body is not None else _dump(json),))
        )

    def stream(
        self,
        chunks: Iterable[bytes],
        *,
        cut: bool = False,
        hold: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A reply in chunks. `cut` drops the connection after the last; `hold` waits till the client hangs up."""
        end: Literal["whole", "cut", "hold"] = "cut" if cut else "hold" if hold else "whole"
        kind = {"Content-Type": "text/event-stream", **(headers or {})}
        return self._add(_Reply(200, kind, tuple(chunks), streamed=True, end=end))

    def hang(self) -> Self:
        """No reply at all, until the client hangs up."""
        return self._add(_Reply(end="hold"))

    def drop(self) -> Self:
        """The connection is closed without a reply."""
        return self._add(_Reply(end="drop"))

    def _add(self, reply: _Reply) -> Self:
        self._script.append(reply)
        return self

    def _next(self, request: Request, connection: socket.socket) -> _Reply:
        with self._lock:
            self.requests.append(request)
            self.asked.set()
            self._open.add(connection)
            if self._script:
                return self._script.popleft()
        missing = {"error": {"message": f"the test has no reply for request {len(self.requests)}"}}
        return _Reply(400, {"Content-Type": "application/json"}, (_dump(missing),))

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        with self._lock:
            left = list(self._open)
        for connection in left:
            _hang_up(connection)
        self._http.server_close()
        self._thread.join(WAIT)


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # server_close() then waits for them
    wire: WireServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.wire._next(Request(self.command, self.path, headers, body), self.connection)
        if reply.chunks or reply.streamed:
            self._send(reply)
        if reply.end == "hold":
            self._wait_for_hang_up()
        if reply.end != "whole":
            self.close_connection = True
            _hang_up(self.connection)

    do_GET = do_POST = _answer  # noqa: N815 - the names that http.server looks for

    def _send(self, reply: _Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if not reply.streamed:
            self.send_header("Content-Length", str(sum(map(len, reply.chunks))))
            self.end_headers()
            self.wfile.write(b"".join(reply.chunks))
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in reply.chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if reply.end == "whole":
            self.wfile.write(b"0\r\n\r\n")

    def _wait_for_hang_up(self) -> None:
        self.connection.settimeout(WAIT)
        try:
            while self.connection.recv(4096):
                pass
        except TimeoutError:
            return
        except OSError:
            pass  # reset: hung up too
        self.server.wire.hung_up.set()

    def finish(self) -> None:
        self.server.wire._forget(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing."""


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # the client was first
        connection.shutdown(socket.SHUT_RDWR)

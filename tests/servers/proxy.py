"""A loopback proxy in front of a server: it counts round trips, and can cut connections at a chosen moment."""

import contextlib
import socket
import threading
import time
from pathlib import Path

_CHUNK = 1 << 16


class Proxy:
    """Listens on a loopback port and passes everything on to a Unix socket or to another port.

    ``turns`` counts how often a client began to speak after the server had. ``delay`` holds back everything that goes
    to the server by so many seconds, as a network would.
    """

    def __init__(self, target: Path | tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.turns = 0
        self.delay = 0.0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._cut_answers = 0
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next_answer(self, count: int = 1) -> None:
        """The next answers are lost, with their connections: what was asked for was done."""
        with self._lock:
            self._cut_answers = count

    def cut_all(self) -> None:
        """Break all connections that there are."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            _break(one)

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self.cut_all()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            state = {"server spoke": True}
            for pump in (self._to_server, self._to_client):
                threading.Thread(target=pump, args=(client, server, state), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, tuple):
            return socket.create_connection(self._target)
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._target))
        return server

    def _to_server(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                with self._lock:
                    self.turns += state["server spoke"]
                    state["server spoke"] = False
                if self.delay:
                    time.sleep(self.delay)
                    with contextlib.suppress(BlockingIOError):  # what came meanwhile was on its way as well
                        data += client.recv(_CHUNK, socket.MSG_DONTWAIT)
                server.sendall(data)
        self._end(client, server)

    def _to_client(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                with self._lock:
                    state["server spoke"] = True
                    cut = self._cut_answers > 0
                    self._cut_answers -= cut
                if cut:
                    break
                client.sendall(data)
        self._end(client, server)

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            self._sockets -= {client, server}
        _break(client)
        _break(server)


def _break(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

"""A pooler in transaction mode, as PgBouncer is one, for tests: every transaction of a client gets the next server
connection, which forgets its session (`DISCARD ALL`) before another one gets it.

Stricter than PgBouncer, which leaves what a session has to whoever comes next. It speaks just enough of PostgreSQL's
protocol (version 3) for that, and asks for no password.
"""

import contextlib
import queue
import select
import socket
import struct
import threading
from pathlib import Path

_STARTUP, _SSL, _GSS = 196608, 80877103, 80877104
_PARAMETERS = {
    "server_version": "18.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
}


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


class _Stream:
    """Whole messages from a socket."""

    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self._data = b""

    def messages(self) -> list[tuple[bytes, bytes]]:
        """What has come, as kinds and whole messages; waits for something. EOFError at the end."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._data += data
        found: list[tuple[bytes, bytes]] = []
        while len(self._data) >= 5:
            (length,) = struct.unpack_from("!i", self._data, 1)
            if len(self._data) < length + 1:
                break
            found.append((self._data[:1], self._data[: length + 1]))
            self._data = self._data[length + 1 :]
        return found

    def startup(self) -> int:
        """The code of a startup packet."""
        while len(self._data) < 4 or len(self._data) < struct.unpack_from("!i", self._data)[0]:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._data += data
        length, code = struct.unpack_from("!ii", self._data)
        self._data = self._data[length:]
        return int(code)

    def until_ready(self) -> None:
        while True:
            for kind, message in self.messages():
                if kind == b"E":
                    raise RuntimeError(message[5:].decode(errors="replace"))
                if kind == b"Z":
                    return


class Pooler:
    """Listens on a loopback port, with so many connections to the server behind it."""

    def __init__(self, server: Path, database: str, connections: int = 3, *, user: str = "postgres") -> None:
        self._user = user
        self._free: queue.SimpleQueue[_Stream] = queue.SimpleQueue()
        self._all: list[socket.socket] = []
        for _ in range(connections):
            self._free.put(self._connect(server, database))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.transactions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Pooler":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in self._all:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _connect(self, server: Path, database: str) -> _Stream:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(server))
        self._all.append(connection)
        options = b"".join(
            part.encode() + b"\0"
            for part in ("user", self._user, "database", database, "client_encoding", "utf8")
        )
        connection.sendall(struct.pack("!ii", len(options) + 9, _STARTUP) + options + b"\0")
        stream = _Stream(connection)
        stream.until_ready()
        return stream

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._all.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        stream = _Stream(client)
        with contextlib.suppress(OSError, EOFError):
            while (code := stream.startup()) in (_SSL, _GSS):
                client.sendall(b"N")
            if code == _STARTUP:
                client.sendall(_message(b"R", struct.pack("!i", 0)))
                for name, value in _PARAMETERS.items():
                    client.sendall(_message(b"S", f"{name}\0{value}\0".encode()))
                client.sendall(_message(b"K", struct.pack("!ii", 1, 1)) + _message(b"Z", b"I"))
                while True:
                    asked = stream.messages()
                    if any(kind == b"X" for kind, _ in asked):
                        break
                    if asked:
                        self._transaction(stream, asked)
        client.close()

    def _transaction(self, client: _Stream, asked: list[tuple[bytes, bytes]]) -> None:
        server = self._free.get()
        self.transactions += 1
        try:
            waiting = _pass_on(asked, server)
            idle = False
            while waiting or not idle:
                ready, _, _ = select.select([client.socket, server.socket], [], [])
                if client.socket in ready:
                    waiting += _pass_on(client.messages(), server)
                if server.socket in ready:
                    for kind, message in server.messages():
                        client.socket.sendall(message)
                        if kind == b"Z":
                            waiting -= 1
                            idle = message[5:] == b"I"
        finally:
            server.socket.sendall(_message(b"Q", b"ROLLBACK\0"))
            server.until_ready()
            server.socket.sendall(_message(b"Q", b"DISCARD ALL\0"))
            server.until_ready()
            self._free.put(server)


def _pass_on(messages: list[tuple[bytes, bytes]], server: _Stream) -> int:
    """How many answers of the kind "ready" they will have."""
    server.socket.sendall(b"".join(message for _, message in messages))
    return sum(kind in (b"S", b"Q") for kind, _ in messages)

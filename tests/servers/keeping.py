"""One server for all processes of a run.

The test processes of one run share a server. A keeper process runs it and stops it when the last of them is gone,
however it ended.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar


def in_memory() -> Path | None:
    """Where files are quickest: a file system in memory, if there is one with room for a run."""
    memory = Path("/dev/shm")
    with suppress(OSError):
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
            return memory
    return None


def servers_folder() -> Path:
    """Not where a test is: a socket's path has 107 bytes."""
    return in_memory() or Path("/tmp")


class Server(Protocol):
    """What a keeper keeps."""

    folder: Path
    crash: signal.Signals
    """What ends it at once."""

    def start(self) -> None: ...
    def stop(self, how: int = ...) -> None: ...


def wait_until_ready(process: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
    """Until the server serves; what it wrote is told if it ends or takes a minute."""
    deadline = time.monotonic() + 60
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.02)


T = TypeVar("T", bound=Server)


@contextmanager
def own(prefix: str, make: Callable[[Path], T]) -> Iterator[T]:
    """A server of one test's own, which may kill it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=servers_folder()))
    server = make(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop(server.crash)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shared(folder: Path, module: str) -> Iterator[Path]:
    """The folder of the server that this module keeps, started by whoever comes first."""
    folder.mkdir(mode=0o755, exist_ok=True)
    users = folder / "users"
    users.mkdir(exist_ok=True)
    mine = users / str(os.getpid())
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mine.touch()
        if not (folder / "up").exists():
            _start_keeper(folder, module)
    try:
        yield folder
    finally:
        mine.unlink(missing_ok=True)


def _start_keeper(folder: Path, module: str) -> None:
    root = Path(__file__).parent.parent.parent
    keeper = subprocess.Popen(
        [sys.executable, "-m", module, folder],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    with keeper.stdout as said:
        line = said.readline()
    if line != b"up\n":
        raise RuntimeError(f"{module} did not start: {line.decode()}")
    keeper.returncode = 0  # it outlives this process, which doesn't wait for it


def keep(server: Server) -> None:
    """Run the server until nobody uses it any more."""
    folder = server.folder
    try:
        server.start()
        (folder / "up").touch()
        os.write(1, b"up\n")
        while True:
            time.sleep(0.2)
            with (folder / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not any(_alive(int(user.name)) for user in (folder / "users").iterdir()):
                    (folder / "up").unlink()
                    break
    except Exception as error:
        os.write(1, f"{error}\n".encode())
    finally:
        server.stop(server.crash)
        shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True

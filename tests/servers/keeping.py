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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Server(Protocol):
    """What a keeper keeps."""

    folder: Path

    def start(self) -> None: ...
    def stop(self, how: int = ...) -> None: ...


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
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True

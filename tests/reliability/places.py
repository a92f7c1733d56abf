"""Where the crash tests keep threads and memories: a file of SQLite's, a database on a real server, or on the double of
an Oracle server, which is in a real one."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.memory.backends import SQLiteSyncCheckpointer
from holdfast.memory.sync import SyncCheckpointer
from tests.reliability.invariants import integrity, orphans, orphans_of
from tests.servers.oracle import Server

SERVERS = ("postgres", "mariadb", "oracle")


def everywhere(short: str = "sqlite postgres mariadb") -> pytest.MarkDecorator:
    """Run a test with `places` on each; where it is not among the ``short`` ones, it is a long test."""
    chosen = [
        name if name in short.split() else pytest.param(name, marks=pytest.mark.long)
        for name in ("sqlite", *SERVERS)
    ]
    return pytest.mark.parametrize("places", chosen, indirect=True)


@dataclass(frozen=True)
class Place:
    """One of them. ``path``: a file of its own beside it, for what the tools do; ``server``: ``None`` for a file."""

    path: Path
    server: Server | None = None

    @property
    def url(self) -> str:
        """The address that a child process opens."""
        return f"sqlite:{self.path}" if self.server is None else self.server.url

    @property
    def arguments(self) -> dict[str, Any]:
        """How a child is told of it."""
        return {"path": str(self.path), "url": self.url}

    def blocking(self) -> SyncCheckpointer:
        return (
            SQLiteSyncCheckpointer(self.path)
            if self.server is None
            else self.server.blocking(self.server.url)
        )

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement past Holdfast."""
        if self.server is not None:
            return self.server.sql(statement)
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def complaints(self) -> Iterator[str]:
        """Damage, and rows that nothing needs."""
        if self.server is not None:
            yield from orphans_of(self.server.sql)
            return
        if (text := integrity(self.path)) != "ok":
            yield f"integrity_check: {text}"
        yield from orphans(self.path)


class Places:
    """Places of one kind. On a server there is one at a time: the next is the same, emptied."""

    def __init__(self, folder: Path, server: Server | None) -> None:
        self._folder = folder
        self._server = server

    def new(self, name: str) -> Place:
        """An empty one."""
        if self._server is not None:
            self._server.empty()
        return Place(self._folder / f"{name}.db", self._server)

    def like(self, base: Place, name: str, prepare: Callable[[Place], None]) -> Place:
        """One with what ``prepare`` put into ``base``: a file is copied; on a server it is done once more."""
        made = self.new(name)
        if self._server is None:
            made.path.write_bytes(base.path.read_bytes())
        else:
            prepare(made)
        return made

"""Opening the database that a command works on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.failures import Failure
from holdfast.cli.output import Output
from holdfast.connection import chroma_path, connect, sqlite_path
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.store import BaseStore

DEFAULT_URL = "sqlite:./holdfast.db"


@dataclass(frozen=True)
class Session:
    """What a command gets: the threads in the scope that was asked for, the store, and where to print."""

    checkpointer: BaseCheckpointer
    store: BaseStore
    out: Output
    url: str
    file: Path | None
    """The SQLite file, if it is one."""


@asynccontextmanager
async def open_session(url: str, scope: str | None, out: Output, *, create: bool) -> AsyncIterator[Session]:
    """Unless ``create``, a database file that does not exist is a `Failure` and stays away."""
    must_be_there(url, create=create)
    # A reading command leaves a file of another program as it is.
    async with connect(url, auto_create_table=create) as connection:
        checkpointer = connection.checkpointer
        if scope is not None:
            checkpointer = checkpointer.scoped(scope)
        yield Session(checkpointer, connection.store, out, url, sqlite_file(url))


def must_be_there(url: str, *, create: bool) -> None:
    """A `Failure` if the URL names a file or a directory that does not exist, and ``create`` does not say otherwise."""
    place: Path | None
    if url.startswith("chroma:"):
        path = chroma_path(url)
        place = None if path == ":memory:" else Path(path)
    else:
        place = sqlite_file(url)
    if place is not None and not create and not place.exists():
        raise Failure(f"no database at {place}: name yours with --db URL or in HOLDFAST_DB")


def sqlite_file(url: str) -> Path | None:
    if not url.startswith("sqlite:") and (not url.endswith(".db") or "://" in url):
        return None
    path = sqlite_path(url)
    return None if path == ":memory:" else Path(path)

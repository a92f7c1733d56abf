"""Runs plans on a SQLite file: in the caller's thread, or in one hop to a worker.

Writers take turns on one connection, so that within a process nobody waits in SQLite's busy loop; readers have
their own connections and, in WAL mode, wait for nobody. Other processes are waited for up to ``busy_seconds``.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from holdfast.core.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    StorageFull,
    Unavailable,
)
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.plan import GUARD, LAST, Batch, Plan, PlanFactory, Statement, fetch
from holdfast.memory.backends.sql.schema import Schema, migrate
from holdfast.memory.backends.workers import Workers

T = TypeVar("T")

Durability = Literal["full", "normal"]

_UNAVAILABLE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_IDLE_READERS = 4
_SCRUB_MS = 2000
_WAL_PAUSE = 0.005
_PAGE_BYTES = 1024  # a commit logs whole pages: small ones keep a save and a fork small


class SqliteEngine:
    """Connections to one SQLite file, and the blocking way to run a plan on them."""

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        durability: Durability = "full",
        busy_seconds: float = 30.0,
        auto_create_table: bool = True,
        max_pages: int | None = None,
    ) -> None:
        if durability not in ("full", "normal"):
            raise InvalidInput(f'durability must be "full" or "normal", got {durability!r}')
        if not isinstance(path, str | os.PathLike):
            raise InvalidInput(f"path must be a file path or ':memory:', got {type(path).__name__}")
        self.path = os.fspath(path)
        self.in_memory = self.path == ":memory:"
        self._durability = durability
        self._busy_seconds = busy_seconds
        self._auto_create = auto_create_table
        self._max_pages = max_pages
        self._closed = False
        self._start()

    def _start(self) -> None:
        """The state of one process: a forked child begins anew and never touches its parent's connections."""
        self._process = _process[0]
        self._turn = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._ready: set[tuple[str, str]] = set()
        self._latest: Schema | None = None  # one that is ready

    def using(self, schema: Schema) -> BoundEngine:
        """This engine for plans that use these tables: before the first one, they are seen to."""
        return BoundEngine(self, schema)

    # ── running plans ─────────────────────────────────────────────────────────────────────────────

    def read(self, plan: PlanFactory[T], schema: Schema) -> Awaitable[T]:
        return _done(self.run(plan, schema, write=False))

    def write(self, plan: PlanFactory[T], schema: Schema) -> Awaitable[T]:
        return _done(self.run(plan, schema, write=True))

    def later(self, plan: PlanFactory[Any], schema: Schema) -> None:
        with contextlib.suppress(HoldfastError):
            self.run(plan, schema, write=True)

    def run(self, plan: PlanFactory[T], schema: Schema, *, write: bool) -> T:
        """Run a plan on these tables in the calling thread, in one transaction."""
        self._check_process()
        if write or self.in_memory:
            return self._write(plan(), schema)
        try:
            return self._read(plan, schema)
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def _write(self, plan: Plan[T], schema: Schema, first: Batch | None = None) -> T:
        try:
            with self._turn:
                return _transact(self._writing(schema), plan, "BEGIN IMMEDIATE", first)
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def _read(self, plan: PlanFactory[T], schema: Schema) -> T:
        if self._closed:
            raise Closed(f"{self.path} is closed")
        if schema.key not in self._ready:
            with self._turn:
                self._writing(schema)
        connection = self._take_reader()
        try:
            return _read(connection, plan())
        finally:
            self._give_back(connection)

    async def scrub(self) -> None:
        self.scrub_now()

    def scrub_now(self) -> None:
        """Fold the write-ahead log into the file and empty it: it still has what was deleted since.

        Readers that go on for seconds prevent it; the log is then emptied when it is next folded.
        """
        if self.in_memory:
            return
        try:
            with self._turn:
                connection = self._writing()
                # It keeps writers waiting as long as it waits for readers: not for long.
                connection.execute(f"PRAGMA busy_timeout = {_SCRUB_MS}")
                try:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def interrupt(self) -> None:
        """Stop what runs now, from another thread; it raises `Unavailable`."""
        if self._writer is not None:
            self._writer.interrupt()

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        """Close all connections. The last one to close a file folds its write-ahead log into it."""
        if self._closed:
            return
        self._closed = True
        if _process[0] != self._process:
            return
        with self._turn:
            while self._readers:
                self._readers.pop().close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    # ── connections ───────────────────────────────────────────────────────────────────────────────

    def _check_process(self) -> None:
        if _process[0] != self._process:
            # Closing a connection that a parent process opened would release that process's locks: keep it, unused.
            _inherited.append((self._writer, self._readers))
            self._start()

    def _writing(self, schema: Schema | None = None) -> sqlite3.Connection:
        if self._closed:  # by another thread, while this one waited for its turn
            raise Closed(f"{self.path} is closed")
        if self._writer is None:
            self._writer = self._connect()
        if schema is not None and schema is not self._latest:
            if schema.key not in self._ready:
                self._prepare(self._writer, schema)
                self._ready.add(schema.key)
            self._latest = schema
        return self._writer

    def _prepare(self, connection: sqlite3.Connection, schema: Schema) -> None:
        def existing() -> Plan[set[str]]:
            found = yield from fetch("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {name for (name,) in found}

        # Reads first: a file that is up to date is opened without the write lock.
        try:
            _transact(connection, migrate(schema, existing, create=False), "BEGIN")
        except HoldfastError:
            if not self._auto_create:
                raise
            _transact(connection, migrate(schema, existing), "BEGIN IMMEDIATE")

    def _take_reader(self) -> sqlite3.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._readers.append(connection)
        # Looked at afterwards: a close that comes in between has either seen the connection or is seen here.
        if self._closed or len(self._readers) > _IDLE_READERS:
            with contextlib.suppress(IndexError):
                self._readers.pop().close()

    def _connect(self) -> sqlite3.Connection:
        if not self.in_memory and not (parent := Path(self.path).resolve().parent).is_dir():
            raise Unavailable(f"can't open {self.path}: the folder {parent} does not exist")
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            if not self.in_memory:
                self._use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {self._durability}")
            # What is deleted is overwritten: some builds of SQLite do so anyway, all should. Saves delete nothing.
            connection.execute("PRAGMA secure_delete = ON")
            if self._max_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {int(self._max_pages)}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Once for a file: processes that open a new one together meet here, where SQLite itself doesn't wait."""
        deadline = time.monotonic() + self._busy_seconds
        while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # only a file that is empty takes it
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_WAL_PAUSE)


class ThreadedSqliteEngine(SqliteEngine):
    """The same for an event loop: a plan is one hop to a worker thread, whatever its number of statements."""

    def _start(self) -> None:
        super()._start()
        self._workers = Workers(f"holdfast {self.path}")

    def read(self, plan: PlanFactory[T], schema: Schema) -> Awaitable[T]:
        self._check_process()
        return self._workers.call(lambda: self.run(plan, schema, write=False), write=self.in_memory)

    def write(self, plan: PlanFactory[T], schema: Schema) -> Awaitable[T]:
        self._check_process()
        # The first batch needs no I/O: it is made here, where what it is made of is at hand.
        begun = plan()
        return self._workers.call(partial(self._write, begun, schema, next(begun)), write=True)

    def later(self, plan: PlanFactory[Any], schema: Schema) -> None:
        self._check_process()
        self._workers.post(lambda: SqliteEngine.later(self, plan, schema))

    async def scrub(self) -> None:
        self._check_process()
        await self._workers.call(self.scrub_now, write=True)

    async def close(self) -> None:
        if not self._closed:
            self._check_process()
            workers = self._workers
            await workers.call(self.close_now, write=True)
            workers.stop()


async def _done(value: T) -> T:
    return value


_inherited: list[Any] = []
_process = [0]  # changes in a forked child


def _after_fork() -> None:
    _process[0] += 1


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork)


def _read(connection: sqlite3.Connection, plan: Plan[T]) -> T:
    """A plan that only reads. If it says that one statement is all, that one needs no transaction around it."""
    try:
        first = next(plan)
        if len(first) == 1 and first[0].mark & LAST:
            first = plan.send(_run_batch(connection.cursor(), first))
    except StopIteration as stop:
        value: T = stop.value
        return value
    return _transact(connection, plan, "BEGIN", first)


def _transact(connection: sqlite3.Connection, plan: Plan[T], begin: str, first: Batch | None = None) -> T:
    cursor = connection.cursor()
    cursor.execute(begin)
    try:
        try:
            batch = next(plan) if first is None else first
            while True:
                batch = plan.send(_run_batch(cursor, batch))
        except StopIteration as stop:
            value: T = stop.value
        cursor.execute("COMMIT")
    except BaseException:
        # A failed COMMIT or a full disk may have ended the transaction already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return value


def _run_batch(cursor: sqlite3.Cursor, batch: Sequence[Statement]) -> list[Any]:
    results: list[Any] = []
    execute = cursor.execute
    for kind, sql, params, mark in batch:
        if kind == "change":
            changed = execute(sql, params).rowcount
            results.append(changed)
            if not changed and mark & GUARD:
                break
        elif kind == "many":
            results.append(cursor.executemany(sql, params).rowcount)
        else:
            try:
                results.append(execute(sql, params).fetchall())
            except sqlite3.OperationalError as error:
                results.append(_fetch_damaged(cursor, sql, params, error))
    return results


def _fetch_damaged(
    cursor: sqlite3.Cursor, sql: str, params: Sequence[Any], error: sqlite3.OperationalError
) -> list[Any]:
    """Rows with a text that is not UTF-8, which comes as bytes: who reads the row knows its place, and reports it."""
    if not str(error).startswith("Could not decode to UTF-8"):
        raise error
    cursor.connection.text_factory = _text_or_bytes
    try:
        return cursor.execute(sql, params).fetchall()
    finally:
        cursor.connection.text_factory = str


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _translated(error: sqlite3.Error, path: str) -> HoldfastError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(f"{path}: {error}; nothing was written, what was stored stays readable")
    if code in _DAMAGED:
        return Corrupt(f"{path} is damaged or is not a SQLite database: {error}", place=path)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return Conflict(f"{path}: another writer was first: {error}")
    if code == sqlite3.SQLITE_READONLY:
        return Unavailable(f"{path} can't be written: {error}")
    if code in _UNAVAILABLE or isinstance(error, sqlite3.OperationalError):
        return Unavailable(f"{path} is not available: {error}")
    return HoldfastError(f"{path}: {error}")

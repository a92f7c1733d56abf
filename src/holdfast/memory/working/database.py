"""Working memory in a database: one that Holdfast opens by its URL, or a table behind a connection of your own."""

import re
import sys
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, Final

from holdfast.core.errors import InvalidInput
from holdfast.memory import validate
from holdfast.memory.store import BaseStore
from holdfast.memory.working.managers import (
    MemoryManager,
    MemoryRecord,
    StoreMemoryManager,
    conversation_of,
    memory_of,
)
from holdfast.memory.working.turns import one_at_a_time

__all__ = ["DatabaseMemoryManager"]

_TABLE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)
_MARKS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}


class DatabaseMemoryManager(MemoryManager):
    """Keeps memories in a database. `db_connection` is one of

    - a URL as `holdfast.connect` takes it (``sqlite:notes.db``), or a Holdfast store: the same as a
      `StoreMemoryManager` on that store;
    - a connection of an asynchronous driver with ``async with connection.cursor()`` (aiosqlite, aiomysql, psycopg, ...)
      and a table `table` with the columns ``conversation_id`` (its key), ``memory`` and ``updated_at``.

    On a connection of yours each call ends its transaction, unless ``commit=False``. `paramstyle` is DB-API's name for
    how parameters are marked; by default it is what the driver's module says, else ``%s``. Turns of several processes
    are ordered with a URL or a store, not with a connection.
    """

    def __init__(
        self,
        db_connection: Any,
        *,
        table: str = "conversation_memory",
        paramstyle: str | None = None,
        commit: bool = True,
    ) -> None:
        self._opened: Any = None
        self._rows: _Rows | None = None
        self._kept: StoreMemoryManager | None = None
        self._scope: tuple[Hashable, ...] = ("database", table)
        if isinstance(db_connection, str):
            from holdfast import connect

            self._opened = connect(db_connection)
            self._kept = StoreMemoryManager(self._opened.store)
            self._scope = ("database", db_connection)
        elif isinstance(db_connection, BaseStore):
            self._kept = StoreMemoryManager(db_connection)
            self._scope = self._kept.turn_scope
        else:
            self._rows = _Rows(db_connection, table, paramstyle, commit)

    @property
    def turn_scope(self) -> tuple[Hashable, ...]:
        return self._scope

    @property
    def compares_versions(self) -> bool:
        return self._kept is not None and self._kept.compares_versions

    async def store(self, data: Mapping[str, Any]) -> None:
        if self._kept is not None:
            await self._kept.store(data)
        elif self._rows is not None and (conversation_id := conversation_of(data)):
            await self._rows.write(conversation_id, memory_of(data))

    async def retrieve(self, query: Mapping[str, Any]) -> list[MemoryRecord] | None:
        if self._kept is not None:
            return await self._kept.retrieve(query)
        conversation_id = conversation_of(query)
        if self._rows is None or not conversation_id:
            return None
        memory = await self._rows.read(conversation_id)
        return None if memory is None else [MemoryRecord(memory)]

    async def aclose(self) -> None:
        """Close what was opened by a URL. A connection or store of yours stays open."""
        if self._opened is not None:
            await self._opened.close()


class _Rows:
    """The table behind a connection. One call at a time: a connection has one transaction."""

    def __init__(self, connection: Any, table: str, paramstyle: str | None, commit: bool) -> None:
        if not callable(getattr(connection, "cursor", None)):
            raise InvalidInput(
                "db_connection must be a URL such as 'sqlite:notes.db', a Holdfast store, or a connection with"
                f" async cursor(), got {type(connection).__name__}"
            )
        if not _TABLE.fullmatch(validate.identifier(table, "table")):
            raise InvalidInput(f"table must be the name of a table, got {table!r}")
        style = paramstyle or _style_of(connection)
        if style not in {*_MARKS, "numeric", "named"}:
            raise InvalidInput(f"paramstyle must be one that DB-API names, got {paramstyle!r}")
        self._connection = connection
        self._table = table
        self._style = style
        self._commit = commit

    async def write(self, conversation_id: str, memory: str) -> None:
        # "Insert or update" has another form in every database; these three statements have one.
        (text, key), change = self._bound(memory, conversation_id)
        (name,), lookup = self._bound(conversation_id)
        (first, second), new = self._bound(conversation_id, memory)
        async with self._cursor() as cursor:
            await _done(
                cursor.execute(
                    f"UPDATE {self._table} SET memory = {text}, updated_at = CURRENT_TIMESTAMP"  # noqa: S608 - checked
                    f" WHERE conversation_id = {key}",
                    change,
                )
            )
            if cursor.rowcount > 0:
                return
            # Some drivers count only the rows that are different now, and some don't count.
            await _done(
                cursor.execute(f"SELECT 1 FROM {self._table} WHERE conversation_id = {name}", lookup)  # noqa: S608 - checked
            )
            if await _done(cursor.fetchone()) is None:
                await _done(
                    cursor.execute(
                        f"INSERT INTO {self._table} (conversation_id, memory, updated_at)"  # noqa: S608 - checked
                        f" VALUES ({first}, {second}, CURRENT_TIMESTAMP)",
                        new,
                    )
                )

    async def read(self, conversation_id: str) -> str | None:
        (name,), lookup = self._bound(conversation_id)
        async with self._cursor() as cursor:
            await _done(
                cursor.execute(f"SELECT memory FROM {self._table} WHERE conversation_id = {name}", lookup)  # noqa: S608 - checked
            )
            row = await _done(cursor.fetchone())
        if row is None:
            return None
        found = row["memory"] if isinstance(row, Mapping) else row[0]
        return found.decode() if isinstance(found, bytes) else found

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[Any]:
        async with one_at_a_time(("connection", id(self._connection))):
            try:
                async with self._connection.cursor() as cursor:
                    yield cursor
            except BaseException:
                await self._end("rollback")
                raise
            # A read too: an open transaction may go on seeing what others have since changed.
            await self._end("commit")

    async def _end(self, how: str) -> None:
        end = getattr(self._connection, how, None)
        if self._commit and callable(end):
            await _done(end())

    def _bound(self, *values: str) -> tuple[list[str], Any]:
        """The marks for these parameters, and the parameters as the driver takes them."""
        if self._style == "named":
            named = {f"p{place}": value for place, value in enumerate(values, 1)}
            return [f":{name}" for name in named], named
        if self._style == "numeric":
            return [f":{place}" for place in range(1, len(values) + 1)], values
        return [_MARKS[self._style]] * len(values), values


def _style_of(connection: object) -> str:
    driver = sys.modules.get(type(connection).__module__.partition(".")[0])
    found = getattr(driver, "paramstyle", None)
    return found if isinstance(found, str) else "format"


async def _done(result: Any) -> Any:
    return await result if isawaitable(result) else result

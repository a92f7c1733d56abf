"""SQLite: one file, no server. A dialect, FTS5 for the words, and constructors."""

import os
from collections.abc import Sequence
from typing import Any

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.memory.backends.sql.dialect import Dialect, Tables
from holdfast.memory.backends.sql.plan import Statement, change, many, rows
from holdfast.memory.backends.sql.schema import checkpoint_schema
from holdfast.memory.backends.sql.text_index import IndexRow
from holdfast.memory.backends.sqlite_engine import Durability, SqliteEngine, ThreadedSqliteEngine
from holdfast.memory.sync import SyncCheckpointer

SQLITE = Dialect(
    name="sqlite",
    key="BLOB",
    id_text="TEXT",
    text="TEXT",
    number="INTEGER",
    binary="BLOB",
    row_number="INTEGER PRIMARY KEY",
    find="INSTR",
    substring="SUBSTR",
    greatest="MAX",
    joined="CAST(group_concat(body, char(10)) AS BLOB)",
    clustered=" WITHOUT ROWID",
    partial_indexes=True,
    bind_key=bytearray,  # for each parameter of another type, bytes among them, the driver looks for an adapter
)


class Fts5:
    """Words in an FTS5 table that knows only which row has which: no copy of the text, no positions.

    The words are our analyser's: the tokenizer only cuts at spaces. A word's apostrophe would be cut too, so it is
    written as ``_``, which no word has.
    """

    def ddl(self, words: str) -> tuple[str, ...]:
        options = "content='', detail=none, columnsize=0, tokenize=\"ascii tokenchars '_'\""
        return (
            f"CREATE VIRTUAL TABLE {words} USING fts5(terms, {options})",
            f"INSERT INTO {words} ({words}, rank) VALUES ('pgsz', 1000)",  # blocks that fit in a page of the file
        )

    def add(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(f"INSERT INTO {words} (rowid, terms) VALUES (?, ?)", _tokens(index_rows))

    def remove(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(
            f"INSERT INTO {words} ({words}, rowid, terms) VALUES ('delete', ?, ?)", _tokens(index_rows)
        )

    def match(self, words: str, scope: str, term: str, limit: int) -> Statement:
        return rows(
            f"SELECT rowid FROM {words} WHERE {words} MATCH ? ORDER BY rowid DESC LIMIT ?",
            *(f'"{_scope_word(scope)}" AND "{_word(term)}"', limit),
        )

    def clear(self, words: str) -> Statement:
        return change(f"INSERT INTO {words} ({words}) VALUES ('delete-all')")

    def compact(self, words: str) -> Statement:
        return change(f"INSERT INTO {words} ({words}) VALUES ('optimize')")


def _tokens(index_rows: Sequence[IndexRow]) -> list[tuple[int, str]]:
    return [(number, f"{_scope_word(scope)} {_word(terms)}") for number, scope, terms in index_rows]


def _word(terms: str) -> str:
    return terms.replace("'", "_").replace('"', "_")


def _scope_word(scope: str) -> str:
    """The scope as one more word of each row: what no text can contain."""
    return f"__{scope}"


def sqlite_tables(table_name: str) -> Tables:
    """The names of the checkpoint tables under that prefix, in SQLite's dialect."""
    return Tables(SQLITE, Fts5(), table_name)


def checkpoint_tables(engine: SqliteEngine, table_name: str) -> tuple[BoundEngine, Tables]:
    """The engine for the checkpoint tables under that prefix."""
    tables = sqlite_tables(table_name)
    return engine.using(checkpoint_schema(tables, tables.text.ddl(tables.words))), tables


class SQLiteCheckpointer(SqlCheckpointer):
    """Versioned threads in one SQLite file.

    ``durability="full"`` (the default): a save that returned survives a power cut. ``"normal"``: it survives the
    death of the process; a power cut may take the last ones. ``text_index=False`` does without `search`.
    An ``engine`` that is given is shared: it is closed with this object only if ``owns_engine`` says so.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        durability: Durability = "full",
        table_name: str = "holdfast",
        ttl_seconds: float | None = None,
        text_index: bool = True,
        auto_create_table: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        engine: SqliteEngine | None = None,
        owns_engine: bool = False,
    ) -> None:
        used = engine or ThreadedSqliteEngine(
            path, durability=durability, auto_create_table=auto_create_table
        )
        super().__init__(
            *checkpoint_tables(used, table_name),
            clock=clock,
            ttl_seconds=ttl_seconds,
            text_index=text_index,
            owns_engine=owns_engine or engine is None,
        )


class SQLiteSyncCheckpointer(SyncCheckpointer):
    """The blocking twin of :class:`SQLiteCheckpointer`: the same plans, no event loop, no thread."""

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        durability: Durability = "full",
        table_name: str = "holdfast",
        ttl_seconds: float | None = None,
        text_index: bool = True,
        auto_create_table: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        engine = SqliteEngine(path, durability=durability, auto_create_table=auto_create_table)
        super().__init__(
            SQLiteCheckpointer(
                table_name=table_name,
                ttl_seconds=ttl_seconds,
                text_index=text_index,
                clock=clock,
                engine=engine,
                owns_engine=True,
            )
        )


def sqlite_checkpointer(path: str | os.PathLike[str] = ":memory:", **options: Any) -> SQLiteCheckpointer:
    """A :class:`SQLiteCheckpointer`; see there for the options."""
    return SQLiteCheckpointer(path, **options)

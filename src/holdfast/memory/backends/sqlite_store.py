"""The Store contract in one SQLite file."""

import os

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.items_store import VECTOR_CACHE_BYTES, SqlStore
from holdfast.memory.backends.sql.schema import Schema, checkpoint_schema
from holdfast.memory.backends.sqlite import SQLITE, sqlite_tables
from holdfast.memory.backends.sqlite_engine import Durability, SqliteEngine, ThreadedSqliteEngine
from holdfast.memory.sync_store import SyncStore


class SQLiteStore(SqlStore):
    """Items in one SQLite file. Without ``dimension=`` there is no vector search.

    ``durability="full"`` (the default): a put that returned survives a power cut. ``"normal"``: it survives the
    death of the process; a power cut may take the last ones. ``table_name`` is the exact name of the items' table.
    An ``engine`` that is given is shared: it is closed with the store only if ``owns_engine`` says so.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        durability: Durability = "full",
        table_name: str = "holdfast_items",
        auto_create_table: bool = True,
        vector_cache_bytes: int = VECTOR_CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        engine: SqliteEngine | None = None,
        owns_engine: bool = False,
    ) -> None:
        tables = ItemTables(SQLITE, table_name)
        used = engine or ThreadedSqliteEngine(
            path, durability=durability, auto_create_table=auto_create_table
        )
        super().__init__(
            used.using(items_schema(tables)),
            tables,
            dimension=dimension,
            distance_metric=distance_metric,
            embedder=embedder,
            vector_cache_bytes=vector_cache_bytes,
            clock=clock,
            owns_engine=owns_engine or engine is None,
        )


class SQLiteSyncStore(SyncStore):
    """The blocking twin of :class:`SQLiteStore`: the same plans, no event loop, no thread."""

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        durability: Durability = "full",
        table_name: str = "holdfast_items",
        auto_create_table: bool = True,
        vector_cache_bytes: int = VECTOR_CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        engine: SqliteEngine | None = None,
    ) -> None:
        used = engine or SqliteEngine(path, durability=durability, auto_create_table=auto_create_table)
        super().__init__(
            SQLiteStore(
                dimension=dimension,
                distance_metric=distance_metric,
                embedder=embedder,
                table_name=table_name,
                vector_cache_bytes=vector_cache_bytes,
                clock=clock,
                engine=used,
                owns_engine=engine is None,
            )
        )


def sqlite_schemas(table_name: str, items_table: str) -> tuple[Schema, ...]:
    """The tables of a checkpointer, a saver and a store of these names."""
    tables = sqlite_tables(table_name)
    return (
        checkpoint_schema(tables, tables.text.ddl(tables.words)),
        items_schema(ItemTables(SQLITE, items_table)),
    )

"""The Store contract on MariaDB and MySQL."""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.mysql_engine import MYSQL, mysql_engine
from holdfast.memory.backends.sql.dialect import Dialect, Tables
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.items_store import VECTOR_CACHE_BYTES, SqlStore
from holdfast.memory.backends.sql.items_versions import Slots
from holdfast.memory.backends.sql.plan import FRESH, Statement, change, many, rows
from holdfast.memory.backends.sql.schema import Schema, checkpoint_schema
from holdfast.memory.backends.sql.server_engine import ServerEngine
from holdfast.memory.backends.sql.slots import EVERY_SLOT, SLOTS
from holdfast.memory.backends.sql.word_rows import WordRows
from holdfast.memory.sync_store import SyncStore


class AutoIncrementSlots(Slots):
    """Versions from an AUTO_INCREMENT column: each row that is inserted draws one, and is deleted again. The row of a
    slot keeps the newest."""

    def ddl(self, counters: str, items: str, dialect: Dialect) -> tuple[str, ...]:
        return (
            f"""CREATE TABLE {counters} (
            slot BIGINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL AUTO_INCREMENT, KEY versions (version))""",
            # A version that is written is behind those that are drawn.
            f"""INSERT INTO {counters} (slot, version) SELECT {SLOTS}, newest
            FROM (SELECT MAX(version) AS newest FROM {items}) v
            WHERE newest > 0 AND NOT EXISTS (SELECT 1 FROM {counters})""",
            f"""INSERT INTO {counters} (slot, version) SELECT slot, 0 FROM {EVERY_SLOT} every_slot
            WHERE NOT EXISTS (SELECT 1 FROM {counters} c WHERE c.slot < {SLOTS})""",
        )

    def take(self, counters: str, namespaces: Sequence[str], count: int) -> list[Statement]:
        locking = self.lock(counters, namespaces)
        if not count:
            return locking
        slots = self.slots(namespaces)
        first = self.spare(slots)
        drawn = (first, first + count)
        # A range would lock the row behind it too, which is another slot's: one row is looked up by itself.
        newest = f"SELECT version AS newest FROM {counters} WHERE slot = ?"
        drawn_rows, bounds = ("slot = ?", (first,)) if count == 1 else ("slot >= ? AND slot < ?", drawn)
        return [
            *locking,
            many(f"INSERT INTO {counters} (slot) VALUES (?)", [(slot,) for slot in range(*drawn)]),
            rows(f"SELECT version FROM {counters} WHERE slot >= ? AND slot < ? ORDER BY version", *drawn),
            change(
                f"UPDATE {counters} c JOIN ({newest}) n SET c.version = n.newest WHERE c.slot = ?",
                drawn[1] - 1,
                slots[0],
            ),
            change(f"DELETE FROM {counters} WHERE {drawn_rows}", *bounds),
        ]

    def taken(self, results: Sequence[Any], count: int) -> list[int]:
        return [version for (version,) in results[2]] if count else []

    def settle(self, counters: str, root: str) -> list[Statement]:
        # Of all slots: who has drawn a version has locked one until it is committed.
        query = f"SELECT slot FROM {counters} WHERE slot >= 0 ORDER BY slot LOCK IN SHARE MODE"
        return [Statement("rows", query, (), FRESH)]

    def newest(self, counters: str) -> Statement:
        return rows(f"SELECT MAX(version) FROM {counters}")


_SLOTS: Final = AutoIncrementSlots()


def mysql_items(table_name: str) -> ItemTables:
    """The names of a store's tables, in MySQL's dialect."""
    return ItemTables(MYSQL, table_name, _SLOTS)


def mysql_schemas(table_name: str, items_table: str) -> tuple[Schema, ...]:
    """The tables of a checkpointer, a saver and a store of these names."""
    tables = Tables(MYSQL, WordRows(MYSQL), table_name)
    return checkpoint_schema(tables, tables.text.ddl(tables.words)), items_schema(mysql_items(items_table))


class MySQLStore(SqlStore):
    """Items in MariaDB or MySQL. Without ``dimension=`` there is no vector search; with it, all vectors of a namespace
    are compared: there is no index over them.

    ``dsn`` is a URL, and overrides the parts. ``connection``: as for `MySQLCheckpointer`. ``table_name`` is the exact
    name of the items' table. An ``engine`` that is given is shared: it is closed with the store only if ``owns_engine``
    says so.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        table_name: str = "holdfast_items",
        vector_cache_bytes: int = VECTOR_CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        engine: ServerEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        tables = mysql_items(table_name)
        used = engine or mysql_engine(dsn, **connection)
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


class MySQLSyncStore(SyncStore):
    """The blocking twin of :class:`MySQLStore`: the same arguments and plans, no event loop."""

    def __init__(self, dsn: str | None = None, **options: Any) -> None:
        super().__init__(MySQLStore(dsn, **options, blocking=True))

"""The versioned saver on SQLite, and its blocking twin."""

import os

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.sql.saver import SqlCheckpointSaver
from holdfast.memory.backends.sqlite import checkpoint_tables
from holdfast.memory.backends.sqlite_engine import Durability, SqliteEngine, ThreadedSqliteEngine
from holdfast.memory.saver import SyncCheckpointSaver


class SQLiteCheckpointSaver(SqlCheckpointSaver):
    """Versioned dict checkpoints in one SQLite file."""

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        durability: Durability = "full",
        table_name: str = "holdfast",
        auto_create_table: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        engine: SqliteEngine | None = None,
        owns_engine: bool = False,
    ) -> None:
        used = engine or ThreadedSqliteEngine(
            path, durability=durability, auto_create_table=auto_create_table
        )
        super().__init__(
            *checkpoint_tables(used, table_name), clock=clock, owns_engine=owns_engine or engine is None
        )


class SQLiteSyncCheckpointSaver(SyncCheckpointSaver):
    """The blocking twin of :class:`SQLiteCheckpointSaver`: the same plans, no event loop, no thread."""

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        durability: Durability = "full",
        table_name: str = "holdfast",
        auto_create_table: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        engine = SqliteEngine(path, durability=durability, auto_create_table=auto_create_table)
        super().__init__(
            SQLiteCheckpointSaver(table_name=table_name, clock=clock, engine=engine, owns_engine=True)
        )

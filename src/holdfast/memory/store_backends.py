"""Doors to the stores. A backend is imported when its name is first used."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.memory.backends.chroma import ChromaStore
    from holdfast.memory.backends.memory_store import InMemoryStore
    from holdfast.memory.backends.mysql_store import MySQLStore, MySQLSyncStore
    from holdfast.memory.backends.oracle_store import OracleStore, OracleSyncStore
    from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
    from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore

__all__ = [
    "ChromaStore",
    "InMemoryStore",
    "MySQLStore",
    "MySQLSyncStore",
    "OracleStore",
    "OracleSyncStore",
    "PostgresStore",
    "PostgresSyncStore",
    "SQLiteStore",
    "SQLiteSyncStore",
]

__getattr__, __dir__ = doors(
    __name__,
    {
        "ChromaStore": "holdfast.memory.backends.chroma",
        "InMemoryStore": "holdfast.memory.backends.memory_store",
        "MySQLStore": "holdfast.memory.backends.mysql_store",
        "MySQLSyncStore": "holdfast.memory.backends.mysql_store",
        "OracleStore": "holdfast.memory.backends.oracle_store",
        "OracleSyncStore": "holdfast.memory.backends.oracle_store",
        "PostgresStore": "holdfast.memory.backends.postgres_store",
        "PostgresSyncStore": "holdfast.memory.backends.postgres_store",
        "SQLiteStore": "holdfast.memory.backends.sqlite_store",
        "SQLiteSyncStore": "holdfast.memory.backends.sqlite_store",
    },
)

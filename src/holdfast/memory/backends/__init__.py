"""Doors to the checkpointers. A backend is imported when its name is first used."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.memory.backends.documents import DocumentBackend
    from holdfast.memory.backends.memory import MemoryCheckpointer
    from holdfast.memory.backends.mysql import (
        MySQLBackend,
        MySQLCheckpointer,
        MySQLCheckpointSaver,
        MySQLSyncCheckpointer,
        MySQLSyncCheckpointSaver,
        mysql_checkpointer,
    )
    from holdfast.memory.backends.oracle import (
        OracleCheckpointer,
        OracleCheckpointSaver,
        OracleSyncCheckpointer,
        OracleSyncCheckpointSaver,
        oracle_checkpointer,
    )
    from holdfast.memory.backends.oracle_backend import OracleBackend, OracleSyncBackend
    from holdfast.memory.backends.postgres import (
        PostgreSQLBackend,
        PostgreSQLCheckpointer,
        PostgreSQLCheckpointSaver,
        PostgreSQLSyncCheckpointer,
        PostgreSQLSyncCheckpointSaver,
        postgresql_checkpointer,
    )
    from holdfast.memory.backends.sqlite import (
        SQLiteCheckpointer,
        SQLiteSyncCheckpointer,
        sqlite_checkpointer,
    )
    from holdfast.memory.backends.sqlite_saver import SQLiteCheckpointSaver, SQLiteSyncCheckpointSaver

__all__ = [
    "DocumentBackend",
    "MemoryCheckpointer",
    "MySQLBackend",
    "MySQLCheckpointSaver",
    "MySQLCheckpointer",
    "MySQLSyncCheckpointSaver",
    "MySQLSyncCheckpointer",
    "OracleBackend",
    "OracleCheckpointSaver",
    "OracleCheckpointer",
    "OracleSyncBackend",
    "OracleSyncCheckpointSaver",
    "OracleSyncCheckpointer",
    "PostgreSQLBackend",
    "PostgreSQLCheckpointSaver",
    "PostgreSQLCheckpointer",
    "PostgreSQLSyncCheckpointSaver",
    "PostgreSQLSyncCheckpointer",
    "SQLiteCheckpointSaver",
    "SQLiteCheckpointer",
    "SQLiteSyncCheckpointSaver",
    "SQLiteSyncCheckpointer",
    "mysql_checkpointer",
    "oracle_checkpointer",
    "postgresql_checkpointer",
    "sqlite_checkpointer",
]

__getattr__, __dir__ = doors(
    __name__,
    {
        "DocumentBackend": "holdfast.memory.backends.documents",
        "MySQLBackend": "holdfast.memory.backends.mysql",
        "MySQLCheckpointer": "holdfast.memory.backends.mysql",
        "MySQLCheckpointSaver": "holdfast.memory.backends.mysql",
        "MySQLSyncCheckpointer": "holdfast.memory.backends.mysql",
        "MySQLSyncCheckpointSaver": "holdfast.memory.backends.mysql",
        "mysql_checkpointer": "holdfast.memory.backends.mysql",
        "OracleBackend": "holdfast.memory.backends.oracle_backend",
        "OracleCheckpointer": "holdfast.memory.backends.oracle",
        "OracleCheckpointSaver": "holdfast.memory.backends.oracle",
        "OracleSyncBackend": "holdfast.memory.backends.oracle_backend",
        "OracleSyncCheckpointer": "holdfast.memory.backends.oracle",
        "OracleSyncCheckpointSaver": "holdfast.memory.backends.oracle",
        "oracle_checkpointer": "holdfast.memory.backends.oracle",
        "PostgreSQLBackend": "holdfast.memory.backends.postgres",
        "PostgreSQLCheckpointer": "holdfast.memory.backends.postgres",
        "PostgreSQLCheckpointSaver": "holdfast.memory.backends.postgres",
        "PostgreSQLSyncCheckpointer": "holdfast.memory.backends.postgres",
        "PostgreSQLSyncCheckpointSaver": "holdfast.memory.backends.postgres",
        "postgresql_checkpointer": "holdfast.memory.backends.postgres",
        "MemoryCheckpointer": "holdfast.memory.backends.memory",
        "SQLiteCheckpointer": "holdfast.memory.backends.sqlite",
        "SQLiteSyncCheckpointer": "holdfast.memory.backends.sqlite",
        "sqlite_checkpointer": "holdfast.memory.backends.sqlite",
        "SQLiteCheckpointSaver": "holdfast.memory.backends.sqlite_saver",
        "SQLiteSyncCheckpointSaver": "holdfast.memory.backends.sqlite_saver",
    },
)

"""MariaDB and MySQL: checkpointer and saver on one server, and their blocking twins."""

from typing import Any

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.documents import DocumentBackend
from holdfast.memory.backends.mysql_engine import DATABASE, MYSQL, mysql_engine
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.saver import SqlCheckpointSaver
from holdfast.memory.backends.sql.schema import checkpoint_schema
from holdfast.memory.backends.sql.server_engine import ServerEngine
from holdfast.memory.backends.sql.word_rows import WordRows
from holdfast.memory.saver import SyncCheckpointSaver
from holdfast.memory.sync import SyncCheckpointer


def checkpoint_tables(engine: ServerEngine, table_name: str) -> tuple[BoundEngine, Tables]:
    """The engine for the checkpoint tables under that prefix."""
    tables = Tables(MYSQL, WordRows(MYSQL), table_name)
    return engine.using(checkpoint_schema(tables, tables.text.ddl(tables.words))), tables


class MySQLCheckpointer(SqlCheckpointer):
    """Versioned threads in a MariaDB or MySQL database.

    ``dsn`` is a URL, and overrides the parts. ``connection``: what `mysql_engine` takes (``host``, ``port``,
    ``database``, ``user``, ``password``, ``unix_socket``, ``ssl``, ``max_pool_size``, ``pool_timeout``,
    ``auto_create_table``). ``table_name`` is a prefix. An ``engine`` that is given is shared: it is closed with this
    object only if ``owns_engine`` says so.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        table_name: str = "holdfast",
        ttl_seconds: float | None = None,
        text_index: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        engine: ServerEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        used = engine or mysql_engine(dsn, **connection)
        super().__init__(
            *checkpoint_tables(used, table_name),
            clock=clock,
            ttl_seconds=ttl_seconds,
            text_index=text_index,
            owns_engine=owns_engine or engine is None,
        )


class MySQLBackend(DocumentBackend):
    """Documents in a MariaDB or MySQL database: one current dict a thread. Options as those of
    :class:`MySQLCheckpointer`, which is its ``checkpointer``."""

    def __init__(
        self,
        host: str = "localhost",
        port: int = 3306,
        database: str = DATABASE,
        user: str = "root",
        password: Any = "",
        dsn: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(mysql_checkpointer(host, port, database, user, password, dsn, **options))


class MySQLSyncCheckpointer(SyncCheckpointer):
    """The blocking twin of :class:`MySQLCheckpointer`: the same plans and options, no event loop."""

    def __init__(self, dsn: str | None = None, **options: Any) -> None:
        super().__init__(MySQLCheckpointer(dsn, blocking=True, **options))


class MySQLCheckpointSaver(SqlCheckpointSaver):
    """Versioned dict checkpoints in a MariaDB or MySQL database. Options as those of :class:`MySQLCheckpointer`."""

    def __init__(
        self,
        dsn: str | None = None,
        *,
        table_name: str = "holdfast",
        clock: Clock = SYSTEM_CLOCK,
        engine: ServerEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        used = engine or mysql_engine(dsn, **connection)
        super().__init__(
            *checkpoint_tables(used, table_name), clock=clock, owns_engine=owns_engine or engine is None
        )


class MySQLSyncCheckpointSaver(SyncCheckpointSaver):
    """The blocking twin of :class:`MySQLCheckpointSaver`: the same plans and options, no event loop."""

    def __init__(self, dsn: str | None = None, **options: Any) -> None:
        super().__init__(MySQLCheckpointSaver(dsn, blocking=True, **options))


def mysql_checkpointer(
    host: str = "localhost",
    port: int = 3306,
    database: str = DATABASE,
    user: str = "root",
    password: Any = "",
    dsn: str | None = None,
    **options: Any,
) -> MySQLCheckpointer:
    """A :class:`MySQLCheckpointer`; see there for the options."""
    return MySQLCheckpointer(
        dsn, host=host, port=port, database=database, user=user, password=password, **options
    )

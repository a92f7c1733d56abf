"""PostgreSQL: checkpointer and saver on one server, and their blocking twins."""

from typing import Any

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.documents import DocumentBackend
from holdfast.memory.backends.pgvector import index_for
from holdfast.memory.backends.postgres_engine import DATABASE, POSTGRES, PostgresEngine, postgres_engine
from holdfast.memory.backends.postgres_layout import Layout
from holdfast.memory.backends.postgres_store import postgres_items
from holdfast.memory.backends.postgres_words import Lexemes
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.saver import SqlCheckpointSaver
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.saver import SyncCheckpointSaver
from holdfast.memory.sync import SyncCheckpointer
from holdfast.memory.vectors import parse_space


def checkpoint_tables(
    engine: PostgresEngine, table_name: str, schema: str | None
) -> tuple[BoundEngine, Tables]:
    """The engine for the checkpoint tables under that prefix."""
    tables = Tables(POSTGRES, Lexemes(), table_name, schema)
    return engine.using(engine.layout.threads(tables)), tables


def postgres_schemas(
    table_name: str,
    items_table: str,
    *,
    dimension: int | None = None,
    distance_metric: str = "COSINE",
    **layout: Any,
) -> tuple[Schema, ...]:
    """The tables of a checkpointer, a saver and a store of these names; with ``dimension``, also the index that
    pgvector can have for such vectors. Other options: those of `Layout`."""
    made = Layout(**layout)
    tables, items = Tables(POSTGRES, Lexemes(), table_name), postgres_items(items_table)
    schemas = [made.threads(tables), made.items(items)]
    if dimension is not None:
        index = index_for(items, parse_space(dimension, distance_metric, None))
        if index is None:
            raise InvalidInput(f"pgvector has no index for {distance_metric} with {dimension} dimensions")
        schemas.append(made.index(index))
    securities = [schema.security.schema for schema in schemas if schema.security and made.row_security]
    return (*schemas, *securities)


class PostgreSQLCheckpointer(SqlCheckpointer):
    """Versioned threads in a PostgreSQL database.

    ``dsn`` is a URL or connection string, and overrides the parts. ``password`` may be a `SecretStr`.
    ``table_name`` is a prefix; ``schema`` is where the tables are, if not where the server looks first.
    ``auto_create_table=False`` runs with a role that may only read and write rows, and says which DDL is missing.
    ``row_security=True``: the server itself must keep scopes apart; where its tables do, they are used so anyway.
    ``partitions``: tables that are made now are in so many; others must be, if it is given.
    An ``engine`` that is given is shared: it is closed with this object only if ``owns_engine`` says so.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        host: str = "localhost",
        port: int = 5432,
        database: str = DATABASE,
        user: str = "postgres",
        password: Any = "",
        schema: str | None = None,
        table_name: str = "holdfast",
        min_pool_size: int = 1,
        max_pool_size: int = 10,
        pool_timeout: float = 30.0,
        auto_create_table: bool = True,
        row_security: bool = False,
        partitions: int | None = None,
        ttl_seconds: float | None = None,
        text_index: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        engine: PostgresEngine | None = None,
        owns_engine: bool = False,
        blocking: bool = False,
    ) -> None:
        used = engine or postgres_engine(
            dsn,
            host=host,
            port=port,
            database=database,
            user=user,
            password=password,
            schema=schema,
            min_pool_size=min_pool_size,
            max_pool_size=max_pool_size,
            pool_timeout=pool_timeout,
            auto_create_table=auto_create_table,
            row_security=row_security,
            partitions=partitions,
            blocking=blocking,
        )
        super().__init__(
            *checkpoint_tables(used, table_name, schema),
            clock=clock,
            ttl_seconds=ttl_seconds,
            text_index=text_index,
            owns_engine=owns_engine or engine is None,
        )


class PostgreSQLBackend(DocumentBackend):
    """Documents in a PostgreSQL database: one current dict a thread. Options as those of
    :class:`PostgreSQLCheckpointer`, which is its ``checkpointer``."""

    def __init__(
        self,
        host: str = "localhost",
        port: int = 5432,
        database: str = DATABASE,
        user: str = "postgres",
        password: Any = "",
        dsn: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(postgresql_checkpointer(host, port, database, user, password, dsn, **options))


class PostgreSQLSyncCheckpointer(SyncCheckpointer):
    """The blocking twin of :class:`PostgreSQLCheckpointer`: the same plans and options, no event loop."""

    def __init__(self, dsn: str | None = None, **options: Any) -> None:
        super().__init__(PostgreSQLCheckpointer(dsn, blocking=True, **options))


class PostgreSQLCheckpointSaver(SqlCheckpointSaver):
    """Versioned dict checkpoints in a PostgreSQL database. Options as those of :class:`PostgreSQLCheckpointer`."""

    def __init__(
        self,
        dsn: str | None = None,
        *,
        table_name: str = "holdfast",
        schema: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        engine: PostgresEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        used = engine or postgres_engine(dsn, schema=schema, **connection)
        super().__init__(
            *checkpoint_tables(used, table_name, schema),
            clock=clock,
            owns_engine=owns_engine or engine is None,
        )


class PostgreSQLSyncCheckpointSaver(SyncCheckpointSaver):
    """The blocking twin of :class:`PostgreSQLCheckpointSaver`: the same plans and options, no event loop."""

    def __init__(self, dsn: str | None = None, **options: Any) -> None:
        super().__init__(PostgreSQLCheckpointSaver(dsn, blocking=True, **options))


def postgresql_checkpointer(
    host: str = "localhost",
    port: int = 5432,
    database: str = DATABASE,
    user: str = "postgres",
    password: Any = "",
    dsn: str | None = None,
    **options: Any,
) -> PostgreSQLCheckpointer:
    """A :class:`PostgreSQLCheckpointer`; see there for the options."""
    return PostgreSQLCheckpointer(
        dsn, host=host, port=port, database=database, user=user, password=password, **options
    )

"""Oracle Database: checkpointer and saver on one server, and their blocking twins."""

from typing import Any

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.oracle_engine import ORACLE, PORT, TABLES, Postings, oracle_engine
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.saver import SqlCheckpointSaver
from holdfast.memory.backends.sql.schema import checkpoint_schema
from holdfast.memory.backends.sql.server_engine import ServerEngine
from holdfast.memory.saver import SyncCheckpointSaver
from holdfast.memory.sync import SyncCheckpointer


def checkpoint_tables(
    engine: ServerEngine, table_name: str, schema: str | None
) -> tuple[BoundEngine, Tables]:
    """The engine for the checkpoint tables under that prefix."""
    tables = Tables(ORACLE, Postings(), table_name, schema)
    return engine.using(checkpoint_schema(tables, tables.text.ddl(tables.words))), tables


class OracleCheckpointer(SqlCheckpointer):
    """Versioned threads in an Oracle database.

    ``dsn``, or ``host`` and ``service_name``, say where it is; passwords may be `SecretStr`. ``table_name`` is a
    prefix; ``schema_name`` is where the tables are, if not in the user's own schema. ``auto_create_table=False`` runs
    with a user who may only read and write rows, and says which DDL is missing. More options: see `oracle_engine`.
    An ``engine`` that is given is shared: it is closed with this object only if ``owns_engine`` says so.
    """

    def __init__(
        self,
        dsn: str | None = None,
        user: str = "admin",
        password: Any = "",
        wallet_location: Any = None,
        wallet_password: Any = None,
        host: str | None = None,
        port: int = PORT,
        service_name: str | None = None,
        *,
        table_name: str = TABLES,
        schema_name: str | None = None,
        ttl_seconds: float | None = None,
        text_index: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        engine: ServerEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        used = engine or oracle_engine(
            dsn,
            user=user,
            password=password,
            wallet_location=wallet_location,
            wallet_password=wallet_password,
            host=host,
            port=port,
            service_name=service_name,
            schema_name=schema_name,
            **connection,
        )
        super().__init__(
            *checkpoint_tables(used, table_name, schema_name),
            clock=clock,
            ttl_seconds=ttl_seconds,
            text_index=text_index,
            owns_engine=owns_engine or engine is None,
        )
        self._server = used


class OracleSyncCheckpointer(SyncCheckpointer):
    """The blocking twin of :class:`OracleCheckpointer`: the same plans and arguments, no event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(OracleCheckpointer(*arguments, **options, blocking=True))


class OracleCheckpointSaver(SqlCheckpointSaver):
    """Versioned dict checkpoints in an Oracle database. Arguments as those of :class:`OracleCheckpointer`."""

    def __init__(
        self,
        dsn: str | None = None,
        user: str = "admin",
        password: Any = "",
        wallet_location: Any = None,
        wallet_password: Any = None,
        host: str | None = None,
        port: int = PORT,
        service_name: str | None = None,
        *,
        table_name: str = TABLES,
        schema_name: str | None = None,
        min_pool_size: int = 1,
        max_pool_size: int = 5,
        auto_create_table: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        engine: ServerEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        used = engine or oracle_engine(
            dsn,
            user=user,
            password=password,
            wallet_location=wallet_location,
            wallet_password=wallet_password,
            host=host,
            port=port,
            service_name=service_name,
            schema_name=schema_name,
            min_pool_size=min_pool_size,
            max_pool_size=max_pool_size,
            auto_create_table=auto_create_table,
            **connection,
        )
        super().__init__(
            *checkpoint_tables(used, table_name, schema_name),
            clock=clock,
            owns_engine=owns_engine or engine is None,
        )


class OracleSyncCheckpointSaver(SyncCheckpointSaver):
    """The blocking twin of :class:`OracleCheckpointSaver`: the same plans and arguments, no event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(OracleCheckpointSaver(*arguments, **options, blocking=True))


def oracle_checkpointer(*arguments: Any, **options: Any) -> OracleCheckpointer:
    """A :class:`OracleCheckpointer`; see there for the arguments."""
    return OracleCheckpointer(*arguments, **options)

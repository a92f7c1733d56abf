"""The Store contract on Oracle Database."""

from typing import Any

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Unsupported
from holdfast.memory.backends.oracle_engine import ORACLE, PORT, Postings, oracle_engine
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.items_store import VECTOR_CACHE_BYTES, SqlStore
from holdfast.memory.backends.sql.items_versions import OneCounter
from holdfast.memory.backends.sql.schema import Schema, checkpoint_schema
from holdfast.memory.backends.sql.server_engine import ServerEngine
from holdfast.memory.sync_store import SyncStore


def oracle_items(table_name: str, schema_name: str | None = None) -> ItemTables:
    """The names of a store's tables, in Oracle's dialect. Writers of a store take turns at its counter."""
    return ItemTables(ORACLE, table_name, OneCounter(ORACLE.lock), schema_name, documents="JSON")


def oracle_schemas(table_name: str, items_table: str) -> tuple[Schema, ...]:
    """The tables of a checkpointer, a saver and a store of these names."""
    tables = Tables(ORACLE, Postings(), table_name)
    return checkpoint_schema(tables, tables.text.ddl(tables.words)), items_schema(oracle_items(items_table))


class OracleStore(SqlStore):
    """Items in an Oracle database. Without ``dimension=`` there is no vector search.

    ``table_name`` is the exact name of the items' table. Arguments about the connection as those of
    `OracleCheckpointer`. An ``engine`` that is given is shared: it is closed with the store only if ``owns_engine``
    says so.
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
        table_name: str = "holdfast_items",
        schema_name: str | None = None,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        vector_cache_bytes: int = VECTOR_CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        engine: ServerEngine | None = None,
        owns_engine: bool = False,
        **connection: Any,
    ) -> None:
        tables = oracle_items(table_name, schema_name)
        self._server = engine or oracle_engine(
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
            self._server.using(items_schema(tables)),
            tables,
            dimension=dimension,
            distance_metric=distance_metric,
            embedder=embedder,
            vector_cache_bytes=vector_cache_bytes,
            clock=clock,
            owns_engine=owns_engine or engine is None,
        )

    async def _get_pool(self) -> Any:
        """The driver's own pool for the running event loop: `pool.acquire()`, `connection.cursor()`."""
        from holdfast.memory.backends.oracle_driver import AsyncOracleDriver

        if not isinstance(self._server.driver, AsyncOracleDriver):
            raise Unsupported("a blocking store has no asynchronous pool")
        return self._server.driver.pool()


class OracleSyncStore(SyncStore):
    """The blocking twin of :class:`OracleStore`: the same arguments and plans, no event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(OracleStore(*arguments, **options, blocking=True))

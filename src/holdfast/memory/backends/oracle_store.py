"""The Store contract on Oracle Database."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import HoldfastError, InvalidInput, SchemaMismatch, Unsupported
from holdfast.memory import blocking as twins
from holdfast.memory import validate
from holdfast.memory.backends import oracle_vectors as vectors
from holdfast.memory.backends.oracle_documents import documents_schema, words_schema
from holdfast.memory.backends.oracle_engine import (
    ORACLE,
    PORT,
    OracleEngine,
    Postings,
    code_in,
    nothing,
    oracle_engine,
)
from holdfast.memory.backends.sql.binding import BoundEngine
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.items_nearest import LARGE, large_namespaces, nearest
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.items_store import VECTOR_CACHE_BYTES, SqlStore
from holdfast.memory.backends.sql.items_versions import OneCounter
from holdfast.memory.backends.sql.schema import Schema, checkpoint_schema
from holdfast.memory.store_requests import StoredHit, VectorRequest
from holdfast.memory.sync_store import SyncStore
from holdfast.memory.vectors import VectorSpace

# No such type or statement, no right, no room: then there is no index, and nothing is wrong.
_WITHOUT_INDEX: Final = (901, 902, 903, 922, 942, 1031, 1536, 1950, 3001, 12954, 29833, 43853)
_OF_VECTORS: Final = range(
    51_800, 52_000
)  # what the server says about vectors: no memory for them, too few, ...


def oracle_items(table_name: str, schema_name: str | None = None) -> ItemTables:
    """The names of a store's tables, in Oracle's dialect. Writers of a store take turns at its counter."""
    return ItemTables(ORACLE, table_name, OneCounter(ORACLE.lock), schema_name, documents="JSON")


def oracle_schemas(table_name: str, items_table: str) -> tuple[Schema, ...]:
    """The tables of a checkpointer, a saver, documents and a store of these names."""
    tables = Tables(ORACLE, Postings(), table_name)
    return (
        checkpoint_schema(tables, tables.text.ddl(tables.words)),
        documents_schema(tables),
        words_schema(tables),
        items_schema(oracle_items(items_table)),
    )


class OracleStore(SqlStore):
    """Items in an Oracle database. Without ``dimension=`` there is no vector search.

    Namespaces with more than ``index_vectors_from`` vectors are searched by an approximate index from 23ai on, in
    ``vector_organization`` "partitions" or "graph" (which needs the server's vector memory); all others, and all with
    ``vector_index=False``, exactly. ``table_name`` is the exact name of the items' table. Arguments about the
    connection as those of `OracleCheckpointer`. An ``engine`` that is given is shared: it is closed with the store
    only if ``owns_engine`` says so.
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
        vector_index: bool = True,
        vector_organization: str = "partitions",
        index_vectors_from: int = LARGE,
        vector_cache_bytes: int = VECTOR_CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        engine: OracleEngine | None = None,
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
        if vector_organization not in vectors.ORGANIZATIONS:
            raise InvalidInput(
                f"vector_organization must be one of {', '.join(vectors.ORGANIZATIONS)}, got {vector_organization!r}"
            )
        self._organization = vector_organization
        self._large = validate.limit(index_vectors_from, "index_vectors_from") if vector_index else None
        self._index = self._index_of_space()

    def _open_space(self, space: VectorSpace) -> None:
        super()._open_space(space)
        self._index = self._index_of_space()

    def _index_of_space(self) -> "_Index | None":
        if self._large is None:
            return None
        index = vectors.index_for(self._tables, self._space, self._large, self._organization)
        if index is None:
            return None
        copies = self._server.using(vectors.copies_schema(index))
        return _Index(index, copies, self._server.using(vectors.index_schema(index)))

    async def vector_search_by(self, namespace: Sequence[str]) -> Literal["exact", "approximate"]:
        """How vectors of that namespace are searched now: compared one by one, or by the database's index."""
        self._vector_space()
        place = validate.namespace(namespace)
        if (used := await self._usable_index()) is None:
            return "exact"
        indexed = await used.copies.read(partial(vectors.is_indexed, used.index, place))
        return "approximate" if indexed else "exact"

    async def index_vectors(self) -> int:
        """Bring the index up to date now, make it if it is not there, and return how many vectors were added.

        Searches see to it bit by bit; after many puts this is quicker. Before 23ai there is nothing to do.
        """
        self._vector_space()
        if (used := await self._usable_index()) is None:
            return 0
        total = 0
        for ns_id in await used.copies.read(partial(large_namespaces, used.index)):
            while count := await used.copies.write(partial(vectors.add_newer, used.index, ns_id)):
                total += count
        await self._organize(used)
        return total

    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        if (used := await self._usable_index()) is None:
            return await super()._nearest(request)
        answer = await used.copies.read(partial(nearest, used.index, self._matrices, request))
        if answer.ns_id_to_index:
            used.copies.later(partial(vectors.add_newer, used.index, answer.ns_id_to_index))
        return answer.hits

    async def _usable_index(self) -> "_Index | None":
        """The index, if the server can have it and its table is there, or could be made."""
        used = self._index
        if used is None or used.is_there:
            return used
        try:
            await self._engine.read(nothing)  # its table refers to those of the items: they are first
            if self._server.release >= vectors.WITH_VECTORS:
                await used.copies.read(nothing)
                used.is_there = True
                return used
        except HoldfastError as error:
            if not _says_no(error):
                raise
        self._index = None
        return None

    async def _organize(self, used: "_Index") -> None:
        """Without the right to make the index, or the memory for it, the database compares the copies."""
        try:
            await used.organized.read(nothing)
        except HoldfastError as error:
            if not _says_no(error):
                raise

    async def _get_pool(self) -> Any:
        """The driver's own pool for the running event loop: `pool.acquire()`, `connection.cursor()`."""
        from holdfast.memory.backends.oracle_driver import AsyncOracleDriver

        if not isinstance(self._server.driver, AsyncOracleDriver):
            raise Unsupported("a blocking store has no asynchronous pool")
        return self._server.driver.pool()


def _says_no(error: HoldfastError) -> bool:
    """Whether the server can't have the index, or may not."""
    code = code_in(error)
    return isinstance(error, SchemaMismatch) or code in _WITHOUT_INDEX or code in _OF_VECTORS


@dataclass(slots=True)
class _Index:
    """``copies`` has the table, ``organized`` the index over it as well."""

    index: vectors.VectorIndex
    copies: BoundEngine
    organized: BoundEngine
    is_there: bool = False


class OracleSyncStore(SyncStore):
    """The blocking twin of :class:`OracleStore`: the same arguments and plans, no event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(OracleStore(*arguments, **options, blocking=True))

    vector_search_by = twins.blocking(OracleStore.vector_search_by)
    index_vectors = twins.blocking(OracleStore.index_vectors)

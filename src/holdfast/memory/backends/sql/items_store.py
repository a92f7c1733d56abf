"""The Store contract on any SQL engine: each hook is one plan."""

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory import validate
from holdfast.memory.backends.sql import items_embedding as embedding
from holdfast.memory.backends.sql import items_reading as reading
from holdfast.memory.backends.sql import items_removing as removing
from holdfast.memory.backends.sql import items_vectors as vectors
from holdfast.memory.backends.sql import items_words as words
from holdfast.memory.backends.sql import items_writing as writing
from holdfast.memory.backends.sql.items_lengths import LengthCache
from holdfast.memory.backends.sql.items_matrix import MatrixCache
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Engine, PlanFactory
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_requests import (
    ItemDelete,
    KeptItem,
    Namespace,
    Reader,
    ScanRequest,
    StoredCandidates,
    StoredHit,
    StoredItem,
    Stretch,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.vectors import VectorSpace

T = TypeVar("T")

VECTOR_CACHE_BYTES = 256_000_000

_WITH_VECTORS = StoreCapabilities.all_but()
_WITHOUT_VECTORS = StoreCapabilities.all_but("vector_search")


class SqlStore(BaseStore):
    """Items in the tables of `sql.items_schema`.

    ``vector_cache_bytes``: how much memory this object may use to keep vectors of namespaces that were searched.
    One with more than that is read from the database for each search. ``owns_engine``: closing the store closes
    the engine.
    """

    def __init__(
        self,
        engine: Engine,
        tables: ItemTables,
        *,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        vector_cache_bytes: int = VECTOR_CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        owns_engine: bool = True,
    ) -> None:
        super().__init__(dimension=dimension, distance_metric=distance_metric, embedder=embedder, clock=clock)
        self._engine = engine
        self._tables = tables
        self._matrices = MatrixCache(validate.limit(vector_cache_bytes, "vector_cache_bytes"))
        self._lengths = LengthCache()
        self._owns_engine = owns_engine

    @property
    def capabilities(self) -> StoreCapabilities:
        return _WITHOUT_VECTORS if self._space is None else _WITH_VECTORS

    async def _write(self, request: WriteRequest) -> list[int]:
        places = {wanted.namespace for wanted in (*request.require, *request.ops)}
        try:
            return await self._engine.within(*places).write(partial(writing.write, self._tables, request))
        finally:  # who is cancelled may have deleted it all the same
            for namespace in {op.namespace for op in request.ops if isinstance(op, ItemDelete)}:
                self._lengths.forget(key_of(namespace))

    async def _clear(self, namespace: Namespace, prefix: bool, now_us: int) -> int:
        plan = partial(removing.clear, self._tables, namespace, prefix, now_us)
        try:
            return await self._engine.within(namespace).write(plan)
        finally:
            self._lengths.forget()

    async def _purge(self, now_us: int) -> int:
        plan = partial(removing.purge, self._tables, now_us)
        try:
            count = total = await self._engine.write(plan)
            while count and self._tables.versions.shared:
                count = await self._engine.write(plan)
                total += count
        finally:
            self._lengths.forget()
        return total

    async def _erase_deleted(self) -> None:
        self._lengths.forget()
        await self._engine.scrub()

    async def _read(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[StoredItem | None]:
        within = self._engine.within(*{namespace for namespace, _ in places})
        return await within.read(partial(reading.read, self._tables, places, now_us))

    async def _read_kept(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[KeptItem | None]:
        within = self._engine.within(*{namespace for namespace, _ in places})
        return await within.read(partial(reading.read_kept, self._tables, places, now_us))

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        return await self._engine.within(request.namespace).read(partial(reading.scan, self._tables, request))

    async def _namespaces(
        self, prefix: Namespace | None, limit: int, after: Namespace | None, now_us: int
    ) -> list[Namespace]:
        plan = partial(reading.namespaces, self._tables, prefix, limit, after, now_us)
        return await (self._engine if prefix is None else self._engine.within(prefix)).read(plan)

    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        plan = partial(words.candidates, self._tables, self._lengths, request)
        return await self._indexed(plan, request.namespace)

    async def _read_candidates(self, request: TextRequest, reader: Reader[T]) -> T:
        plan = partial(words.read_candidates, self._tables, self._lengths, request, reader)
        (value,) = await self._indexed(plan, request.namespace)
        return value

    async def _indexed(self, plan: PlanFactory[T | None], namespace: Namespace) -> T:
        """Of a plan that finds the words indexed by this analyser; if it doesn't, they are first."""
        within = self._engine.within(namespace)
        while (found := await within.read(plan)) is None:
            await self._engine.write(partial(words.rebuild, self._tables))
            self._lengths.forget()
        return found

    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        plan = partial(vectors.nearest, self._tables, self._matrices, request)
        return await self._engine.within(request.namespace).read(plan)

    async def _space_of(self, namespace: Namespace, prefix: bool) -> VectorSpace | None:
        plan = partial(embedding.space_of, self._tables, namespace, prefix)
        return await self._engine.within(namespace).read(plan)

    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        plan = partial(embedding.change_space, self._tables, namespace, space)
        return await self._engine.within(namespace).write(plan)

    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        plan = partial(embedding.without_vectors, self._tables, request)
        return await self._engine.within(request.namespace).read(plan)

    async def _neighbours(
        self, namespace: Namespace, group: str, ordinal: int, window: int
    ) -> list[StoredItem]:
        stretch = Stretch(group, ordinal, window)
        plan = partial(reading.stretches, self._tables, namespace, [stretch], self._clock.now_us())
        return await self._engine.within(namespace).read(plan)

    async def _close(self) -> None:
        self._matrices.clear()
        self._lengths.forget()
        if self._owns_engine:
            await self._engine.close()

"""The Store contract in plain Python: the reference that every other backend is compared with.

Values are kept as the codec's text, so that what is given and what is handed out are copies. No operation
awaits anything: on one event loop each is atomic.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory import store_rows
from holdfast.memory.namespaces import encode_namespace
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_requests import (
    ItemDelete,
    ItemPut,
    KeptItem,
    Namespace,
    ScanRequest,
    StoredCandidates,
    StoredHit,
    StoredItem,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.store_rows import Matrix, Row, within
from holdfast.memory.vectors import VectorSpace

__all__ = ["InMemoryStore", "Row", "Storage"]


class Storage:
    """All that a store holds."""

    def __init__(self) -> None:
        self.rows: dict[Namespace, dict[str, Row]] = {}
        self.spaces: dict[Namespace, VectorSpace] = {}
        self.matrices: dict[Namespace, Matrix] = {}
        self.last_version = 0


class InMemoryStore(BaseStore):
    """Items in this process's memory: for tests, examples and whatever may be forgotten."""

    def __init__(
        self,
        *,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(dimension=dimension, distance_metric=distance_metric, embedder=embedder, clock=clock)
        self._storage = Storage()

    @property
    def capabilities(self) -> StoreCapabilities:
        return StoreCapabilities.all_but(*(["vector_search"] if self._space is None else []))

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def _write(self, request: WriteRequest) -> list[int]:
        for need in request.require:
            row = self._find(need.namespace, need.key, request.now_us)
            actual = 0 if row is None else row.item.version
            if actual != need.version:
                raise need.conflict(actual)
        puts = [op for op in request.ops if isinstance(op, ItemPut) and op.vector is not None]
        if request.space is not None:
            for put in puts:
                request.space.check(self._storage.spaces.get(put.namespace), put.namespace)
        versions = [self._apply(op, request.now_us) for op in request.ops]
        if request.space is not None:
            for put in puts:
                if put.namespace in self._storage.rows:
                    self._storage.spaces.setdefault(put.namespace, request.space)
        return versions

    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        before = self._find(op.namespace, op.key, now_us)
        self._storage.matrices.pop(op.namespace, None)
        if isinstance(op, ItemDelete):
            self._remove(op.namespace, op.key)
            return 0 if before is None else before.item.version
        self._storage.last_version += 1
        created_us, updated_us = op.times or (now_us if before is None else before.item.created_us, now_us)
        item = StoredItem(
            op.namespace, op.key, op.value, op.metadata, created_us, updated_us, self._storage.last_version
        )
        self._storage.rows.setdefault(op.namespace, {})[op.key] = Row(
            item, expires_us=op.expires_us, vector=op.vector, text=op.text
        )
        return item.version

    async def _clear(self, namespace: Namespace, prefix: bool, now_us: int) -> int:
        count = sum(1 for _ in self._live(namespace, prefix, now_us))
        for part in (self._storage.rows, self._storage.spaces, self._storage.matrices):
            for place in [place for place in part if within(place, namespace, prefix)]:
                del part[place]
        return count

    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        if self._storage.spaces.get(namespace) in (None, space):
            return 0
        rows = [row for row in self._storage.rows[namespace].values() if row.vector is not None]
        for row in rows:
            row.vector = None
        self._storage.spaces[namespace] = space
        self._storage.matrices.pop(namespace, None)
        return len(rows)

    async def _purge(self, now_us: int) -> int:
        expired = [
            row.item for rows in self._storage.rows.values() for row in rows.values() if not row.lives(now_us)
        ]
        for item in expired:
            self._remove(item.namespace, item.key)
            self._storage.matrices.pop(item.namespace, None)
        return len(expired)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def _read(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[StoredItem | None]:
        rows = [self._find(namespace, key, now_us) for namespace, key in places]
        return [None if row is None else row.item for row in rows]

    async def _read_kept(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[KeptItem | None]:
        rows = [self._find(namespace, key, now_us) for namespace, key in places]
        return [None if row is None else KeptItem(row.item, row.expires_us, row.vector) for row in rows]

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        live = self._live(request.namespace, request.prefix, request.now_us)
        return store_rows.scan(live, request)

    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        found = await self._scan(replace(request, limit=sys.maxsize))
        rows = self._storage.rows.get(request.namespace, {})
        return [item for item in found if rows[item.key].vector is None][: request.limit]

    async def _space_of(self, namespace: Namespace, prefix: bool) -> VectorSpace | None:
        found = [place for place in self._storage.spaces if store_rows.within(place, namespace, prefix)]
        return self._storage.spaces[min(found, key=encode_namespace)] if found else None

    async def _namespaces(
        self, prefix: Namespace | None, limit: int, after: Namespace | None, now_us: int
    ) -> list[Namespace]:
        found = [
            namespace
            for namespace, rows in self._storage.rows.items()
            if prefix is None or within(namespace, prefix, True)
            if any(row.lives(now_us) for row in rows.values())
            if after is None or encode_namespace(namespace) > encode_namespace(after)
        ]
        return sorted(found, key=encode_namespace)[:limit]

    # ── searching ─────────────────────────────────────────────────────────────────────────────────

    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        live = self._live(request.namespace, request.prefix, request.now_us)
        return store_rows.text_candidates(live, request)

    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        request.space.check(self._storage.spaces.get(request.namespace), request.namespace)
        return store_rows.nearest(self._matrix(request.namespace, request.space), request)

    def _matrix(self, namespace: Namespace, space: VectorSpace) -> Matrix:
        """The vectors of a namespace; kept until it is written."""
        if namespace not in self._storage.matrices:
            rows = self._storage.rows.get(namespace, {}).values()
            self._storage.matrices[namespace] = Matrix.of(rows, space)
        return self._storage.matrices[namespace]

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────

    def _find(self, namespace: Namespace, key: str, now_us: int) -> Row | None:
        row = self._storage.rows.get(namespace, {}).get(key)
        return row if row is not None and row.lives(now_us) else None

    def _remove(self, namespace: Namespace, key: str) -> None:
        rows = self._storage.rows.get(namespace, {})
        rows.pop(key, None)
        if not rows:  # nothing is left of it, its vector space neither
            self._storage.rows.pop(namespace, None)
            self._storage.spaces.pop(namespace, None)

    def _live(self, namespace: Namespace, prefix: bool, now_us: int) -> Iterator[Row]:
        for place, rows in self._storage.rows.items():
            if within(place, namespace, prefix):
                yield from (row for row in rows.values() if row.lives(now_us))

    async def _close(self) -> None:
        self._storage = Storage()

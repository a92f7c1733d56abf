"""The Store contract in plain Python: the reference that every other backend is compared with.

Values are kept as the codec's text, so that what is given and what is handed out are copies. No operation
awaits anything: on one event loop each is atomic.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.core import codec
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.filters import Filter
from holdfast.memory.namespaces import encode_namespace
from holdfast.memory.ranking import bm25
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_requests import (
    ItemDelete,
    ItemPut,
    Namespace,
    ScanRequest,
    StoredCandidate,
    StoredCandidates,
    StoredHit,
    StoredItem,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.text import analyse
from holdfast.memory.vectors import VectorSpace, prepare, score_all, top, unpack

if TYPE_CHECKING:
    from holdfast.memory.vectors import Floats


class Row:
    """An item with what is derived from it, when it is first asked for."""

    def __init__(self, item: StoredItem, op: ItemPut) -> None:
        self.item = item
        self.expires_us = op.expires_us
        self.vector = op.vector
        self._text = op.text

    def lives(self, now_us: int) -> bool:
        return self.expires_us is None or self.expires_us > now_us

    def passes(self, condition: Filter) -> bool:
        return not condition.conditions or condition(*self._document)

    @cached_property
    def _document(self) -> tuple[Any, Any]:
        """Metadata and value, to look into: never handed out."""
        return codec.loads(self.item.metadata), codec.loads(self.item.value)

    @cached_property
    def terms(self) -> Counter[str]:
        return Counter(analyse(self._text))


class Storage:
    """All that a store holds."""

    def __init__(self) -> None:
        self.rows: dict[Namespace, dict[str, Row]] = {}
        self.spaces: dict[Namespace, VectorSpace] = {}
        self.matrices: dict[Namespace, tuple[list[Row], Floats]] = {}
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
        created_us = now_us if before is None else before.item.created_us
        item = StoredItem(
            op.namespace, op.key, op.value, op.metadata, created_us, now_us, self._storage.last_version
        )
        self._storage.rows.setdefault(op.namespace, {})[op.key] = Row(item, op)
        return item.version

    async def _clear(self, namespace: Namespace, prefix: bool, now_us: int) -> int:
        count = sum(1 for _ in self._live(namespace, prefix, now_us))
        for part in (self._storage.rows, self._storage.spaces, self._storage.matrices):
            for place in [place for place in part if _within(place, namespace, prefix)]:
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

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        live = self._live(request.namespace, request.prefix, request.now_us)
        found = [row.item for row in live if row.passes(request.filter)]
        if request.order == "key":
            start = None if request.after is None else _place(*request.after)
            found = [item for item in found if start is None or _place(item.namespace, item.key) > start]
            found.sort(key=lambda item: _place(item.namespace, item.key))
        else:
            newest, bound = request.order == "newest", request.version
            found = [
                item
                for item in found
                if bound is None or (item.version < bound if newest else item.version > bound)
            ]
            found.sort(key=lambda item: item.version, reverse=newest)
        return found[: request.limit]

    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        found = await self._scan(replace(request, limit=sys.maxsize))
        rows = self._storage.rows.get(request.namespace, {})
        return [item for item in found if rows[item.key].vector is None][: request.limit]

    async def _space_of(self, namespace: Namespace, prefix: bool) -> VectorSpace | None:
        found = [place for place in self._storage.spaces if _within(place, namespace, prefix)]
        return self._storage.spaces[min(found, key=encode_namespace)] if found else None

    async def _namespaces(
        self, prefix: Namespace | None, limit: int, after: Namespace | None, now_us: int
    ) -> list[Namespace]:
        found = [
            namespace
            for namespace, rows in self._storage.rows.items()
            if prefix is None or _within(namespace, prefix, True)
            if any(row.lives(now_us) for row in rows.values())
            if after is None or encode_namespace(namespace) > encode_namespace(after)
        ]
        return sorted(found, key=encode_namespace)[:limit]

    # ── searching ─────────────────────────────────────────────────────────────────────────────────

    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        live = self._live(request.namespace, request.prefix, request.now_us)
        documents = [row for row in live if row.terms]
        average = sum(row.terms.total() for row in documents) / len(documents) if documents else 0.0
        frequencies = {term: sum(term in row.terms for row in documents) for term in request.terms}
        scored: list[tuple[float, int, StoredCandidate]] = []
        for row in documents:
            counts = {term: row.terms[term] for term in request.terms if term in row.terms}
            if counts and row.passes(request.filter):
                length = row.terms.total()
                score = bm25(counts, length, frequencies, len(documents), average)
                scored.append((-score, -row.item.version, StoredCandidate(row.item, counts, length)))
        scored.sort(key=lambda entry: entry[:2])
        best = [candidate for _, _, candidate in scored[: request.limit]]
        return StoredCandidates(best, frequencies, len(documents), average)

    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        request.space.check(self._storage.spaces.get(request.namespace), request.namespace)
        rows, matrix = self._matrix(request.namespace, request.space)
        wanted = [i for i, row in enumerate(rows) if row.lives(request.now_us) and row.passes(request.filter)]
        scores, distances = score_all(request.space.metric, matrix[wanted], request.vector)
        hits = [
            StoredHit(rows[wanted[i]].item, float(scores[i]), float(distances[i]))
            for i in top(scores, request.limit)
        ]
        return [hit for hit in hits if request.threshold is None or hit.score >= request.threshold]

    def _matrix(self, namespace: Namespace, space: VectorSpace) -> "tuple[list[Row], Floats]":
        """The rows that have a vector, newest first, and the vectors; kept until the namespace is written."""
        if namespace not in self._storage.matrices:
            rows = [row for row in self._storage.rows.get(namespace, {}).values() if row.vector is not None]
            rows.sort(key=lambda row: -row.item.version)
            vectors = unpack([row.vector for row in rows if row.vector is not None], space.dimension)
            self._storage.matrices[namespace] = (rows, prepare(space.metric, vectors))
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
            if _within(place, namespace, prefix):
                yield from (row for row in rows.values() if row.lives(now_us))

    async def _close(self) -> None:
        self._storage = Storage()


def _within(namespace: Namespace, wanted: Namespace, prefix: bool) -> bool:
    return namespace[: len(wanted)] == wanted if prefix else namespace == wanted


def _place(namespace: Namespace, key: str) -> tuple[str, str]:
    """What listings by key are sorted by."""
    return encode_namespace(namespace), key

"""The Store contract on Chroma: in a directory, in memory, or at a server."""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidInput
from holdfast.memory import store_rows, validate
from holdfast.memory.backends import chroma_rows as rows
from holdfast.memory.backends import chroma_writing as writing
from holdfast.memory.backends.chroma_client import ChromaCollection, Place, check_process, forked
from holdfast.memory.backends.chroma_rows import COUNTER, NAMESPACES, NamespaceInfo
from holdfast.memory.backends.chroma_shelves import Shelf, Shelves, groups, matrix
from holdfast.memory.backends.workers import Workers
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_requests import (
    KeptItem,
    Namespace,
    Reader,
    ScanRequest,
    StoredCandidates,
    StoredHit,
    StoredItem,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.store_rows import Row
from holdfast.memory.vectors import VectorSpace

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

T = TypeVar("T")

CACHE_BYTES = 256_000_000
_DIRECTORY_BYTES = 64_000_000


class ChromaStore(BaseStore):
    """Items in a Chroma collection. Without ``dimension=`` there is no vector search, which is exact on every metric.

    ``path`` is a directory, made if it isn't there, which several processes may use together; ``":memory:"`` keeps the
    items in memory, gone with the object. ``client`` is a Chroma client of your own instead, which stays open. One of
    a server has no compare-and-set unless all who write name the same ``lock_path``, a file that they share.

    ``cache_bytes``: about how much memory this object may use to keep what it read. ``busy_seconds``: how long to wait
    for another writer.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        client: "ClientAPI | None" = None,
        collection: str = "holdfast",
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        lock_path: str | os.PathLike[str] | None = None,
        busy_seconds: float = 30.0,
        cache_bytes: int = CACHE_BYTES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(dimension=dimension, distance_metric=distance_metric, embedder=embedder, clock=clock)
        where: object = os.fspath(path)
        if not isinstance(where, str) or not where.strip():
            raise InvalidInput(f"path must be the path of a directory as text, got {path!r}")
        if client is not None and where != ":memory:":
            raise InvalidInput("path and client are two ways to say where the items are: give one")
        place = Place(
            path=None if where == ":memory:" else where,
            client=client,
            collection=validate.identifier(collection, "collection"),
            lock_path=None if lock_path is None else str(Path(lock_path).resolve()),
            busy_seconds=validate.positive_number(busy_seconds, "busy_seconds"),
        )
        self._collection = ChromaCollection(place)
        # What others write unseen can't be told from what is kept.
        kept = validate.limit(cache_bytes, "cache_bytes") if self._collection.exclusive else 0
        self._shelves = Shelves[Row](kept, rows.parse_row)
        self._directory = Shelves[NamespaceInfo](min(kept, _DIRECTORY_BYTES), rows.parse_namespace)
        self._workers = Workers("holdfast chroma")

    @property
    def capabilities(self) -> StoreCapabilities:
        missing = ["atomic_batch"]
        if self._space is None:
            missing.append("vector_search")
        if not self._collection.exclusive:
            missing.append("compare_and_set")
        return StoreCapabilities.all_but(*missing)

    def _call(self, work: Callable[[], T], *, write: bool = False) -> Awaitable[T]:
        """In a worker thread. One that has begun is waited for, also by a caller who is cancelled."""
        check_process()
        return self._workers.call(partial(self._locked, work) if write else work, write=write)

    def _locked(self, work: Callable[[], T]) -> T:
        with self._collection.writing():
            return work()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def _write(self, request: WriteRequest) -> list[int]:
        return await self._call(lambda: writing.write(self._collection, request), write=True)

    async def _clear(self, namespace: Namespace, prefix: bool, now_us: int) -> int:
        def clear() -> int:
            keys = [info.key for info in self._namespaces_of(namespace, prefix)]
            return writing.clear(self._collection, keys, now_us)

        return await self._call(clear, write=True)

    async def _purge(self, now_us: int) -> int:
        return await self._call(lambda: writing.purge(self._collection, now_us), write=True)

    async def _erase_deleted(self) -> None:
        await self._call(self._collection.erase, write=True)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def _read(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[StoredItem | None]:
        return await self._call(lambda: list(writing.read(self._collection, places, now_us)))

    async def _read_kept(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[KeptItem | None]:
        return await self._call(lambda: list(writing.read_kept(self._collection, places, now_us)))

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        return await self._call(lambda: store_rows.scan(self._live(request), request))

    async def _namespaces(
        self, prefix: Namespace | None, limit: int, after: Namespace | None, now_us: int
    ) -> list[Namespace]:
        def find() -> list[Namespace]:
            last = "" if after is None else rows.namespace_key(after)
            found = (info for info in self._namespaces_of(prefix, True) if info.key > last)
            alive = (info for info in found if self._collection.ids_at(info.key, alive_at=now_us, limit=1))
            return [info.namespace for info in islice(alive, limit)]

        return await self._call(find)

    # ── searching ─────────────────────────────────────────────────────────────────────────────────

    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        return await self._call(lambda: store_rows.text_candidates(self._live(request), request))

    async def _read_candidates(self, request: TextRequest, reader: Reader[T]) -> T:
        def read() -> T:
            reading = reader(store_rows.text_candidates(self._live(request), request))
            try:
                asked = next(reading)
                around = self._sequences(request.namespace)
                while True:
                    asked = reading.send(list(chain.from_iterable(around(*stretch) for stretch in asked)))
            except StopIteration as end:
                value: T = end.value
                return value

        return await self._call(read)

    async def _neighbours(
        self, namespace: Namespace, group: str, ordinal: int, window: int
    ) -> list[StoredItem]:
        return await self._call(lambda: self._sequences(namespace)(group, ordinal, window))

    def _sequences(self, namespace: Namespace) -> Callable[[str, int, int], list[StoredItem]]:
        """Gives the items around a place in a sequence of the namespace."""
        info = writing.namespace_info(self._collection, namespace)
        if info is None:
            return lambda group, ordinal, window: []
        return partial(groups(self._shelf(info)).around, now_us=self._clock.now_us())

    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        def find() -> list[StoredHit]:
            info = writing.namespace_info(self._collection, request.namespace)
            if info is None or info.space is None:
                return []
            request.space.check(info.space, request.namespace)
            found = matrix(self._shelf(info), request.space, info.vectors_since)
            return store_rows.nearest(found, request)

        return await self._call(find)

    async def _space_of(self, namespace: Namespace, prefix: bool) -> VectorSpace | None:
        def find() -> VectorSpace | None:
            infos = self._namespaces_of(namespace, prefix)
            return next((info.space for info in infos if info.space is not None), None)

        return await self._call(find)

    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        return await self._call(lambda: writing.change_space(self._collection, namespace, space), write=True)

    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        def find() -> list[StoredItem]:
            info = writing.namespace_info(self._collection, request.namespace)
            since = 0 if info is None else info.vectors_since
            bare = (row for row in self._live(request) if row.vector is None or row.item.version <= since)
            return store_rows.scan(bare, request)

        return await self._call(find)

    # ── what is there ─────────────────────────────────────────────────────────────────────────────

    def _live(self, request: ScanRequest | TextRequest) -> Iterator[Row]:
        for info in self._namespaces_of(request.namespace, request.prefix):
            yield from (row for row in self._shelf(info).entries.values() if row.lives(request.now_us))

    def _shelf(self, info: NamespaceInfo) -> Shelf[Row]:
        return self._shelves.get(self._collection, info.key, info.head)

    def _namespaces_of(self, wanted: Namespace | None, prefix: bool) -> list[NamespaceInfo]:
        """What is recorded of a namespace, and with ``prefix`` of those below it; of all, if it is ``None``."""
        if wanted is not None and not prefix:
            info = writing.namespace_info(self._collection, wanted)
            return [] if info is None else [info]
        counter = rows.parse_counter(self._collection.get([COUNTER]).get(COUNTER))
        shelf = self._directory.get(self._collection, NAMESPACES, counter)
        start = "" if wanted is None else rows.namespace_key(wanted)
        found = [info for info in shelf.entries.values() if info.key.startswith(start)]
        return sorted(found, key=lambda info: info.key)

    async def _close(self) -> None:
        if self._collection.is_open and not forked():
            await self._workers.call(self._collection.close, write=True)
        self._shelves.clear()
        self._directory.clear()
        self._workers.stop()

"""The Store contract: items under namespaces, kept across threads, found by key, filter, words and vectors.

Public methods check their arguments and are final for our own backends, which implement the ``_hooks`` at the
end of the class.
"""

import functools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, overload

from holdfast.core import codec
from holdfast.core.errors import InvalidInput, Unsupported
from holdfast.memory import store_checks as checks
from holdfast.memory import store_listing, validate
from holdfast.memory.cursors import decode_cursor, encode_cursor
from holdfast.memory.filters import Filter, compile_filter
from holdfast.memory.records import DeleteOp, Page, PutOp, SearchHit, StoreItem, TextCandidates
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_requests import (
    ItemDelete,
    ItemPut,
    Namespace,
    Requirement,
    ScanRequest,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.store_spaces import StoreSpaces
from holdfast.memory.text import query_terms, value_text
from holdfast.memory.vectors import Embedding, VectorSpace, check_vector

if TYPE_CHECKING:
    from holdfast.memory.backends.memory_store import InMemoryStore

__all__ = ["BaseStore", "InMemoryStore", "StoreCapabilities", "StoreItem"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _alias(method: _Method) -> _Method:
    """The same method under another name, also in a subclass that overrides it."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, method.__name__)(*args, **kwargs)

    return cast(_Method, call)


class BaseStore(StoreSpaces):
    """Items in namespaces. All methods are coroutines.

    Versions come from one counter for the whole store: they grow with every write and never repeat for a key.
    Values and metadata are whatever the codec stores, and come back as copies, as they were put. An expired
    item is absent for everything.
    """

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    async def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        expected_version: int | None = None,
    ) -> int:
        """Write an item and return its new version.

        It replaces the whole item: metadata, time to live (``ttl``, in seconds) and embedding too, since a
        vector of the old text would find the new one. ``expected_version`` makes it a compare-and-set: if the
        item has another version (0: if it exists), :class:`Conflict` and nothing is written.
        """
        op = self._item_put(namespace, key, value, metadata, ttl)
        return await self._write_one(op, expected_version)

    async def put_with_embedding(
        self,
        namespace: Sequence[str],
        key: str,
        value: Any,
        embedding: Embedding,
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        expected_version: int | None = None,
    ) -> int:
        """:meth:`put` with a vector, for :meth:`search_by_embedding`. The store must have a ``dimension=``.

        The first one fixes the vector space of its namespace until that is cleared: another dimension, metric
        or embedder is `InvalidInput`.
        """
        vector = check_vector(embedding, self._vector_space())
        op = self._item_put(namespace, key, value, metadata, ttl)
        return await self._write_one(replace(op, vector=vector), expected_version)

    async def put_batch(self, items: Iterable[Sequence[Any]]) -> list[int]:
        """Write many ``(namespace, key, value, metadata)``; returns their versions.

        Items under one root (first part of the namespace) are written together: all of them or none.
        """
        self._check()
        given = enumerate(checks.put_tuples(items))
        puts = [self._item_put(*item, at=f"items[{index}].") for index, item in given]
        by_root: dict[str, list[int]] = {}
        for index, put in enumerate(puts):
            by_root.setdefault(put.namespace[0], []).append(index)
        versions = [0] * len(puts)
        for indices in by_root.values():
            written = await self._write(self._write_request([puts[index] for index in indices]))
            for index, version in zip(indices, written, strict=True):
                versions[index] = version
        return versions

    async def delete(
        self, namespace: Sequence[str], key: str, *, expected_version: int | None = None
    ) -> bool:
        """Delete an item. ``False``: it did not exist."""
        self._check()
        return await self._write_one(ItemDelete(*checks.place(namespace, key)), expected_version) > 0

    async def batch(
        self,
        ops: Iterable[PutOp | DeleteOp],
        require: Iterable[tuple[Sequence[str], str, int]] = (),
    ) -> list[int]:
        """All of these writes, in order, or none. Returns for each put the new version, for each delete the
        version that went, 0 if there was no such item.

        ``require`` lists ``(namespace, key, version)`` that must hold before (version 0: no such item), else
        :class:`Conflict`. Everything must be under one root, the first part of the namespace.
        """
        self._check("atomic_batch")
        writes = [self._write_op(op, f"ops[{index}]") for index, op in enumerate(ops)]
        needs = [checks.requirement(need, f"require[{index}]") for index, need in enumerate(require)]
        roots = {place.namespace[0] for place in (*writes, *needs)}
        if len(roots) > 1:
            raise InvalidInput(
                f"batch works within one root namespace, got {sorted(roots)}: make one batch for each"
            )
        return await self._write(self._write_request(writes, needs)) if roots else []

    async def clear_namespace(self, namespace: Sequence[str], *, prefix: bool = False) -> int:
        """Delete every item of the namespace (``prefix``: and of all below it) with its vector space.

        Returns how many items there were.
        """
        self._check()
        where = validate.namespace(namespace), checks.flag(prefix, "prefix")
        return await self._clear(*where, self._clock.now_us())

    async def purge_expired(self) -> int:
        """Free the space of expired items, which are absent already; returns how many went."""
        self._check("ttl")
        return await self._purge(self._clock.now_us())

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    async def erase_deleted(self) -> None:
        """See to it that what was deleted can't be read from files or logs of the storage any more.

        A backend that keeps no such traces does nothing.
        """
        self._check()
        await self._erase_deleted()

    async def get(self, namespace: Sequence[str], key: str) -> Any:
        """The value, or ``None`` if there is no such item."""
        item = await self.get_item(namespace, key)
        return None if item is None else item.value

    async def get_item(self, namespace: Sequence[str], key: str) -> StoreItem | None:
        """The item with its metadata, times and version."""
        self._check()
        (found,) = await self._read([checks.place(namespace, key)], self._clock.now_us())
        return None if found is None else found.decode()

    async def get_batch(self, places: Iterable[Sequence[Any]]) -> list[Any]:
        """The values at many ``(namespace, key)``, in the same order, ``None`` where there is no item."""
        self._check()
        wanted = checks.places(places)
        found = await self._read(wanted, self._clock.now_us()) if wanted else []
        return [None if item is None else item.decode().value for item in found]

    async def exists(self, namespace: Sequence[str], key: str) -> bool:
        """Whether there is such an item."""
        self._check()
        (found,) = await self._read([checks.place(namespace, key)], self._clock.now_us())
        return found is not None

    async def list_keys(
        self, namespace: Sequence[str], limit: int = 100, *, prefix: bool = False, after: str | None = None
    ) -> Page[str]:
        """Keys by code points. With ``prefix`` those of all namespaces below too, namespace by namespace."""
        request = self._scan_request(namespace, limit, prefix, None)
        page = await store_listing.by_key(self._scan, replace(request, keys_only=True), after)
        return Page([item.key for item in page], page.next)

    def iterate(
        self, namespace: Sequence[str], filter: Mapping[str, Any] | None = None, *, prefix: bool = False
    ) -> AsyncIterator[StoreItem]:
        """Every item, in the order of :meth:`list_keys`, read in small portions.

        An item that exists from beginning to end is given exactly once, whatever is written meanwhile.
        """
        return self._iterate(self._scan_request(namespace, store_listing.PORTION, prefix, filter))

    async def list_namespaces(
        self, prefix: Sequence[str] | None = None, limit: int = 100, *, after: str | None = None
    ) -> Page[Namespace]:
        """Namespaces that hold items, equal to ``prefix`` or below it, in a fixed order."""
        self._check("list_namespaces")
        start, limit = validate.namespace(prefix, "prefix") if prefix else None, validate.limit(limit)
        last = (
            None if after is None else validate.namespace(decode_cursor(after, "namespaces", 1)[0], "after")
        )
        found = await self._namespaces(start, limit + 1, last, self._clock.now_us()) if limit else []
        more = len(found) > limit
        found = found[:limit]
        return Page(found, encode_cursor("namespaces", list(found[-1])) if more else None)

    # ── searching ─────────────────────────────────────────────────────────────────────────────────

    @overload
    async def search(
        self,
        namespace: Sequence[str],
        query: str | None = None,
        limit: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        prefix: bool = False,
        after: str | None = None,
        scored: Literal[False] = False,
    ) -> Page[StoreItem]: ...

    @overload
    async def search(
        self,
        namespace: Sequence[str],
        query: str | None = None,
        limit: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        prefix: bool = False,
        after: str | None = None,
        scored: Literal[True],
    ) -> Page[SearchHit]: ...

    async def search(
        self,
        namespace: Sequence[str],
        query: str | None = None,
        limit: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        prefix: bool = False,
        after: str | None = None,
        scored: bool = False,
    ) -> Page[StoreItem] | Page[SearchHit]:
        """Items that pass the filter: with a query those with a word of it, best first; else newest first.

        ``scored=True`` gives each as a `SearchHit`; scores compare within one result only, and without a
        query all are 0.0. Pages of a query are cut from its ranking at the time of each call. Pages without
        one are complete: what is written while they are read comes (again) at the end.
        """
        if query is None:
            scan = self._scan_request(namespace, limit, prefix, filter)
            page = await store_listing.newest(self._scan, replace(scan, order="newest"), after)
            hits = Page([SearchHit(item.decode(), 0.0) for item in page], page.next)
        else:
            terms = query_terms(validate.text(query, "query"))
            request = self._text_request(namespace, terms, limit, prefix, filter)
            hits = await store_listing.ranked(self._text_candidates, request, after)
        return hits if scored else Page([hit.item for hit in hits], hits.next)

    async def search_by_embedding(
        self,
        namespace: Sequence[str],
        query_embedding: Embedding,
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
    ) -> list[SearchHit]:
        """Items of exactly this namespace by nearness, nearest first; of equally near ones the newest first.

        With ``threshold`` only those with at least that score.
        """
        space = self._vector_space()
        request = VectorRequest(
            namespace=validate.namespace(namespace),
            vector=check_vector(query_embedding, space, "query_embedding"),
            space=space,
            filter=self._filter(metadata_filter, "metadata_filter"),
            limit=validate.limit(limit),
            threshold=checks.threshold(threshold),
            now_us=self._clock.now_us(),
        )
        return [hit.decode() for hit in await self._nearest(request)] if request.limit else []

    async def text_candidates(
        self,
        namespace: Sequence[str],
        terms: Sequence[str],
        limit: int,
        filter: Mapping[str, Any] | None = None,
        *,
        prefix: bool = False,
    ) -> TextCandidates:
        """For ranking: items that have at least one of the terms (of `holdfast.memory.text.query_terms`).

        At most ``limit``, the best by BM25, with the term statistics of everything that was looked through.
        """
        request = self._text_request(namespace, checks.terms(terms), limit, prefix, filter)
        return (await self._text_candidates(request)).decode()

    async def neighbours(
        self, namespace: Sequence[str], group: str, ordinal: int, window: int
    ) -> list[StoreItem]:
        """Items around a place in a sequence, such as the turns before and after one turn of a session.

        They are those whose metadata has this ``group`` and an ``ordinal`` (a whole number) at most
        ``window`` away, in the order of their ordinals.
        """
        self._check("metadata_filter")
        place = validate.namespace(namespace), validate.identifier(group, "group")
        middle, window = checks.whole(ordinal, "ordinal"), validate.limit(window, "window")
        found = [item.decode() for item in await self._neighbours(*place, middle, window)]
        whole = [item for item in found if type(item.metadata["ordinal"]) is int]
        return sorted(whole, key=lambda item: (item.metadata["ordinal"], item.version))

    aput = _alias(put)
    aget = _alias(get)
    adelete = _alias(delete)
    asearch = _alias(search)
    alist_namespaces = _alias(list_namespaces)

    # ── life ──────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Release everything. Calling it again does nothing; any other call then raises `Closed`."""
        if not self._closed:
            self._closed = True
            await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # ── shared by the methods above ───────────────────────────────────────────────────────────────

    def _vector_space(self) -> VectorSpace:
        self._check()
        if self._space is None:
            raise Unsupported(
                f"{type(self).__name__} does not declare the capability 'vector_search': "
                "it was opened without dimension=, the length of the vectors"
            )
        self._check("vector_search")
        return self._space

    def _filter(self, given: Mapping[str, Any] | None, field: str = "filter") -> Filter:
        parsed = compile_filter(given, field)
        self._check("metadata_filter" if parsed.conditions else None)
        return parsed

    def _item_put(
        self,
        namespace: object,
        key: object,
        value: Any,
        metadata: object = None,
        ttl: object = None,
        *,
        at: str = "",
    ) -> ItemPut:
        self._check("ttl" if ttl is not None else None)
        space, name = checks.place(namespace, key, at=at)
        return ItemPut(
            namespace=space,
            key=name,
            value=codec.dumps(value, path=at + "value"),
            metadata=checks.metadata(metadata, at + "metadata"),
            text=value_text(value),
            expires_us=checks.expiry(ttl, self._clock.now_us(), at + "ttl"),
        )

    def _write_op(self, op: object, where: str) -> ItemPut | ItemDelete:
        at = where + "."
        if isinstance(op, PutOp):
            return self._item_put(op.namespace, op.key, op.value, op.metadata, op.ttl, at=at)
        if isinstance(op, DeleteOp):
            return ItemDelete(*checks.place(op.namespace, op.key, at=at))
        raise InvalidInput(f"{where} must be a PutOp or a DeleteOp, got {type(op).__name__}")

    def _write_request(
        self, ops: Sequence[ItemPut | ItemDelete], require: Sequence[Requirement] = ()
    ) -> WriteRequest:
        return WriteRequest(ops, require, self._space, self._clock.now_us())

    async def _write_one(self, op: ItemPut | ItemDelete, expected_version: int | None) -> int:
        need: list[Requirement] = []
        if expected_version is not None:
            self._check("compare_and_set")
            expected = checks.version(expected_version, "expected_version")
            need.append(Requirement(op.namespace, op.key, expected))
        (version,) = await self._write(self._write_request([op], need))
        return version

    def _scan_request(
        self, namespace: object, limit: object, prefix: object, filter: Mapping[str, Any] | None
    ) -> ScanRequest:
        self._check()
        return ScanRequest(
            namespace=validate.namespace(namespace),
            prefix=checks.flag(prefix, "prefix"),
            filter=self._filter(filter),
            limit=validate.limit(limit),
            now_us=self._clock.now_us(),
        )

    def _text_request(
        self,
        namespace: object,
        terms: Sequence[str],
        limit: object,
        prefix: object,
        filter: Mapping[str, Any] | None,
    ) -> TextRequest:
        self._check("text_search")
        return TextRequest(
            namespace=validate.namespace(namespace),
            prefix=checks.flag(prefix, "prefix"),
            terms=terms,
            filter=self._filter(filter),
            limit=validate.limit(limit),
            now_us=self._clock.now_us(),
        )

    async def _iterate(self, request: ScanRequest) -> AsyncIterator[StoreItem]:
        async for items in store_listing.portions(self._scan, request, self._clock.now_us):
            for item in items:
                self._check()
                yield item.decode()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "InMemoryStore":  # its module imports this one
            return import_module("holdfast.memory.backends.memory_store").InMemoryStore
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What a store backend implements. Callers use :class:`BaseStore`, which builds on it."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Closed, Unsupported
from holdfast.memory.filters import compile_filter
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_listing import PORTION, portions
from holdfast.memory.store_requests import (
    KeptItem,
    Namespace,
    Reader,
    Reading,
    ScanRequest,
    StoredCandidates,
    StoredHit,
    StoredItem,
    TextRequest,
    VectorRequest,
    WriteRequest,
)
from holdfast.memory.vectors import VectorSpace, parse_space

T = TypeVar("T")

_OFF_LOOP: Final = 256
"""More candidates than that are worked on in a thread: the event loop has others to serve."""


class StoreHooks:
    """The hooks, and what every hook may use: the clock, the vector space, whether the store is open."""

    def __init__(
        self,
        *,
        dimension: int | None = None,
        distance_metric: str = "COSINE",
        embedder: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``dimension`` turns vector search on; ``embedder`` names what makes the vectors, if given."""
        self._space = parse_space(dimension, distance_metric, embedder)
        self._clock = clock

    # A third party's subclass need not call __init__: these are the defaults.
    _space: VectorSpace | None = None
    _clock: Clock = SYSTEM_CLOCK
    _closed = False

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this backend can do, as it was opened: without ``dimension=`` there is no vector search."""
        return StoreCapabilities()

    def _check(self, capability: str | None = None) -> None:
        """Open, and able to do that."""
        if self._closed:
            raise Closed(f"{type(self).__name__} is closed")
        if capability is not None and not getattr(self.capabilities, capability):
            raise Unsupported(f"{type(self).__name__} does not declare the capability '{capability}'")

    # ── hooks: arguments are valid ────────────────────────────────────────────────────────────────

    async def _write(self, request: WriteRequest) -> list[int]:
        """All or nothing. For a put the new version, for a delete the version that went, 0 if there was none.

        A new version is greater than every version before. A put of a live item keeps its ``created_us``, unless it
        brings its own ``times``. A requirement that doesn't hold raises its ``conflict``. If a put has a vector,
        ``request.space`` is checked against that of the namespace, or recorded if there is none.
        """
        raise self._missing("put")

    async def _read(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[StoredItem | None]:
        """The item at each place, in the same order."""
        raise self._missing("get")

    async def _read_kept(self, places: Sequence[tuple[Namespace, str]], now_us: int) -> list[KeptItem | None]:
        """Like `_read`, each with its vector, as it was put, and with the time at which it expires."""
        raise self._missing("migrate")

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        raise self._missing("search")

    async def _clear(self, namespace: Namespace, prefix: bool, now_us: int) -> int:
        """Expired items go too, but are not counted."""
        raise self._missing("clear_namespace")

    async def _purge(self, now_us: int) -> int:
        raise self._missing("purge_expired")

    async def _erase_deleted(self) -> None:
        """Nothing to do, where deleting leaves no traces."""

    async def _namespaces(
        self, prefix: Namespace | None, limit: int, after: Namespace | None, now_us: int
    ) -> list[Namespace]:
        """Those with unexpired items, in the order of :func:`encode_namespace`."""
        raise self._missing("list_namespaces")

    async def _text_candidates(self, request: TextRequest) -> StoredCandidates:
        raise self._missing("text_candidates")

    async def _read_candidates(self, request: TextRequest, reader: Reader[T]) -> T:
        """Have the candidates read, and the items around them that the reader asks for; returns what it returns.

        Here that is a round trip each. A backend that can do all of it in one, off the event loop, should.
        """
        found = await self._text_candidates(request)
        elsewhere = len(found.candidates) > _OFF_LOOP
        reading = reader(found)
        asked, value = await _called(elsewhere, _advance, reading, None)
        while asked is not None:
            items: list[StoredItem] = []
            if self.capabilities.metadata_filter:
                for stretch in asked:
                    items += await self._neighbours(request.namespace, *stretch)
            asked, value = await _called(elsewhere, _advance, reading, items)
        result: T = value
        return result

    async def _nearest(self, request: VectorRequest) -> list[StoredHit]:
        """If the namespace has a vector space, ``request.space.check`` it."""
        raise self._missing("search_by_embedding")

    async def _space_of(self, namespace: Namespace, prefix: bool) -> VectorSpace | None:
        """The vector space that is recorded for a namespace; ``prefix``: of it or of the first below it that has one.

        It must not matter for which space this object was opened, or whether for any.
        """
        raise self._missing("space_of")

    async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
        """Record that space for a namespace which has another, and drop its vectors, in one step: no reader and no
        writer meets the one without the other. The items stay as they are, with their versions.

        Returns how many vectors went. If exactly that space is recorded, or none, nothing happens: so it can be
        repeated, and two that do it at once don't undo what the other embedded since.
        """
        raise self._missing("change_space")

    async def _without_vectors(self, request: ScanRequest) -> list[StoredItem]:
        """Unexpired items of exactly that namespace that have no vector, in the order of their keys, after the place
        ``after`` if given. The filter is empty; ``order`` is ``"key"``."""
        raise self._missing("without_vectors")

    def _open_space(self, space: VectorSpace) -> None:
        """From now on this object is open for vectors of that space: for one that was opened without knowing it.

        A backend that needs it when it connects must see to that here.
        """
        self._space = space

    async def _neighbours(
        self, namespace: Namespace, group: str, ordinal: int, window: int
    ) -> list[StoredItem]:
        """In any order. A backend with an index on these two may do better than this scan."""
        span = {"$gte": ordinal - window, "$lte": ordinal + window}
        condition = compile_filter({"group": group, "ordinal": span})
        request = ScanRequest(namespace, False, condition, PORTION, self._clock.now_us())
        found: list[StoredItem] = []
        async for items in portions(self._scan, request, self._clock.now_us):
            found += items
        return found

    async def _close(self) -> None:
        """Called once."""

    def _missing(self, method: str) -> Unsupported:
        return Unsupported(f"{type(self).__name__} does not implement {method}()")


def _advance(reading: Reading[Any], items: Any) -> tuple[Any, Any]:
    """What it asks for, or ``None`` and what it returned."""
    try:
        return reading.send(items), None
    except StopIteration as end:
        return None, end.value


async def _called(elsewhere: bool, work: Callable[..., T], *arguments: Any) -> T:
    if not elsewhere:
        return work(*arguments)
    import asyncio  # only here: importing the contract is to cost little

    return await asyncio.to_thread(work, *arguments)

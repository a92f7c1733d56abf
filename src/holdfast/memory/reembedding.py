"""Embed anew what a memory holds: for another embedder, or where vectors are missing.

For each user: if the stored vectors are another embedder's, they are given up in one step, and from then on only the
new one's are taken. Then all episodes without a vector get one, a portion at a time. What is still to be done is what
the store says has no vector: so a run that was killed is completed by the next one, and one that finds nothing does
nothing.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from holdfast.core.errors import Conflict
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory.buckets import ROOT, bucket_of, is_bucket
from holdfast.memory.embedder.base import Embedder, space_of_embedder
from holdfast.memory.records import StoreItem
from holdfast.memory.store import BaseStore
from holdfast.memory.store_requests import Namespace, Requirement
from holdfast.memory.vectors import VectorSpace, check_vector

__all__ = ["Progress", "Reembedded", "reembed"]

PORTION: Final = 64
_PAGE: Final = 1000
_PASSES: Final = 100
_EPISODES: Final = "episodes"

Progress = Callable[[int, int], None]
"""Is told how many episodes are done, and how many there were to do when it began."""


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What was done; in a dry run, what would be.

    ``users`` had something to do. ``dropped`` vectors of another embedder were given up, ``embedded`` episodes got a
    vector. ``skipped`` ones have no text to embed.
    """

    embedder: str
    users: int = 0
    dropped: int = 0
    embedded: int = 0
    skipped: int = 0
    dry_run: bool = False


async def reembed(
    store: BaseStore,
    space: str,
    embedder: Embedder,
    *,
    user_id: str | UnsetType | None = UNSET,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> Reembedded:
    """Bring all episodes of the memory ``space``, or of one user, to that embedder, for which the store must be open.

    An episode that is changed meanwhile is done again as it then is, and none is lost.
    """
    store._check("compare_and_set")  # without it, what others write meanwhile would be written over
    work = _Work(store, embedder, space_of_embedder(embedder))
    if dry_run or progress is not None:
        plan = Reembedded(embedder.name, dry_run=True)
        async for place in _places(store, space, user_id):
            plan = await work.plan(place, plan)
        if dry_run:
            return plan
        work.total = plan.embedded
    work.progress = progress
    work.tell(0)
    done = Reembedded(embedder.name)
    async for place in _places(store, space, user_id):
        done = await work.do(place, done)
    return done


async def _places(store: BaseStore, space: str, user_id: str | UnsetType | None) -> AsyncIterator[Namespace]:
    """Where there are episodes."""
    if user_id is not UNSET:
        yield (*bucket_of(space, user_id), _EPISODES)
        return
    after = None
    while True:
        page = await store.list_namespaces((ROOT, space), _PAGE, after=after)
        for place in page:
            if len(place) == 4 and is_bucket(place[2]) and place[3] == _EPISODES:
                yield place
        after = page.next
        if after is None:
            return


@dataclass(slots=True)
class _Work:
    store: BaseStore
    embedder: Embedder
    target: VectorSpace
    progress: Progress | None = None
    done: int = 0
    total: int = 0

    def tell(self, more: int) -> None:
        self.done += more
        if self.progress is not None:
            self.progress(self.done, max(self.done, self.total))

    async def plan(self, place: Namespace, so_far: Reembedded) -> Reembedded:
        """With what there is to do at that place."""
        found = empty = lacking = 0
        async for items in self._lacking(place):
            texts = sum(_text(item) is not None for item in items)
            found, empty, lacking = found + texts, empty + len(items) - texts, lacking + len(items)
        dropped = 0
        if await self.store.space_of(place) not in (None, self.target):
            dropped = await _count(self.store, place) - lacking
        return _added(so_far, dropped, found + dropped, empty)

    async def do(self, place: Namespace, so_far: Reembedded) -> Reembedded:
        """With what was done at that place."""
        dropped = await self.store.change_space(place, self.target)
        embedded = 0
        for _ in range(_PASSES):
            changed = skipped = 0
            async for items in self._lacking(place):
                texts = [item for item in items if _text(item) is not None]
                written = await self._embed(place, texts) if texts else 0
                self.tell(written)
                embedded += written
                changed, skipped = changed + len(texts) - written, skipped + len(items) - len(texts)
            if not changed:
                return _added(so_far, dropped, embedded, skipped)
        raise Conflict(
            f"episodes in {place!r} keep changing while they are embedded: try again when it is quiet"
        )

    async def _embed(self, place: Namespace, items: Sequence[StoreItem]) -> int:
        """Write vectors beside these items; returns how many were still as they had been read."""
        vectors = await self.embedder.embed([_text(item) or "" for item in items])
        pairs = list(zip(items, vectors, strict=True))
        if self.store.capabilities.atomic_batch and await self._put(place, pairs):
            return len(items)
        return sum([await self._put(place, [pair]) for pair in pairs])

    async def _put(self, place: Namespace, pairs: "Sequence[tuple[StoreItem, list[float]]]") -> bool:
        """All of them in one write, unless one was changed meanwhile."""
        store = self.store
        puts = [
            replace(
                store._item_put(place, item.key, item.value, item.metadata),
                vector=check_vector(vector, self.target),
            )
            for item, vector in pairs
        ]
        needs = [Requirement(place, item.key, item.version) for item, _ in pairs]
        try:
            await store._write(store._write_request(puts, needs))
        except Conflict:
            return False
        return True

    async def _lacking(self, place: Namespace) -> AsyncIterator[list[StoreItem]]:
        after = None
        while True:
            page = await self.store.without_vectors(place, PORTION, after=after)
            if page:
                yield page
            after = page.next
            if after is None:
                return


def _text(item: StoreItem) -> str | None:
    """What there is to embed."""
    text = item.value.get("text") if isinstance(item.value, dict) else None
    return text if isinstance(text, str) and text.strip() else None


async def _count(store: BaseStore, place: Namespace) -> int:
    count, after = 0, None
    while True:
        page = await store.list_keys(place, _PAGE, after=after)
        count, after = count + len(page), page.next
        if after is None:
            return count


def _added(so_far: Reembedded, dropped: int, embedded: int, skipped: int) -> Reembedded:
    return replace(
        so_far,
        users=so_far.users + bool(dropped or embedded),
        dropped=so_far.dropped + dropped,
        embedded=so_far.embedded + embedded,
        skipped=so_far.skipped + skipped,
    )

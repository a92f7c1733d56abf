"""Which vectors a namespace holds, and what it takes to embed its items anew: a part of `BaseStore`."""

from collections.abc import Sequence

from holdfast.core.errors import InvalidInput
from holdfast.memory import store_checks as checks
from holdfast.memory import store_listing, validate
from holdfast.memory.filters import compile_filter
from holdfast.memory.records import Page, StoreItem
from holdfast.memory.store_hooks import StoreHooks
from holdfast.memory.store_requests import ScanRequest
from holdfast.memory.vectors import VectorSpace

__all__ = ["StoreSpaces"]


class StoreSpaces(StoreHooks):
    """The methods of a store about vector spaces. They work whatever space the store was opened for."""

    async def space_of(self, namespace: Sequence[str], *, prefix: bool = False) -> VectorSpace | None:
        """Which vectors a namespace holds: embedder, dimension and metric. ``None`` if it has none.

        With ``prefix``: those of this namespace, or of the first below it that has some.
        """
        self._check()
        return await self._space_of(validate.namespace(namespace), checks.flag(prefix, "prefix"))

    async def change_space(self, namespace: Sequence[str], space: VectorSpace) -> int:
        """Give up the vectors of a namespace for another embedder's; returns how many went.

        The items stay as they are, and `without_vectors` lists them. Vectors of any other space are refused from then
        on. Nothing happens if it has that space already, or no vectors.
        """
        self._check()
        place = validate.namespace(namespace)
        if not isinstance(space, VectorSpace):
            raise InvalidInput(f"space must be a VectorSpace, got {type(space).__name__}")
        return await self._change_space(place, space)

    async def without_vectors(
        self, namespace: Sequence[str], limit: int = 100, *, after: str | None = None
    ) -> Page[StoreItem]:
        """Items of exactly this namespace that have no vector, in the order of `list_keys`."""
        self._check()
        request = ScanRequest(
            validate.namespace(namespace),
            False,
            compile_filter(None),
            validate.limit(limit),
            self._clock.now_us(),
        )
        page = await store_listing.by_key(self._without_vectors, request, after)
        return Page([item.decode() for item in page], page.next)

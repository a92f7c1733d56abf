"""The embedder of a memory for which nobody named one."""

from typing import TYPE_CHECKING

from holdfast.core.errors import InvalidInput, MissingExtra, Unsupported
from holdfast.memory.buckets import ROOT
from holdfast.memory.embedder.base import space_of_embedder
from holdfast.memory.store import BaseStore

if TYPE_CHECKING:
    from holdfast.memory.embedder.base import Embedder
    from holdfast.memory.vectors import VectorSpace

__all__ = ["StickyEmbedder"]


class StickyEmbedder:
    """What made the vectors that are stored, else the best there is: chosen when it is first needed, then kept.

    The store is opened for its vectors.

    A key or a package that is new in the environment does not change the embedder of what is stored. If that can't be
    had any more, `InvalidInput` says so: recall that is silently worse would not be noticed.
    """

    def __init__(self, store: BaseStore, space: str) -> None:
        self._store = store
        self._space = space
        self._decided = False
        self._chosen: Embedder | None = None

    async def get(self) -> "Embedder | None":
        """The embedder; ``None`` if there is none, and nothing was ever embedded."""
        if not self._decided:
            stored = await self._stored()
            found = _automatic() if stored is None else self._recorded(stored)
            if found is not None:
                self._store._open_space(space_of_embedder(found))
            self._chosen, self._decided = found, True
        return self._chosen

    async def _stored(self) -> "VectorSpace | None":
        """What is stored. A backend that can't tell may still refuse what does not fit."""
        try:
            return await self._store.space_of((ROOT, self._space), prefix=True)
        except Unsupported:
            return None

    def _recorded(self, stored: "VectorSpace") -> "Embedder":
        from holdfast.memory.embedder.resolve import embedder_by_record

        try:
            return embedder_by_record(stored)
        except (InvalidInput, MissingExtra) as error:
            raise InvalidInput(
                f"the memory {self._space!r} holds vectors of {stored}, and no embedder was named: {error}."
                " Name one with embedder=, or in HOLDFAST_EMBEDDER; 'none' recalls by words. To change to another one:"
                " holdfast reembed"
            ) from error


def _automatic() -> "Embedder | None":
    from holdfast.memory.embedder.resolve import resolve_embedder

    return resolve_embedder()

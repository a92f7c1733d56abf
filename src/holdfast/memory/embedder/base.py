"""What an embedder is, and how a store is opened for its vectors."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast.memory.vectors import VectorSpace, parse_space

__all__ = ["Embedder", "space_of_embedder", "store_options"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose nearness is nearness of meaning. Any object with these four can be one.

    Ours take texts of any length, in any number, and refuse a blank one with `InvalidInput`, as it has no meaning. One
    object can be used on several event loops and in several threads. A service that can't be reached is
    `ModelUnavailable`, one that refuses is `ModelError`.
    """

    @property
    def name(self) -> str:
        """What the vectors are recorded with. Vectors of two names are never compared; 255 characters at most."""
        ...

    @property
    def dimension(self) -> int:
        """How long each vector is."""
        ...

    @property
    def metric(self) -> str:
        """How its vectors are compared: a ``distance_metric`` of the stores, mostly ``"COSINE"``."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in the same order."""
        ...


def space_of_embedder(embedder: Embedder) -> VectorSpace:
    """What its vectors are recorded as."""
    space = parse_space(embedder.dimension, embedder.metric, embedder.name)
    assert space is not None  # an embedder has a dimension
    return space


def store_options(embedder: Embedder | None) -> dict[str, Any]:
    """The options that open a store for an embedder's vectors: ``connect(url, **store_options(embedder))``."""
    if embedder is None:
        return {}
    return {
        "dimension": embedder.dimension,
        "distance_metric": embedder.metric,
        "embedder": embedder.name,
    }

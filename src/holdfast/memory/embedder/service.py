"""What embedders over a service share: batches, shortened vectors, connections."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from holdfast.memory.embedder.texts import Vector, check_max_bytes, embed_in_batches, pick_dimension

__all__ = ["EmbeddingService", "ServiceEmbedder"]


class EmbeddingService(Protocol):
    """A connection to a service that makes vectors."""

    name: str

    async def embed(self, texts: list[str], options: Mapping[str, Any]) -> list[Vector]:
        """A vector for each text."""
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        ...


class ServiceEmbedder:
    """An embedder whose vectors a service makes. Its classes say which models they know."""

    metric = "COSINE"
    provider: ClassVar[str]
    known: ClassVar[Mapping[str, int]]
    max_items: ClassVar[int]

    def __init__(
        self, service: EmbeddingService, model: str, *, dimension: int | None, max_bytes: int
    ) -> None:
        self._service = service
        self.dimension = pick_dimension(model, dimension, self.known)
        self._shortened = model in self.known and self.dimension != self.known[model]
        self._max_bytes = check_max_bytes(max_bytes)
        self.name = f"{self.provider}:{model}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, in the same order."""
        asked = {"dimensions": self.dimension} if self._shortened else {}
        return await embed_in_batches(
            texts,
            lambda batch: self._service.embed(batch, asked),
            dimension=self.dimension,
            max_bytes=self._max_bytes,
            max_items=self.max_items,
            provider=self.name,
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The embedder can still be used: it opens new ones."""
        await self._service.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._service.name!r})"

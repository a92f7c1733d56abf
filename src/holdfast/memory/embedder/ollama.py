"""Vectors of the models that an Ollama server runs, over the vendor's SDK."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.errors import MissingExtra
from holdfast.memory.embedder.service import ServiceEmbedder
from holdfast.memory.embedder.texts import Vector
from holdfast.models.ollama import OllamaModel

__all__ = ["DEFAULT_MODEL", "OllamaEmbedder"]

DEFAULT_MODEL: Final = "nomic-embed-text"
TIMEOUT: Final = 120.0  # the first request loads the model

_DIMENSIONS: Final = {
    "all-minilm": 384,
    "bge-large": 1024,
    "bge-m3": 1024,
    "embeddinggemma": 768,
    "mxbai-embed-large": 1024,
    "nomic-embed-text": 768,
    "snowflake-arctic-embed": 1024,
    "snowflake-arctic-embed2": 1024,
}
# Many of these models see 512 tokens of a text, and the server drops the rest in silence.
_MAX_BYTES: Final = 1_500
_MAX_ITEMS: Final = 64


class OllamaEmbedder(ServiceEmbedder):
    """Vectors of an embedding model on an Ollama server, by its name there: ``nomic-embed-text``.

    The server is at `base_url` or ``OLLAMA_HOST``, by default on this machine. `dimension` is needed for models
    that are not known here; one that differs from a known model's asks the server for shorter vectors. `max_bytes`
    is how much of a text is sent in one piece: the vector of a longer one is the mean of its pieces. After 429, 5xx
    and failed connections a request is tried again, up to `max_retries` times. Other options are sent with every
    request (``keep_alive``, ``options``).
    """

    provider = "ollama"
    known = _DIMENSIONS
    max_items = _MAX_ITEMS

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        dimension: int | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = TIMEOUT,
        max_retries: int = 2,
        max_bytes: int = _MAX_BYTES,
        **options: Any,
    ) -> None:
        try:
            service = _Service(
                model,
                api_key=api_key,
                base_url=base_url,
                timeout=timeout,
                max_retries=max_retries,
                **options,
            )
        except MissingExtra:
            raise MissingExtra("OllamaEmbedder", "ollama") from None
        super().__init__(service, model.removesuffix(":latest"), dimension=dimension, max_bytes=max_bytes)


class _Service(OllamaModel):
    """The connection that the chat model has: a client per event loop, retries, errors in our terms."""

    async def embed(self, texts: list[str], options: Mapping[str, Any]) -> list[Vector]:
        async def send() -> Any:
            async with asyncio.timeout(self.timeout):
                return await self._client().embed(model=self.name, input=texts, **self._chosen(options))

        with self._talking():
            answer = await self._tried(send)
            return [list(vector) for vector in answer.embeddings]

"""Vectors of OpenAI's models, and of every server with the same API, over the vendor's SDK."""

import os
from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.memory.embedder.service import ServiceEmbedder
from holdfast.memory.embedder.texts import Vector
from holdfast.models.openai import OpenAIModel

__all__ = ["DEFAULT_MODEL", "OpenAIEmbedder"]

DEFAULT_MODEL: Final = "text-embedding-3-small"
TIMEOUT: Final = 60.0

_DIMENSIONS: Final = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
# The service takes 8,192 tokens of a text and 300,000 of a request; a token has one byte or more.
_MAX_BYTES: Final = 8_000
# It would take 2,048 texts; but reading so many vectors would hold up the event loop.
_MAX_ITEMS: Final = 128


class OpenAIEmbedder(ServiceEmbedder):
    """Vectors of an embedding model of OpenAI, or of a server with the same API at `base_url` (``OPENAI_BASE_URL``).

    The key is `api_key` or ``OPENAI_API_KEY``; a server at a `base_url` may need none. `dimension` shortens the
    vectors of OpenAI's models; of others, it says how long they are. `max_bytes` is how much of a text is sent in
    one piece: the vector of a longer one is the mean of its pieces. The SDK tries again after 429, 5xx and failed
    connections, up to `max_retries` times. Other options are sent with every request.
    """

    provider = "openai"
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
        if not any((api_key, base_url, os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL"))):
            raise InvalidInput("OpenAIEmbedder needs a key: set OPENAI_API_KEY or pass api_key=...")
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
            raise MissingExtra("OpenAIEmbedder", "openai") from None
        super().__init__(service, model, dimension=dimension, max_bytes=max_bytes)


class _Service(OpenAIModel):
    """The connection that the chat model has: a client per event loop, retries, errors in our terms."""

    async def embed(self, texts: list[str], options: Mapping[str, Any]) -> list[Vector]:
        with self._talking():
            asked: Any = {"model": self.name, "input": texts, **self._chosen(options)}
            try:
                answer = await self._client().embeddings.create(**asked)
            except AttributeError as error:  # the SDK takes a page of a web server for an answer
                raise self._failed("the answer has no embeddings; is base_url right?") from error
            return [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]

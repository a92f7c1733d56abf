"""Vectors of the models of sentence-transformers, which run in this process."""

import asyncio
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from holdfast.core.errors import InvalidInput, ModelError
from holdfast.memory import validate
from holdfast.memory.embedder.texts import Vector, check_max_bytes, check_number, embed_in_batches

__all__ = ["DEFAULT_MODEL", "SentenceTransformerEmbedder"]

DEFAULT_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"
_DIMENSIONS: Final = {"all-MiniLM-L6-v2": 384, "all-MiniLM-L12-v2": 384, "all-mpnet-base-v2": 768}
_PREFIX: Final = "sentence-transformers/"
# Most of these models see 256 to 512 tokens of a text, and drop the rest in silence.
_MAX_BYTES: Final = 1_000
_MAX_ITEMS: Final = 256


class SentenceTransformerEmbedder:
    """Vectors of a model of sentence-transformers, by its name or its folder. It needs that package, and torch.

    The model is loaded, and downloaded if it is not there, with the first text, in a thread; or when `dimension` is
    asked for, where it is neither given nor known. `max_bytes` is how much of a text the model sees in one piece:
    the vector of a longer one is the mean of its pieces. Options go to ``SentenceTransformer`` (``device``,
    ``cache_folder``, ...).
    """

    metric = "COSINE"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        dimension: int | None = None,
        max_bytes: int = _MAX_BYTES,
        **options: Any,
    ) -> None:
        self._name = validate.identifier(model, "model")
        if find_spec("sentence_transformers") is None:
            raise InvalidInput(  # no extra of ours: it brings a framework of gigabytes, which is yours to choose
                "SentenceTransformerEmbedder needs a package: pip install sentence-transformers"
            )
        known = _DIMENSIONS.get(model.removeprefix(_PREFIX))
        self._dimension = known if dimension is None else check_number(dimension, "dimension")
        self._max_bytes = check_max_bytes(max_bytes)
        self._options = options
        self._model: Any = None
        self._lock = threading.Lock()
        self.name = f"sentence-transformers:{model.removeprefix(_PREFIX)}"

    @property
    def dimension(self) -> int:
        """How long each vector is. If that is not known yet, this loads the model, which takes seconds."""
        if self._dimension is None:
            self._dimension = int(self._loaded().get_sentence_embedding_dimension())
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await embed_in_batches(
            texts,
            lambda batch: asyncio.to_thread(self._encode, batch),
            dimension=await asyncio.to_thread(lambda: self.dimension),
            max_bytes=self._max_bytes,
            max_items=_MAX_ITEMS,
            provider=self.name,
        )

    def _encode(self, texts: list[str]) -> list[Vector]:
        model = self._loaded()
        with self._lock:  # its tokenizer can't be used by two threads
            found: list[Vector] = model.encode(texts, convert_to_numpy=True, show_progress_bar=False).tolist()
        return found

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                package = import_module("sentence_transformers")
                try:
                    self._model = package.SentenceTransformer(self._name, **self._options)
                except Exception as error:
                    raise ModelError(f"{self.name} can't be loaded: {error}", provider=self.name) from error
            return self._model

    def __repr__(self) -> str:
        return f"SentenceTransformerEmbedder({self._name!r})"

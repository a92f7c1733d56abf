"""Which embedder to use: the one that is named, else the best that is there."""

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Final

from holdfast.core.errors import InvalidInput
from holdfast.memory.embedder.base import Embedder, space_of_embedder
from holdfast.memory.embedder.hashed import HashEmbedder
from holdfast.memory.embedder.local import LocalEmbedder
from holdfast.memory.embedder.ollama import OllamaEmbedder
from holdfast.memory.embedder.openai import OpenAIEmbedder
from holdfast.memory.embedder.transformer import SentenceTransformerEmbedder
from holdfast.memory.vectors import VectorSpace

__all__ = ["VARIABLE", "embedder_by_record", "is_automatic", "resolve_embedder"]

VARIABLE: Final = "HOLDFAST_EMBEDDER"

_NAMED: Final[Mapping[str, Callable[[], Embedder]]] = {
    "openai": OpenAIEmbedder,
    "openai-small": lambda: OpenAIEmbedder("text-embedding-3-small"),
    "openai-large": lambda: OpenAIEmbedder("text-embedding-3-large"),
    "ollama": OllamaEmbedder,
    "sentence-transformers": SentenceTransformerEmbedder,
    "local": LocalEmbedder,
    "hash": HashEmbedder,
}
# Those that have models by name: "ollama:bge-m3".
_OF_MODEL: Final[Mapping[str, Callable[..., Embedder]]] = {
    "openai": OpenAIEmbedder,
    "ollama": OllamaEmbedder,
    "sentence-transformers": SentenceTransformerEmbedder,
}


def resolve_embedder(spec: "str | Embedder | None" = None) -> Embedder | None:
    """The embedder that `spec` names; ``None`` is none, and recall is lexical.

    - an embedder: itself
    - ``"openai"`` (``"openai-small"``), ``"openai-large"``, ``"openai:MODEL"``, ``"ollama"``, ``"ollama:MODEL"``,
      ``"sentence-transformers"``, ``"sentence-transformers:MODEL"``, ``"local"``
    - ``"hash"``, for tests only
    - ``"none"``: none
    - ``None`` or ``"auto"``: what ``HOLDFAST_EMBEDDER`` names; else OpenAI's, if ``OPENAI_API_KEY`` is set and the
      package is there; else the local one, if its extra is there; else none
    """
    if spec is None or spec == "auto":
        named = os.environ.get(VARIABLE, "").strip()
        return _by_name(named, VARIABLE) if named and named.lower() != "auto" else _automatic()
    if isinstance(spec, str):
        return _by_name(spec, "embedder")
    if isinstance(spec, Embedder):
        return spec
    raise InvalidInput(
        "embedder must be a name such as 'openai', or an object with name, dimension, metric and async"
        f" embed(texts), got {type(spec).__name__}"
    )


def is_automatic(spec: object) -> bool:
    """Whether nobody has named an embedder, in the environment neither."""
    return (spec is None or spec == "auto") and os.environ.get(VARIABLE, "").strip().lower() in ("", "auto")


def embedder_by_record(space: VectorSpace) -> Embedder:
    """The embedder whose vectors are recorded so. `InvalidInput` or `MissingExtra` if it can't be had here."""
    kind, _, model = (space.embedder or "").partition(":")
    made: Embedder | None = None
    if kind == "hash" and not model:
        made = HashEmbedder(space.dimension)
    elif space.embedder == LocalEmbedder.name:
        made = LocalEmbedder()
    elif kind in _OF_MODEL and model:
        made = _OF_MODEL[kind](model, dimension=space.dimension)
    if made is None or space_of_embedder(made) != space:
        raise InvalidInput(f"{space} can't be had by its name alone")
    return made


def _automatic() -> Embedder | None:
    if os.environ.get("OPENAI_API_KEY") and find_spec("openai") is not None:
        return OpenAIEmbedder()
    return LocalEmbedder() if LocalEmbedder.is_installed() else None


def _by_name(spec: str, field: str) -> Embedder | None:
    kind, colon, model = (part.strip() for part in spec.partition(":"))
    kind = kind.lower()
    if kind == "none" and not colon:
        return None
    if kind in _NAMED and not model:
        return _NAMED[kind]()
    if kind in _OF_MODEL:
        return _OF_MODEL[kind](model)
    close = get_close_matches(kind, [*_NAMED, "none", "auto"], n=1)
    hint = (
        f"did you mean {close[0] + colon + model!r}" if close and close[0] != kind else "write a name alone"
    )
    known = ", ".join([*_NAMED, "none"])
    raise InvalidInput(f"{field} is {spec!r}, and there is no such embedder; {hint}; known are {known}")

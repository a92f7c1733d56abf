"""What turns texts into vectors. Names are imported when they are used, what is behind them later still."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.memory.embedder.base import Embedder, store_options
    from holdfast.memory.embedder.hashed import HashEmbedder
    from holdfast.memory.embedder.local import LocalEmbedder
    from holdfast.memory.embedder.ollama import OllamaEmbedder
    from holdfast.memory.embedder.openai import OpenAIEmbedder
    from holdfast.memory.embedder.resolve import resolve_embedder
    from holdfast.memory.embedder.transformer import SentenceTransformerEmbedder

__all__ = [
    "Embedder",
    "HashEmbedder",
    "LocalEmbedder",
    "OllamaEmbedder",
    "OpenAIEmbedder",
    "SentenceTransformerEmbedder",
    "resolve_embedder",
    "store_options",
]

__getattr__, __dir__ = doors(
    __name__,
    {
        "Embedder": "holdfast.memory.embedder.base",
        "HashEmbedder": "holdfast.memory.embedder.hashed",
        "LocalEmbedder": "holdfast.memory.embedder.local",
        "OllamaEmbedder": "holdfast.memory.embedder.ollama",
        "OpenAIEmbedder": "holdfast.memory.embedder.openai",
        "SentenceTransformerEmbedder": "holdfast.memory.embedder.transformer",
        "resolve_embedder": "holdfast.memory.embedder.resolve",
        "store_options": "holdfast.memory.embedder.base",
    },
)

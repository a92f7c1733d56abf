"""Memories by the database that they are kept in: a class for each, over what a URL says as well.

A door is a class method or two that make the URL. The names that callers import are in `holdfast.memory.chroma`,
`holdfast.memory.sqlite` and so on.
"""

import os
from typing import TYPE_CHECKING, Self

from holdfast.resolving import LazyMemory

if TYPE_CHECKING:
    from holdfast.memory.embedder import Embedder

__all__ = ["ChromaMemory", "InMemoryMemory", "SqliteMemory"]


class SqliteMemory(LazyMemory):
    """A memory in one SQLite file, with the threads beside it."""

    @classmethod
    def local(
        cls,
        path: str | os.PathLike[str] = "holdfast.db",
        *,
        namespace: str = "default",
        embedder: "str | Embedder | None" = None,
        with_facts: bool = True,
    ) -> Self:
        url = f"sqlite:{os.fspath(path)}"
        return cls(url, namespace=namespace, embedder=embedder, with_facts=with_facts)


class ChromaMemory(LazyMemory):
    """A memory in a Chroma directory, or in Chroma's memory. Chroma keeps no threads."""

    @classmethod
    def local(
        cls,
        path: str | os.PathLike[str] = "holdfast_chroma",
        *,
        namespace: str = "default",
        embedder: "str | Embedder | None" = None,
        with_facts: bool = True,
    ) -> Self:
        url = f"chroma:{os.fspath(path)}"
        return cls(url, namespace=namespace, embedder=embedder, with_facts=with_facts)

    @classmethod
    def ephemeral(
        cls,
        *,
        namespace: str = "default",
        embedder: "str | Embedder | None" = None,
        with_facts: bool = True,
    ) -> Self:
        """Gone when it is closed."""
        return cls("chroma::memory:", namespace=namespace, embedder=embedder, with_facts=with_facts)


class InMemoryMemory(LazyMemory):
    """A memory in this process alone, threads included; gone when it is closed."""

    def __init__(
        self,
        *,
        namespace: str = "default",
        embedder: "str | Embedder | None" = None,
        with_facts: bool = True,
    ) -> None:
        super().__init__("memory:", namespace=namespace, embedder=embedder, with_facts=with_facts)

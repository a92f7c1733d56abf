"""Stores of every kind, for tests that must hold on all of them."""

from collections.abc import Callable
from itertools import count

import pytest

from holdfast.memory.store import BaseStore, InMemoryStore
from holdfast.memory.store_backends import ChromaStore, MySQLStore, PostgresStore, SQLiteStore

KINDS = [
    "memory",
    "sqlite",
    "postgres",
    "mariadb",
    pytest.param("chroma", marks=pytest.mark.requires("chromadb")),
]
"""To be the values of a parameter."""

_numbers = count(1)


def opener(kind: str, request: pytest.FixtureRequest) -> Callable[[], BaseStore]:
    """What opens a new, empty store of that kind."""
    if kind == "chroma":
        pytest.importorskip("chromadb", reason="needs chromadb")
        return ChromaStore
    if kind == "memory":
        return InMemoryStore
    if kind == "sqlite":
        folder = request.getfixturevalue("tmp_path")
        return lambda: SQLiteStore(folder / f"{next(_numbers)}.db")
    url = request.getfixturevalue(kind).url
    store = PostgresStore if kind == "postgres" else MySQLStore
    return lambda: store(url, table_name=f"items{next(_numbers)}")

"""The conformance suite on SQLite: a file, memory, and the blocking twin."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.store import BaseStore, StoreCapabilities
from holdfast.testing.store_cases.nearness import NearnessCases
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.memory.facing_store import BlockingStoreFace

ALL = frozenset(field.name for field in fields(StoreCapabilities))


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class TestSQLiteStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        def open_file(**options: Any) -> BaseStore:
            return SQLiteStore(tmp_path / "test.db", durability="normal", **given(options))

        return open_file


class TestSQLiteStoreInMemory(StoreSuite):
    required = ALL
    shared_storage = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **options: SQLiteStore(**given(options))


class TestSQLiteStoreWithoutCache(NearnessCases):
    """Vectors are streamed from the file for each search."""

    required = ALL

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        def open_file(**options: Any) -> BaseStore:
            path = tmp_path / "test.db"
            return SQLiteStore(path, durability="normal", vector_cache_bytes=0, **given(options))

        return open_file


class TestSQLiteSyncStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        def open_twin(**options: Any) -> BaseStore:
            twin = SQLiteSyncStore(tmp_path / "test.db", durability="normal", **given(options))
            return BlockingStoreFace(twin)

        return open_twin

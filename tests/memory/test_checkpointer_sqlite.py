"""The conformance suite on SQLite: a file, memory, and the blocking twin."""

from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from tests.memory.facing import BlockingCheckpointerFace

ALL = frozenset(field.name for field in fields(CheckpointerCapabilities))


class TestSQLiteCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, tmp_path: Path) -> OpenCheckpointer:
        def open_file(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return SQLiteCheckpointer(
                tmp_path / "test.db",
                durability="normal",
                clock=clock or SYSTEM_CLOCK,
                ttl_seconds=ttl_seconds,
            )

        return open_file


class TestSQLiteInMemory(CheckpointerSuite):
    required = ALL
    shared_storage = False

    @pytest.fixture
    def open_checkpointer(self) -> OpenCheckpointer:
        def open_memory(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return SQLiteCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

        return open_memory


class TestSQLiteSyncCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, tmp_path: Path) -> OpenCheckpointer:
        def open_twin(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            twin = SQLiteSyncCheckpointer(
                tmp_path / "test.db",
                durability="normal",
                clock=clock or SYSTEM_CLOCK,
                ttl_seconds=ttl_seconds,
            )
            return BlockingCheckpointerFace(twin)

        return open_twin

"""The conformance suite on SQLite: a file, memory, and the blocking twin."""

import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.ids import MAX_TOLD_SEQUENCE
from holdfast.core.state import AgentState
from holdfast.memory.backends.sql.heads import Heads, KnownHead
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.log import KnownList
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


def test_ids_that_have_no_room_for_their_sequence_are_found_by_name(tmp_path: Path) -> None:
    path, state = tmp_path / "long.db", AgentState()
    with SQLiteSyncCheckpointer(path) as twin:
        first = twin.save(state, "t")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE holdfast_threads SET next_seq = ?", (MAX_TOLD_SEQUENCE,))
    connection.close()
    with SQLiteSyncCheckpointer(path) as twin:
        saved = [first]
        for turn in range(4):
            saved.append(twin.save(state.with_iteration(turn + 1), "t", parent=saved[-1]))
        for turn, checkpoint_id in enumerate(saved):
            assert twin.load("t", checkpoint_id) is not None, turn
        assert twin.list_checkpoints("t") == saved[::-1]


def test_what_is_known_of_threads_is_bounded_by_their_elements_not_only_by_their_number() -> None:
    heads = Heads()

    def head(elements: int) -> KnownHead:
        return KnownHead(b"life", 1, 2, "id", {"messages": KnownList((), tuple(range(elements)), True)})

    for number in range(10):
        heads.remember(("", "", f"t{number}"), head(2_000))
    assert [number for number in range(10) if heads.get(("", "", f"t{number}"))] == [6, 7, 8, 9]
    heads.remember(("", "", "huge"), head(50_000))
    assert heads.get(("", "", "huge")) is not None
    assert heads.get(("", "", "t9")) is None
    for number in range(3):
        heads.remember(("", "", f"t{number}"), head(10))
    assert heads.get(("", "", "huge")) is None
    assert heads.get(("", "", "t0")) is not None

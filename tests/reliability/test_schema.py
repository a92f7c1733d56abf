"""Files of other versions, of several first users, without rights: refused or made right, never half."""

import hashlib
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.state import AgentState
from holdfast.errors import Corrupt, SchemaMismatch, Unavailable
from holdfast.memory.backends.sqlite import SQLiteSyncCheckpointer
from tests.reliability.children import Children
from tests.reliability.invariants import assert_sound
from tests.reliability.jobs import state_of


def _execute(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.executescript(sql)
    connection.close()


def _saved(path: Path) -> AgentState:
    state = state_of(3, "kiwi")
    with SQLiteSyncCheckpointer(path) as twin:
        twin.save(state, "t", "c1")
        twin.search("kiwi")
    return state


def test_a_database_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    _saved(path)
    _execute(path, "UPDATE holdfast_meta SET value = '99' WHERE name = 'schema:checkpoints'")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with SQLiteSyncCheckpointer(path) as twin:
        for call in (lambda: twin.load("t"), lambda: twin.save(AgentState(), "t"), lambda: twin.delete("t")):
            with pytest.raises(SchemaMismatch, match=r"version 99.*newer Holdfast"):
                call()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [file.name for file in tmp_path.iterdir()] == ["newer.db"]


def test_a_newer_version_with_other_tables_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    _execute(
        path,
        "CREATE TABLE holdfast_meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
        "INSERT INTO holdfast_meta VALUES ('schema:checkpoints', '2')",
    )
    with (
        SQLiteSyncCheckpointer(path) as twin,
        pytest.raises(SchemaMismatch, match=r"version 2.*newer Holdfast"),
    ):
        twin.load("t")
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [
        ("holdfast_meta",)
    ]
    connection.close()


def test_a_file_with_other_pages_and_tables_in_another_order_is_used_as_it_is(tmp_path: Path) -> None:
    new, other = tmp_path / "new.db", tmp_path / "other.db"
    state = _saved(new)
    connection = sqlite3.connect(new)
    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'holdfast_checkpoints'").fetchone()[
        0
    ]
    assert connection.execute("PRAGMA page_size").fetchone() == (1024,)
    connection.close()
    _execute(other, f"PRAGMA page_size = 8192; {made} WITHOUT ROWID")
    assert _saved(other) == state
    with SQLiteSyncCheckpointer(other) as twin:
        twin.save(state.with_error("once more"), "t", "c2", parent="c1")
        assert twin.list_checkpoints("t") == ["c2", "c1"]
        assert twin.load("t", "c1") == state
    assert_sound(other)
    connection = sqlite3.connect(other)
    assert connection.execute("PRAGMA page_size").fetchone() == (8192,)
    connection.close()


def test_eight_processes_that_open_a_new_file_at_once_all_save(children: Children, tmp_path: Path) -> None:
    for round_number in range(4):
        path = tmp_path / f"{round_number}.db"
        outcomes = children.run_all(
            "save_once", [{"path": str(path), "thread_id": f"thread {number}"} for number in range(8)]
        )
        assert [outcome.failure for outcome in outcomes] == [None] * 8
        with SQLiteSyncCheckpointer(path) as twin:
            for number, outcome in enumerate(outcomes):
                assert twin.list_checkpoints(f"thread {number}") == outcome.acknowledged
        connection = sqlite3.connect(path)
        versions = connection.execute(
            "SELECT value FROM holdfast_meta WHERE name = 'schema:checkpoints'"
        ).fetchall()
        connection.close()
        assert len(versions) == 1
        assert_sound(path)


@pytest.mark.parametrize("table", "threads lives ghosts hidden checkpoints entries writes words meta".split())
def test_a_table_that_was_dropped_by_hand_is_created_again(table: str, tmp_path: Path) -> None:
    path = tmp_path / "dropped.db"
    _saved(path)
    _execute(path, f"DROP TABLE holdfast_{table}")
    with SQLiteSyncCheckpointer(path) as twin:
        twin.save(state_of(2, "lime"), "new")
        assert twin.load("new") == state_of(2, "lime")
        assert {hit["thread_id"] for hit in twin.search("lime")} == {"new"}


def test_a_dropped_text_index_is_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "dropped.db"
    _saved(path)
    _execute(path, "DROP TABLE holdfast_words")
    with SQLiteSyncCheckpointer(path) as twin:
        assert len(twin.search("kiwi")) == 3
    assert_sound(path)


def test_an_index_of_another_analyser_is_made_anew_before_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "analyser.db"
    _saved(path)
    _execute(
        path,
        "UPDATE holdfast_meta SET value = 'old' WHERE name = 'text:analyser';"
        "INSERT INTO holdfast_words (holdfast_words) VALUES ('delete-all')",
    )
    with SQLiteSyncCheckpointer(path) as twin:
        assert len(twin.search("kiwi")) == 3
    assert_sound(path)


def test_dropped_entries_are_reported_for_old_threads_and_fine_for_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "dropped.db"
    _saved(path)
    _execute(path, "DROP TABLE holdfast_entries")
    with SQLiteSyncCheckpointer(path) as twin:
        with pytest.raises(Corrupt):
            twin.load("t")
        assert twin.delete("t")
        twin.save(state_of(5, "lime"), "t")
        assert twin.load("t") == state_of(5, "lime")
        assert twin.search("kiwi") == []
        assert len(twin.search("lime")) == 5
    assert_sound(path)


def test_without_the_right_to_create_tables_the_missing_ddl_is_told_and_works(tmp_path: Path) -> None:
    path = tmp_path / "bare.db"
    path.touch()
    with SQLiteSyncCheckpointer(path, auto_create_table=False) as twin:
        with pytest.raises(SchemaMismatch, match="holdfast_threads") as caught:
            twin.save(AgentState(), "t")
        with pytest.raises(SchemaMismatch, match="CREATE TABLE"):
            twin.load("t")
        assert _tables(path) == set()
        _execute(path, str(caught.value).partition("\n")[2])
        twin.save(AgentState(), "t")
        assert twin.exists("t")
    assert_sound(path)


def test_without_the_right_to_create_tables_existing_ones_are_used(tmp_path: Path) -> None:
    path = tmp_path / "ready.db"
    state = _saved(path)
    with SQLiteSyncCheckpointer(path, auto_create_table=False) as twin:
        assert twin.load("t") == state


def _tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    finally:
        connection.close()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = pytest.raises(Unavailable, match=r"folder .*no does not exist")
    with SQLiteSyncCheckpointer(tmp_path / "no" / "where.db") as twin, missing:
        twin.load("t")


def test_a_folder_in_place_of_the_file_is_unavailable(tmp_path: Path) -> None:
    with SQLiteSyncCheckpointer(tmp_path) as twin, pytest.raises(Unavailable, match=tmp_path.name):
        twin.load("t")


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root: to become a user without rights"
)


@needs_root
def test_a_file_that_may_only_be_read_is_read_and_a_save_says_why_not(
    public_folder: Path, children: Children
) -> None:
    path = public_folder / "readonly.db"
    _saved(path)
    path.chmod(0o444)
    lines = children.must("as_nobody", path=str(path), write=True)
    assert lines[0] == "read True"
    assert lines[1].startswith("Unavailable")
    assert "readonly" in lines[1]
    with SQLiteSyncCheckpointer(path) as twin:
        assert twin.load("t") == state_of(3, "kiwi")


@needs_root
def test_a_folder_that_may_only_be_read_says_so(public_folder: Path, children: Children) -> None:
    """SQLite can't read a database with a write-ahead log where it can't put its shared memory."""
    path = public_folder / "readonly.db"
    _saved(path)
    path.chmod(0o444)
    public_folder.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
    lines = children.must("as_nobody", path=str(path), write=True)
    public_folder.chmod(0o777)
    assert lines[0].startswith("Unavailable")
    assert path.name in lines[0]
    assert "readonly" in lines[0]

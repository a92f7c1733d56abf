"""The store in the same file: killed, damaged, shared by processes."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Corrupt
from tests.reliability.children import Children
from tests.reliability.invariants import integrity
from tests.reliability.jobs import BELOW, HERE, STORE_OPERATIONS, open_store

pytest.importorskip("numpy", reason="needs numpy")


@pytest.fixture(scope="module")
def prepared(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.db"
    children.must("prepare_store", path=str(path))
    return path


def _copy(source: Path, folder: Path) -> Path:
    for file in folder.glob("copy.db*"):
        file.unlink()
    return Path(shutil.copy(source, folder / "copy.db"))


def _query(path: Path, sql: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def _assert_sound(path: Path) -> None:
    assert integrity(path) == "ok"
    for table, column in (("postings", "item_id"), ("vectors", "item_id"), ("terms", "item_id")):
        name = f"holdfast_items_{table}"
        left = f"SELECT * FROM {name} WHERE {column} NOT IN (SELECT id FROM holdfast_items)"
        assert _query(path, left) == [], f"{table} without an item"
    spaces = "SELECT ns FROM holdfast_items_namespaces WHERE ns NOT IN (SELECT ns FROM holdfast_items)"
    assert _query(path, spaces) == [], "a namespace without an item"


def _told(path: Path) -> list[Any]:
    with open_store(path) as store:
        told: list[Any] = [list(store.iterate(ns)) for ns in (HERE, BELOW, ("other",), ("new",))]
        told += [
            [item.key for item in store.search(("user",), word, 50, prefix=True)]
            for word in ("apple", "plum")
        ]
        told.append([(hit.item.key, hit.score) for hit in store.search_by_embedding(HERE, [1.0, 0.2], 50)])
        told.append(store.list_namespaces())
        return told


@pytest.mark.parametrize("operation", STORE_OPERATIONS)
def test_an_operation_killed_before_any_of_its_statements_is_done_or_not_done(
    operation: str, prepared: Path, children: Children, tmp_path: Path
) -> None:
    before = _told(_copy(prepared, tmp_path))
    whole = _copy(prepared, tmp_path)
    children.must("operate_store", path=str(whole), operation=operation, die_before=0)
    after = _told(whole)
    assert after != before
    for number in range(1, 1000):
        path = _copy(prepared, tmp_path)
        outcome = children.run("operate_store", path=str(path), operation=operation, die_before=number)
        assert outcome.failure is None, outcome.failure
        _assert_sound(path)
        assert _told(path) == (before if outcome.killed else after)
        if not outcome.killed:
            return


def test_eight_processes_that_count_in_one_item_lose_no_count(children: Children, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    outcomes = children.run_all(
        "fill_store", [{"path": str(path), "name": f"n{n}", "items": 8} for n in range(8)]
    )
    assert [outcome.failure for outcome in outcomes] == [None] * 8
    with open_store(path) as store:
        assert store.get(("count",), "items") == 64
        assert len(store.list_keys(HERE, 100)) == 64
        assert len(store.search(HERE, "item", 100)) == 64
    _assert_sound(path)


@pytest.mark.parametrize(
    "damage",
    [
        "value = SUBSTR(value, 1, 5)",
        "value = CAST(x'22ff22' AS TEXT)",
        "value = x'00'",
        "metadata = SUBSTR(metadata, 1, 5)",
        "metadata = CAST(x'7bff' AS TEXT)",
        "metadata = '[]'",
    ],
)
def test_a_damaged_item_is_reported_with_its_place_and_others_stay_readable(
    damage: str, prepared: Path, tmp_path: Path
) -> None:
    path = _copy(prepared, tmp_path)
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(f"UPDATE holdfast_items SET {damage} WHERE item_key = 'k2'").rowcount == 1
    connection.close()
    with open_store(path) as store:
        with pytest.raises(Corrupt) as caught:
            store.get_item(HERE, "k2")
        assert "k2" in caught.value.place
        assert store.get(HERE, "k3") == "apple pear 3"
        assert store.get(BELOW, "k") == "apple cake"
        assert store.delete(HERE, "k2")
        assert len(store.search(HERE, "apple", 50)) == 6


def test_a_damaged_vector_is_never_a_wrong_answer(prepared: Path, tmp_path: Path) -> None:
    path = _copy(prepared, tmp_path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE holdfast_items_vectors SET vector = x'0102' WHERE item_id = 3")
    connection.close()
    with open_store(path) as store, pytest.raises(Corrupt):
        store.search_by_embedding(HERE, [1.0, 0.2], 50)

"""What the SQLite store promises beyond the contract: about its tables, its engine and its memory."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.core.errors import Corrupt, InvalidInput, SchemaMismatch
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.sql import items_lengths, items_matches, items_words
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.plan import Plan, Statement
from holdfast.memory.backends.sqlite import SQLITE
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.testing.clock import FrozenClock
from tests.memory.recording import RecordingEngine, keys

T = TypeVar("T")

NS = ("users", "ann")
ITEMS = "holdfast_items"


def tables_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [name for (name,) in found]


def rows_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What every table holds, but for single values: the schema's version, the analyser's, the last version."""
    single = {f"{ITEMS}_meta", f"{ITEMS}_counters"}
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in tables_of(path)
            if name not in single
        }


def change(path: Path, *statements: str) -> None:
    """What somebody does to the file by hand."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_items_are_in_exactly_the_table_that_was_named(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, table_name="notes") as store:
        store.put(NS, "k", "an apple")
    assert "notes" in tables_of(path)
    assert all(name.startswith("notes") for name in tables_of(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT item_key, value FROM notes").fetchall() == [("k", '"an apple"')]
    for bad in ("", "a b", "x; DROP TABLE notes", "ü", 'a"b', "1a"):
        with pytest.raises(InvalidInput, match="table_name"):
            SQLiteStore(path, table_name=bad)


def test_two_tables_in_one_file_are_two_stores(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, table_name="a") as first, SQLiteSyncStore(path, table_name="b") as second:
        first.put(NS, "k", "an apple")
        assert second.search(NS, "apple") == []
        second.put(NS, "k", "a pear")
        assert first.get(NS, "k") == "an apple"


def test_after_the_items_table_was_dropped_nothing_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, dimension=2) as store:
        last = store.put_with_embedding(NS, "k", "an apple", [1, 0])
        store.put(("others",), "k", "a pear")
    change(path, f"DROP TABLE {ITEMS}")
    with SQLiteSyncStore(path, dimension=3) as store:  # another space: the namespace is new
        assert store.list_namespaces() == []
        assert store.search(NS, "apple") == []
        assert store.search_by_embedding(NS, [1, 0, 0]) == []
    assert all(found == [] for found in rows_of(path).values())
    with SQLiteSyncStore(path, dimension=3) as store:
        assert store.put_with_embedding(NS, "k", "a plum", [1, 0, 0]) > last
        assert keys(store.search(NS, "plum")) == ["k"]
        assert keys(store.search_by_embedding(NS, [1, 0, 0])) == ["k"]
        assert store.search(NS, "apple") == []


@pytest.mark.parametrize("table", ["postings", "terms", "vectors", "namespaces", "counters", "meta"])
def test_a_table_beside_the_items_that_was_dropped_is_made_again(tmp_path: Path, table: str) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, dimension=2) as store:
        store.put_batch([((*NS, str(n)), "k", {"text": f"apple {n}"}) for n in range(3)])
        last = store.put_with_embedding(NS, "k", {"text": "apple pear"}, [1, 0])
    change(path, f"DROP TABLE {ITEMS}_{table}")
    with SQLiteSyncStore(path, dimension=2) as store:
        assert store.get(NS, "k") == {"text": "apple pear"}
        assert len(store.search(NS, "apple", prefix=True)) == 4
        assert keys(store.search(NS, "pears")) == ["k"]
        kept = [] if table in ("vectors", "namespaces") else ["k"]
        assert keys(store.search_by_embedding(NS, [1, 0])) == kept
        assert store.put_with_embedding(NS, "k", {"text": "a plum"}, [1, 0]) > last
        assert keys(store.search_by_embedding(NS, [1, 0])) == ["k"]
        assert keys(store.search(NS, "plum")) == ["k"]
        assert store.search(NS, "pears") == []
        assert store.clear_namespace(NS, prefix=True) == 4
    assert all(found == [] for found in rows_of(path).values())


def test_tables_that_may_not_be_made_are_told_as_a_script(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, auto_create_table=False) as store:
        with pytest.raises(SchemaMismatch, match=f"{ITEMS}_postings") as caught:
            store.get(NS, "k")
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(str(caught.value).partition("\n")[2])
        store.put(NS, "k", "an apple")
        assert keys(store.search(NS, "apple")) == ["k"]
    with SQLiteSyncStore(path, auto_create_table=False) as store:
        assert store.put(NS, "k", "a pear") == 2
        assert store.search(NS, "apple") == []


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path) as store:
        store.put(NS, "k", 1)
    change(path, f"UPDATE {ITEMS}_meta SET value = '99' WHERE name = 'schema:items'")
    with SQLiteSyncStore(path) as store, pytest.raises(SchemaMismatch, match="newer Holdfast"):
        store.get(NS, "k")


# ── nothing is left ───────────────────────────────────────────────────────────────────────────────────


def fill(store: SQLiteSyncStore) -> None:
    store.put_with_embedding(NS, "a", {"text": "an apple"}, [1, 0], {"group": "g", "ordinal": 1}, ttl=5)
    store.put(NS, "b", {"text": "an apple and a pear"}, ttl=5)
    store.put((*NS, "below"), "a", "a plum", ttl=5)


def delete_each(store: SQLiteSyncStore, clock: FrozenClock) -> None:
    assert store.batch([DeleteOp(NS, "a"), DeleteOp(NS, "b"), DeleteOp((*NS, "below"), "a")]) == [1, 2, 3]


def clear(store: SQLiteSyncStore, clock: FrozenClock) -> None:
    assert store.clear_namespace(NS, prefix=True) == 3


def purge(store: SQLiteSyncStore, clock: FrozenClock) -> None:
    clock.advance(5)
    assert store.purge_expired() == 3


@pytest.mark.parametrize("way", [delete_each, clear, purge])
def test_what_is_gone_leaves_no_row_behind(
    tmp_path: Path, way: Callable[[SQLiteSyncStore, FrozenClock], None]
) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, dimension=2, clock=clock) as store:
        fill(store)
        assert all(rows_of(path).values())
        way(store, clock)
        assert all(found == [] for found in rows_of(path).values())
        fill(store)
        assert keys(store.search(NS, "pear")) == ["b"]


def test_a_put_replaces_words_and_vector(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, dimension=2) as store:
        store.put_with_embedding(NS, "k", "apple apple pear", [1, 0])
        store.put(NS, "k", "pear plum plum")
        tables = rows_of(path)
        assert sorted((term, tf) for _, term, _, tf in tables[f"{ITEMS}_postings"]) == [
            ("pear", 1),
            ("plum", 2),
        ]
        assert tables[f"{ITEMS}_vectors"] == []
        store.put(NS, "k", 7)
        tables = rows_of(path)
        assert tables[f"{ITEMS}_postings"] == tables[f"{ITEMS}_terms"] == []


def test_only_words_that_changed_are_written() -> None:
    engine = RecordingEngine()
    with SQLiteSyncStore(engine=engine) as store:
        store.put(NS, "k", {"text": "one long story about apples", "stars": 1})
        with engine.noting() as statements:
            store.put(NS, "k", {"text": "one long story about apples", "stars": 2})
        assert not [
            statement.sql for statement, _ in statements if "INTO holdfast_items_postings" in statement.sql
        ]
        with engine.noting() as statements:
            store.put(NS, "k", {"text": "one long story about pears", "stars": 2})
        written = [s.params for s, _ in statements if "INTO holdfast_items_postings" in s.sql]
        assert [[term for _, term, *_ in params] for params in written] == [["pear"]]
    engine.close_now()


def test_items_are_indexed_anew_for_another_analyser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "test.db"
    with monkeypatch.context() as patched:
        patched.setattr(items_words, "analyse", str.split)
        patched.setattr(items_words, "this_analyser", lambda: "an old one")
        with SQLiteSyncStore(path) as store:
            store.put_batch([(NS, f"k{n}", "Running Dogs") for n in range(600)])
            assert len(store.search(NS, "dogs", 1000)) == 0
    with SQLiteSyncStore(path) as store:
        assert len(store.search(NS, "dogs", 1000)) == 600
        store.put(NS, "k0", "cats")
        assert len(store.search(NS, "dogs", 1000)) == 599
    with monkeypatch.context() as patched:  # a writer of another version, while we have the file too
        patched.setattr(items_words, "analyse", str.split)
        patched.setattr(items_words, "this_analyser", lambda: "an old one")
        with SQLiteSyncStore(path) as store:
            store.put(NS, "old", "Dogs")
    with SQLiteSyncStore(path) as store:
        assert len(store.search(NS, "dogs", 1000)) == 600


# ── large requests ────────────────────────────────────────────────────────────────────────────────────


def test_a_large_batch_is_one_transaction_of_few_statements() -> None:
    engine = RecordingEngine()
    with SQLiteSyncStore(engine=engine) as store:
        store.put_batch([(NS, f"k{n}", n) for n in range(0, 3000, 2)])
        with engine.noting() as statements:
            versions = store.put_batch([(NS, f"k{n}", f"text {n}") for n in range(3000)])
        assert len(statements) < 50
        assert versions == list(range(versions[0], versions[0] + 3000))
        assert store.get_batch([(NS, f"k{n}") for n in range(3000)]) == [f"text {n}" for n in range(3000)]
        ops = [op for n in range(1000) for op in (PutOp(NS, f"k{n % 7}", n), DeleteOp(NS, f"k{n % 3}"))]
        store.batch(ops)
        assert store.get_batch([(NS, f"k{n}") for n in range(7)]) == [None, None, None, 997, 998, 999, 993]
    engine.close_now()


def test_every_question_is_answered_from_an_index() -> None:
    engine, clock = RecordingEngine(), FrozenClock()
    store = SQLiteSyncStore(engine=engine, dimension=2, clock=clock)
    with engine.noting() as statements:
        for number in range(30):
            metadata = {"group": "g", "ordinal": number}
            store.put_with_embedding(NS, f"k{number}", "an apple", [1, number], metadata, ttl=100)
        for space, prefix in ((NS, False), (NS[:1], True)):
            page: Any = store.list_keys(space, 5, prefix=prefix)
            store.list_keys(space, 5, prefix=prefix, after=page.next)
            page = store.search(space, limit=5, prefix=prefix)
            store.search(space, limit=5, prefix=prefix, after=page.next)
            store.search(space, "apple", prefix=prefix)
            store.search(space, filter={"group": "g"}, prefix=prefix)
        store.get(NS, "k1")
        store.search_by_embedding(NS, [1, 0])
        store.neighbours(NS, "g", 5, 2)
        store.list_namespaces(NS)
        store.delete(NS, "k1")
        clock.advance(100)
        store.purge_expired()
        store.clear_namespace(NS, prefix=True)
    asked = {s.sql: s.params[0] if s.kind == "many" else s.params for s, _ in list(statements) if s.params}
    asked = {sql: params for sql, params in asked.items() if not sql.startswith("INSERT")}
    assert len(asked) > 30

    def explain(sql: str, params: Any) -> list[str]:
        def plan() -> Plan[list[str]]:
            (found,) = yield [Statement("rows", f"EXPLAIN QUERY PLAN {sql}", params)]
            return [detail for *_, detail in found]

        return engine.run(plan, items_schema(ItemTables(SQLITE, "holdfast_items")), write=False)

    scans = {sql: steps for sql, params in asked.items() if "SCAN" in str(steps := explain(sql, params))}
    assert scans == {}
    store.close()
    engine.close_now()


# ── neighbours ────────────────────────────────────────────────────────────────────────────────────────


def test_neighbours_and_groups_of_odd_types_are_those_of_the_reference() -> None:
    groups = ["g", "G", "", " ", "g\x00", "\ud800", "x" * 255, "x" * 256, 1, True, None, ["g"], {"a": "g"}]
    ordinals = [0, 1, -1, True, 1.0, 1.5, "1", None, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**70]
    metadata = [{"group": group, "ordinal": ordinal} for group in groups for ordinal in ordinals]
    metadata += [{"group": "g"}, {"ordinal": 1}, {"nested": {"group": "g", "ordinal": 1}}, {}]

    async def run() -> None:
        async with InMemoryStore() as reference, SQLiteStore() as store:
            items = [(NS, f"k{number}", number, entry) for number, entry in enumerate(metadata)]
            await reference.put_batch(items)
            await store.put_batch(items)
            for group in ("g", "G", "g\x00", "\ud800", "x" * 255):
                for ordinal, window in (
                    (0, 1),
                    (1, 0),
                    (2**63 - 1, 0),
                    (2**63, 5),
                    (-(2**63), 1),
                    (0, 2**80),
                ):
                    expected = await reference.neighbours(NS, group, ordinal, window)
                    assert keys(await store.neighbours(NS, group, ordinal, window)) == keys(expected)
            for operand in groups:
                tests: list[dict[str, Any]] = [{"group": operand}, {"group": {"$ne": operand}}]
                for test in (*tests, {"group": operand, "ordinal": 1}):
                    expected = await reference.search(NS, limit=500, filter=test)
                    assert keys(await store.search(NS, limit=500, filter=test)) == keys(expected)

    asyncio.run(run())


# ── damage ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_damaged_vector_is_named_and_other_namespaces_are_searched(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path, dimension=2) as store:
        store.put_with_embedding(NS, "k", 1, [1, 0])
        store.put_with_embedding(("others",), "k", 1, [1, 0])
    change(path, f"UPDATE {ITEMS}_vectors SET vector = x'00' WHERE item_id = 1")
    with SQLiteSyncStore(path, dimension=2) as store:
        with pytest.raises(Corrupt, match="2 components") as caught:
            store.search_by_embedding(NS, [1, 0])
        assert caught.value.place == f"{ITEMS}_vectors 1"
        assert keys(store.search_by_embedding(("others",), [1, 0])) == ["k"]


def test_a_damaged_item_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path) as store:
        store.put_batch([(NS, "bad", {"text": "apple"}), (NS, "good", {"text": "apple"})])
    change(path, f"UPDATE {ITEMS} SET value = substr(value, 1, 5), metadata = '[' WHERE item_key = 'bad'")
    with SQLiteSyncStore(path) as store:
        for read in (
            lambda: store.get(NS, "bad"),
            lambda: store.search(NS, filter={"m": 1}),
            lambda: store.search(NS, "apple", filter={"value.n": 1}),
        ):
            with pytest.raises(Corrupt, match="'bad'"):
                read()
        assert store.get(NS, "good") == {"text": "apple"}
        assert store.list_keys(NS) == ["bad", "good"]
        store.put(NS, "bad", {"text": "mended"})
        assert sorted(keys(store.search(NS, filter={"value.text": {"$exists": True}}))) == ["bad", "good"]


def test_a_large_namespace_is_ranked_as_a_small_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["tea", "rare", "common", "green", "blue", "house"]
    with SQLiteSyncStore(tmp_path / "words.db") as store:
        for number in range(60):
            text = " ".join(word for place, word in enumerate(words) if number % (place + 2) == 0)
            store.put(("n",), f"k{number}", {"text": f"{text} common item {number}"})
        store.put(("n",), "one", {"text": "a rare unicorn in a green house"})
        queries = (["tea"], ["unicorn", "common"], ["green", "hous", "common"], ["common"], ["nothing"])

        def answers() -> list[list[tuple[str, dict[str, int], int]]]:
            found = [store.text_candidates(("n",), terms, 5).candidates for terms in queries]
            return [[(c.item.key, dict(c.frequencies), c.length) for c in each] for each in found]

        small = answers()
        for module in (items_lengths, items_matches):
            monkeypatch.setattr(module, "SMALL", 0)
        asyncio.run(store._inner._erase_deleted())
        assert [sorted(each) for each in answers()] == [sorted(each) for each in small]
        assert small[1][0][0] == "one"

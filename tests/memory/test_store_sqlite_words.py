"""What a store keeps in memory of its words: whoever writes, a search answers from what is stored."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.errors import Corrupt
from holdfast.memory.backends.sql import items_lengths, items_matches
from holdfast.memory.backends.sql.items_lengths import LengthCache, Lengths, Stamp
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.store_requests import StoredItem, decode_items, decode_together
from holdfast.testing.clock import FrozenClock

NS = ("users", "ann")
WORDS = "tea mint boat paint red rain".split()

Answer = tuple[list[tuple[str, int, dict[str, int], int]], dict[str, int], int, float]


def answer(store: SQLiteSyncStore, limit: int = 8) -> Answer:
    found = store.text_candidates(NS, ["tea", "boat", "rain"], limit)
    items = [(c.item.key, c.item.version, dict(c.frequencies), c.length) for c in found.candidates]
    return items, dict(found.document_frequencies), found.documents, found.average_length


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "large":
        monkeypatch.setattr(items_lengths, "SMALL", 0)
        monkeypatch.setattr(items_matches, "SMALL", 0)
    return str(request.param)


@pytest.mark.parametrize("most", [0, 20, 1000])
def test_a_search_answers_from_what_is_stored_whoever_wrote_it(tmp_path: Path, size: str, most: int) -> None:
    rng, clock, path = random.Random(most), FrozenClock(), tmp_path / "test.db"

    def opened() -> SQLiteSyncStore:
        return SQLiteSyncStore(path, clock=clock)

    with opened() as searching, opened() as other:
        store = searching._inner
        assert isinstance(store, SQLiteStore)
        store._lengths = LengthCache(most)

        def put() -> None:
            text = " ".join(rng.choices(WORDS, k=rng.randint(0, 6)))
            ttl = rng.choice([None, None, None, 5.0])
            rng.choice([searching, other]).put(NS, f"k{rng.randint(0, 30)}", {"text": text}, ttl=ttl)

        def delete() -> None:
            rng.choice([searching, other]).delete(NS, f"k{rng.randint(0, 30)}")

        def wait() -> None:
            clock.advance(2.0)

        def purge() -> None:
            other.purge_expired()

        def clear() -> None:
            other.clear_namespace(NS)

        steps: list[Callable[[], None]] = [put] * 20 + [delete] * 5 + [wait] * 2 + [purge, clear]
        for _ in range(250):
            rng.choice(steps)()
            with opened() as fresh:
                assert answer(searching) == answer(fresh)


def test_of_equal_matches_the_newest_is_first_also_when_an_old_item_is_written_again(size: str) -> None:
    with SQLiteSyncStore() as store:
        for key in "abc":
            store.put(NS, key, {"text": "tea"})
        assert [key for key, *_ in answer(store, 2)[0]] == ["c", "b"]
        store.put(NS, "a", {"text": "tea"})
        assert [key for key, *_ in answer(store, 2)[0]] == ["a", "c"]


def test_an_item_that_was_taken_away_by_hand_breaks_no_search(tmp_path: Path, size: str) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path) as store:
        for key in "abc":
            store.put(NS, key, {"text": "tea"})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM holdfast_items WHERE item_key = 'b'")
    with SQLiteSyncStore(path) as store:
        assert [key for key, *_ in answer(store)[0]] == ["c", "a"]


def test_a_second_search_reads_no_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Lengths] = []
    keep = LengthCache.keep

    def noted(self: LengthCache, ns: str, lengths: Lengths, forgotten: int) -> None:
        loaded.append(lengths)
        keep(self, ns, lengths, forgotten)

    monkeypatch.setattr(LengthCache, "keep", noted)
    with SQLiteSyncStore(tmp_path / "test.db") as store:
        for key in "abc":
            store.put(NS, key, {"text": "tea"})
        store.put(("users", "bob"), "b", {"text": "tea"})
        answer(store)
        answer(store)
        store.put(("users", "bob"), "c", {"text": "tea"})
        answer(store)
    assert [len(each.of) for each in loaded] == [3]


def test_a_state_that_is_past_does_not_replace_a_later_one() -> None:
    cache = LengthCache(10)
    newer, older = (Lengths(Stamp(1, 0, version), {1: 1}, {}, 1, 1, None) for version in (5, 4))
    cache.keep("a", newer, 0)
    cache.keep("a", older, 0)
    assert cache.get("a") is newer


def test_the_namespace_that_was_not_asked_for_longest_makes_room() -> None:
    cache = LengthCache(5)
    for ns_id, ns in enumerate("ab"):
        cache.keep(ns, Lengths(Stamp(ns_id, 0, 1), {1: 1, 2: 1}, {}, 2, 2, None), 0)
    cache.get("a")
    cache.keep("c", Lengths(Stamp(3, 0, 1), {1: 1, 2: 1}, {}, 2, 2, None), 0)
    assert [cache.get(ns) is not None for ns in "abc"] == [True, False, True]


def test_a_damaged_value_is_named_with_its_place() -> None:
    item = StoredItem(NS, "k", "{", "{}", 0, 0, 1)
    with pytest.raises(Exception, match=r"value of \('users', 'ann'\) 'k'"):
        item.decode()


@pytest.mark.parametrize("damaged", ['{"text":"a"},{"text":"b"}', "", '{"text":"a"', '{"text":"a"},'])
def test_items_that_are_read_together_name_the_one_that_is_damaged(damaged: str) -> None:
    whole = [StoredItem(NS, f"k{n}", '{"text":"x"}', "{}", 0, 0, n + 1) for n in range(3)]
    assert [item.value for item in decode_items(whole)] == [{"text": "x"}] * 3
    with pytest.raises(Corrupt, match=r"value of \('users', 'ann'\) 'bad'"):
        decode_items([whole[0], StoredItem(NS, "bad", damaged, "{}", 0, 0, 9), whole[1]])
    with pytest.raises(Corrupt):
        decode_together(["{}", damaged, "{}"])

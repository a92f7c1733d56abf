"""What a store keeps in memory between two questions: they are answered from what is stored, whoever wrote it."""

import asyncio
import gc
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.memory.backends import sqlite_engine
from holdfast.memory.backends.sql import items_lengths
from holdfast.memory.backends.sql.items_kept import Kept
from holdfast.memory.backends.sql.items_lengths import LengthCache, Lengths, Stamp
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.recall import Recalled, recall_items
from holdfast.memory.store_requests import StoredItem
from holdfast.testing.clock import FrozenClock

NS = ("users", "ann")
WORDS = "tea mint boat paint red rain sun hill".split()
QUESTIONS = ("Was there tea on the boat?", "red paint", "rain", "Did anybody see the sun?")


def inner(store: SQLiteSyncStore) -> SQLiteStore:
    assert isinstance(store._inner, SQLiteStore)
    return store._inner


def recalled(store: SQLiteSyncStore, question: str, limit: int = 5) -> list[Recalled]:
    return asyncio.run(recall_items(inner(store), NS, question, limit))


def told(hits: list[Recalled]) -> list[tuple[object, ...]]:
    return [(hit.item, hit.score, dict(hit.parts)) for hit in hits]


def place(number: int) -> dict[str, Any]:
    return {"group": f"s{number % 3}", "ordinal": number // 3, "speaker": "Ann", "at": number * 1_000_000}


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The SQL that is run within, without the transactions' own."""
    seen: list[str] = []
    run = sqlite_engine._run_batch

    def noted(cursor: Any, batch: Any) -> list[Any]:
        seen.extend(statement.sql for statement in batch)
        return run(cursor, batch)

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_engine, "_run_batch", noted)
        yield seen


@pytest.mark.parametrize("most_bytes", [0, 30_000, 1_000_000])
def test_recall_answers_from_what_is_stored_whoever_wrote_it(tmp_path: Path, most_bytes: int) -> None:
    rng, clock, path = random.Random(most_bytes), FrozenClock(), tmp_path / "test.db"

    def opened() -> SQLiteSyncStore:
        return SQLiteSyncStore(path, clock=clock)

    with opened() as searching, opened() as other:
        inner(searching)._lengths = LengthCache(most_bytes=most_bytes)

        def put() -> None:
            number = rng.randint(0, 60)
            text = " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))
            moved = place(rng.randint(0, 60)) if rng.random() < 0.2 else place(number)
            store = rng.choice([searching, other])
            store.put(NS, f"k{number}", {"text": text}, moved, ttl=rng.choice([None] * 9 + [5.0]))

        def delete() -> None:
            rng.choice([searching, other]).delete(NS, f"k{rng.randint(0, 60)}")

        steps: list[Callable[[], object]] = [*[put] * 30, *[delete] * 4, other.purge_expired]
        steps += [lambda: clock.advance(2.0), lambda: other.clear_namespace(NS)]
        for _ in range(30):
            put()
        for _ in range(80):
            rng.choice(steps)()
            question = rng.choice(QUESTIONS)
            with opened() as fresh:
                assert told(recalled(searching, question)) == told(recalled(fresh, question))


def test_a_question_like_the_last_one_reads_nothing_but_whether_all_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteSyncStore(tmp_path / "test.db") as store:
        for number in range(30):
            store.put(NS, f"k{number}", {"text": f"{WORDS[number % 8]} {number}"}, place(number))
        first = recalled(store, "tea or rain?", 20)
        with statements(monkeypatch) as seen:
            assert told(recalled(store, "tea or rain?", 20)) == told(first)
        assert len(seen) == 1
        store.put(NS, "new", {"text": "more tea"}, place(400))
        with statements(monkeypatch) as seen:
            assert "new" in [hit.item.key for hit in recalled(store, "tea or rain?", 20)]
        read = [sql for sql in seen if " value" in sql]
        assert len(read) == 1, "only the new item is read"
        assert not [sql for sql in seen if "_postings" in sql], "its words came with it"


def test_values_that_are_handed_out_are_copies(tmp_path: Path) -> None:
    with SQLiteSyncStore(tmp_path / "test.db") as store:
        store.put(NS, "a", {"text": "tea", "more": [1]}, {"tags": ["x"]})
        store.put(NS, "b", {"text": "rain"}, {"tag": "x"})
        for _ in range(3):  # read, copied, copied again
            (flat,) = recalled(store, "rain")
            assert (flat.item.value, flat.item.metadata) == ({"text": "rain"}, {"tag": "x"})
            flat.item.value["text"] = flat.item.metadata["tag"] = "changed"
        (hit,) = recalled(store, "tea")
        hit.item.value["more"].append(2)
        hit.item.metadata["tags"].append("y")
        (again,) = recalled(store, "tea")
        assert (again.item.value["more"], again.item.metadata["tags"]) == ([1], ["x"])


def kept_texts(word: str) -> list[str]:
    gc.collect()
    return [each.value for each in gc.get_objects() if isinstance(each, StoredItem) and word in each.value]


REMOVALS: dict[str, Callable[[SQLiteSyncStore], object]] = {
    "delete": lambda store: store.delete(NS, "k0"),
    "clear": lambda store: store.clear_namespace(("users",), prefix=True),
    "purge": lambda store: store.purge_expired(),
}


@pytest.mark.parametrize("how", REMOVALS)
def test_what_was_removed_does_not_stay_in_memory(tmp_path: Path, how: str) -> None:
    clock, word = FrozenClock(), f"canary{how}"
    with SQLiteSyncStore(tmp_path / "test.db", clock=clock) as store:
        store.put(NS, "k0", {"text": f"tea {word}"}, place(0), ttl=30.0)
        store.put(NS, "k1", {"text": "tea"}, place(1))
        assert len(recalled(store, "tea")) == 2
        assert kept_texts(word)
        clock.advance(60.0 if how == "purge" else 0.0)
        REMOVALS[how](store)
        assert not kept_texts(word)


def test_what_another_process_removed_is_gone_from_memory_with_the_next_question(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with SQLiteSyncStore(path) as store, SQLiteSyncStore(path) as other:
        store.put(NS, "k0", {"text": "tea canaryelsewhere"})
        store.put(NS, "k1", {"text": "tea"})
        recalled(store, "tea")
        other.delete(NS, "k0")
        assert [hit.item.key for hit in recalled(store, "tea")] == ["k1"]
        assert not kept_texts("canaryelsewhere")


def test_memory_is_bounded_and_the_user_not_asked_about_longest_makes_room() -> None:
    cache = LengthCache(most_bytes=14_000)
    for number, ns in enumerate("abc"):
        kept = Kept()
        cache.keep(ns, Lengths(Stamp(number, 0, 1), {1: 1}, {}, 1, 1, None, kept), 0)
        for item in range(2):
            kept.add_item(item, StoredItem((ns,), "k", "{}" + " " * 200, "{}", 0, 0, 1))
    assert [cache.get(ns) is not None for ns in "abc"] == [True, True, True]
    assert [cache.get(ns) is not None for ns in "abc"] == [False, True, True]


def test_one_namespace_that_is_too_much_begins_anew() -> None:
    cache, kept = LengthCache(most_bytes=1000), Kept()
    cache.keep("a", Lengths(Stamp(1, 0, 1), {1: 1}, {}, 1, 1, None, kept), 0)
    kept.add_item(1, StoredItem(("a",), "k", "{}", "{}", 0, 0, 1))
    assert cache.get("a") is not None
    assert (kept.items, kept.bytes) == ({}, 0)


def test_of_a_large_namespace_nothing_but_lengths_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_lengths, "SMALL", 3)
    with SQLiteSyncStore(tmp_path / "test.db") as store:
        for number in range(4):
            store.put(NS, f"k{number}", {"text": "tea"})
            hits = recalled(store, "tea")
            known = inner(store)._lengths.get(key_of(NS))
            assert known is not None
            assert (len(hits), known.kept is None) == (number + 1, number >= 2)


def test_threads_ask_while_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    done = threading.Event()
    failures: list[BaseException] = []

    with SQLiteSyncStore(path, durability="normal") as store:
        store.put(NS, "first", {"text": "tea"}, place(0))

        def ask() -> None:
            rng = random.Random(threading.get_ident())
            try:
                while not done.is_set():
                    assert all(hit.item.key for hit in recalled(store, rng.choice(QUESTIONS)))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        rng = random.Random(1)
        for number in range(150):
            store.put(NS, f"k{number % 100}", {"text": " ".join(rng.choices(WORDS, k=4))}, place(number))
            if number % 20 == 0:
                store.delete(NS, f"k{number // 2}")
        done.set()
        for thread in threads:
            thread.join()
        assert not failures
        with SQLiteSyncStore(path) as fresh:
            for question in QUESTIONS:
                assert told(recalled(store, question)) == told(recalled(fresh, question))

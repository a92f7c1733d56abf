"""Others write between the round trips of a question: its answer is one that was right at some moment."""

import asyncio
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import from_us
from holdfast.memory.backends.sql import items_kept, items_words
from holdfast.memory.backends.sql.items_lengths import LengthCache
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sql.plan import LAST, Batch, Plan
from holdfast.memory.backends.sqlite_engine import _run_batch
from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore
from holdfast.memory.filters import compile_filter
from holdfast.memory.recall import recall_items
from holdfast.memory.recall.question import parse
from holdfast.memory.recall.records import DEFAULTS
from holdfast.memory.recall.retrieve import _Reader
from holdfast.memory.store_requests import StoredCandidates, StoredItem, Stretch, TextRequest
from holdfast.testing.clock import FrozenClock

NS = ("users", "ann")
WORDS = "tea mint boat paint red rain".split()
Between = Callable[[Batch], None]


class Asking:
    """Questions to a file of SQLite as a server would answer them: a batch that is the last ends its transaction."""

    def __init__(self, path: Path, clock: FrozenClock, cache: LengthCache) -> None:
        self.store = SQLiteStore(path, clock=clock)
        self.cache = cache
        self._path = path
        self._clock = clock

    def candidates(
        self, terms: list[str], limit: int, between: Between = lambda batch: None, tag: str = ""
    ) -> StoredCandidates:
        """``tag``: only those that have it."""
        request = self.request(terms, limit, tag)
        found = self.run(items_words.candidates(self.store._tables, self.cache, request), between)
        assert isinstance(found, StoredCandidates)
        return found

    def request(self, terms: list[str], limit: int, tag: str = "") -> TextRequest:
        condition = compile_filter({"tag": tag} if tag else None)
        return TextRequest(NS, False, terms, condition, limit, self._clock.now_us())

    def beside(self, terms: list[str], place: Stretch, between: Between) -> list[str]:
        """The texts at a place that is asked for once the candidates are known."""

        def reader(found: StoredCandidates) -> Any:
            return (yield [place])

        request = self.request(terms, 1)
        (items,) = self.run(
            items_words.read_candidates(self.store._tables, self.cache, request, reader), between
        )
        return [item.value for item in items]

    def run(self, plan: Plan[Any], between: Between) -> Any:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            try:
                batch = next(plan)
                while True:
                    if not connection.in_transaction:
                        connection.execute("BEGIN")
                    results = _run_batch(connection.cursor(), batch)
                    if batch[0].mark & LAST:
                        connection.execute("COMMIT")
                    between(batch)
                    batch = plan.send(results)
            except StopIteration as stop:
                return stop.value


@pytest.mark.parametrize("seed", range(2))
def test_an_answer_is_of_one_moment_whoever_writes_between_its_round_trips(tmp_path: Path, seed: int) -> None:
    rng, clock, path = random.Random(seed), FrozenClock(), tmp_path / "test.db"
    with SQLiteSyncStore(path, clock=clock) as other:
        asking, plain = (Asking(path, clock, cache) for cache in (LengthCache(), LengthCache(0)))

        def write() -> None:
            key = f"k{rng.randint(0, 8)}"
            if rng.random() < 0.15:
                other.delete(NS, key)
            else:
                text = " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))
                other.put(
                    NS, key, {"text": text}, {"tag": rng.choice("xy")}, ttl=rng.choice([None] * 60 + [5.0])
                )

        for _ in range(8):
            write()
        for _ in range(100):
            terms, limit = rng.sample(WORDS, 2), rng.choice([1, 3, 20])
            tag = rng.choice(["", "", "", "x"])
            moments = [plain.candidates(terms, limit, tag=tag)]

            def between(
                batch: Batch,
                terms: list[str] = terms,
                limit: int = limit,
                tag: str = tag,
                moments: list[StoredCandidates] = moments,
            ) -> None:
                if rng.random() < 0.4:
                    write()
                    moments.append(plain.candidates(terms, limit, tag=tag))
                known = asking.cache.get(key_of(NS))
                if rng.random() < 0.2 and known is not None and known.kept is not None:
                    known.kept.clear()  # as when there is too much of it

            assert asking.candidates(terms, limit, between, tag) in moments
            assert asking.candidates(terms, limit, tag=tag) == plain.candidates(terms, limit, tag=tag)
            clock.advance(rng.choice([0.0, 0.1, 1.0]))


def test_what_is_read_of_a_later_state_is_not_kept_for_the_one_before(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking, plain = (Asking(path, clock, cache) for cache in (LengthCache(), LengthCache(0)))
        other.put(NS, "a", {"text": "tea"})
        asking.candidates(["tea"], 10)
        known = asking.cache.get(key_of(NS))
        assert known is not None
        assert known.kept is not None
        clear = known.kept.clear

        def between(batch: Batch) -> None:
            if other.get(NS, "b") is None:
                clear()
                other.put(NS, "b", {"text": "tea"})

        asking.candidates(["tea"], 10, between)
        assert asking.candidates(["tea"], 10) == plain.candidates(["tea"], 10)


def test_a_reader_of_a_state_that_is_past_answers_from_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking, plain = (Asking(path, clock, cache) for cache in (LengthCache(), LengthCache(0)))
        other.put(NS, "a", {"text": "tea"})
        before = plain.candidates(["tea"], 10)

        def between(batch: Batch) -> None:
            if other.get(NS, "b") is None:  # somebody else who asks sees the later state first
                other.put(NS, "b", {"text": "tea tea"})
                asking.candidates(["rain"], 10)

        assert asking.candidates(["tea"], 10, between) == before
        assert asking.candidates(["tea"], 10) == plain.candidates(["tea"], 10)


def test_what_was_written_since_expires_when_it_says(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking, plain = (Asking(path, clock, cache) for cache in (LengthCache(), LengthCache(0)))
        for key, ttl in (("a", None), ("b", 50.0), ("c", 5.0), ("d", 70.0)):
            other.put(NS, key, {"text": "tea"}, ttl=ttl)
            assert asking.candidates(["tea"], 10) == plain.candidates(["tea"], 10)
        clock.advance(10.0)
        assert [each.item.key for each in asking.candidates(["tea"], 10).candidates] == ["d", "b", "a"]
        assert asking.candidates(["tea"], 10) == plain.candidates(["tea"], 10)


def test_who_stands_beside_is_asked_for_again_if_somebody_moved(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking = Asking(path, clock, LengthCache())
        other.put(NS, "a", {"text": "tea"}, {"group": "s", "ordinal": 1})
        other.put(NS, "b", {"text": "rain"}, {"group": "s", "ordinal": 2})
        place = Stretch("s", 2, 0)
        moved: list[Batch] = []

        def between(batch: Batch) -> None:
            if not moved:
                moved.append(batch)
                other.put(NS, "b", {"text": "rain"}, {"group": "s", "ordinal": 9})
                other.put(NS, "c", {"text": "sun"}, {"group": "s", "ordinal": 2})

        asking.candidates(["tea"], 1)
        assert asking.beside(["tea"], place, between) == ['{"text":"sun"}']


def test_an_item_that_moves_meanwhile_is_one_answer(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking = Asking(path, clock, LengthCache())
        other.put(NS, "a", {"text": "tea"}, {"group": "s", "ordinal": 1})
        other.put(NS, "b", {"text": "rain"}, {"group": "s", "ordinal": 3})

        def between(batch: Batch) -> None:
            if batch[0].mark & LAST:
                other.put(NS, "a", {"text": "tea"}, {"group": "s", "ordinal": 2})

        reader = _Reader(parse("tea", from_us(clock.now_us())), [], compile_filter(None), DEFAULTS, 5)
        request = asking.request(["tea"], 5)
        plan = items_words.read_candidates(asking.store._tables, asking.cache, request, reader)
        (hits,) = asking.run(plan, between)
        assert sorted(hit.item.key for hit in hits) == ["a", "b"]


def test_what_many_wrote_since_is_not_read_with_all_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.memory.backends.sql.items_lengths.MOST_WRITTEN", 5)
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking, plain = (Asking(path, clock, cache) for cache in (LengthCache(), LengthCache(0)))
        for count in (3, 5, 6, 40, 1):
            for number in range(count):
                other.put(
                    NS, f"{count}-{number}", {"text": f"tea {number}"}, {"group": "s", "ordinal": number}
                )
            read: list[int] = []

            def between(batch: Batch, read: list[int] = read) -> None:
                read += [statement.params[-1] for statement in batch if "w.terms" in statement.sql]

            assert asking.candidates(["tea"], 100, between) == plain.candidates(["tea"], 100)
            assert all(limit == 6 for limit in read)


def test_a_reader_of_a_state_in_which_it_was_not_yet_deleted_does_not_bring_it_back(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking = Asking(path, clock, LengthCache())
        for key in "ab":
            other.put(NS, key, {"text": "tea"})

        def between(batch: Batch) -> None:
            if other.delete(NS, "a"):
                asking.cache.forget(key_of(NS))

        assert len(asking.candidates(["tea"], 10, between).candidates) == 2
        assert asking.cache.get(key_of(NS)) is None


def test_a_deletion_that_was_cancelled_may_have_been_done_and_is_forgotten(tmp_path: Path) -> None:
    async def run() -> None:
        async with SQLiteStore(tmp_path / "test.db") as store:
            await store.put(NS, "a", {"text": "tea"})
            await recall_items(store, NS, "tea")
            assert store._lengths.get(key_of(NS)) is not None
            deleting = asyncio.create_task(store.delete(NS, "a"))
            await asyncio.sleep(0)
            deleting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deleting
            assert store._lengths.get(key_of(NS)) is None

    asyncio.run(run())


# ── how much it is ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("recalling", [True, False])
def test_users_who_ask_once_are_weighed_too(tmp_path: Path, recalling: bool) -> None:
    async def run() -> None:
        async with SQLiteStore(tmp_path / "test.db") as store:
            store._lengths = LengthCache(most_bytes=20_000)
            for user in range(10):
                await store.put(("users", str(user)), "a", {"text": "tea " * 100})
                if recalling:
                    await recall_items(store, ("users", str(user)), "tea")
                else:
                    await store.text_candidates(("users", str(user)), ["tea"], 5)
            held = [known for known in store._lengths._kept.values() if known.kept is not None]
            assert 0 < sum(known.kept.bytes for known in held if known.kept is not None) <= 20_000

    asyncio.run(run())


def test_what_is_replaced_is_not_counted_twice(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking = Asking(path, clock, LengthCache())
        for number in range(40):
            key = f"k{number % 20 if number > 30 else number}"
            other.put(NS, key, {"text": f"tea {number}"}, {"group": "s", "ordinal": number})
            asking.candidates(["tea", "rain"], 50)
        for _ in range(2):  # both ways: read anew after an old item was written, and with a new one
            known, fresh = asking.cache.get(key_of(NS)), Asking(path, clock, LengthCache())
            fresh.candidates(["tea", "rain"], 50)
            anew = fresh.cache.get(key_of(NS))
            assert known is not None
            assert known.kept is not None
            assert anew is not None
            assert anew.kept is not None
            assert known.kept.bytes == anew.kept.bytes
            other.put(NS, "new", {"text": "tea"}, {"group": "s", "ordinal": 99})
            asking.candidates(["tea", "rain"], 50)


def test_what_an_item_said_before_it_was_written_again_is_not_kept() -> None:
    kept = items_kept.Kept()
    kept.add_item(1, StoredItem(NS, "a", '{"text":"old"}', "{}", 0, 0, 1))
    kept.add_item(2, StoredItem(NS, "b", '{"text":"tea"}', "{}", 0, 0, 2))
    renewed = kept.after(2, [(1, 3, 1, None, None, None, "new:1")])
    assert list(renewed.items) == [2]


def test_who_holds_an_earlier_state_does_not_see_the_places_of_a_later_one() -> None:
    kept = items_kept.Kept()
    kept.add_groups([("s", 1, 1)])
    later = kept.after(1, [(2, 2, 1, None, "s", 2, "tea:1"), (3, 3, 1, None, "t", 2, None)])
    places = [Stretch("s", 1, 1), Stretch("t", 2, 0)]
    assert (kept.numbers_at(places), later.numbers_at(places)) == ([1], [1, 2, 3])
    assert kept.numbers_at([Stretch("s", 2**63 - 1, 1)]) is None, "no index holds such a place"


def test_what_another_analyser_indexed_is_not_answered_from_memory(tmp_path: Path) -> None:
    path, clock = tmp_path / "test.db", FrozenClock()
    with SQLiteSyncStore(path, clock=clock) as other:
        asking = Asking(path, clock, LengthCache())
        other.put(NS, "a", {"text": "tea"})
        asking.candidates(["tea"], 1)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE {asking.store._tables.meta} SET value = 'another'")
        plan = items_words.candidates(asking.store._tables, asking.cache, asking.request(["tea"], 1))
        assert asking.run(plan, lambda batch: None) is None, "it must be indexed anew first"


def test_an_item_of_another_version_is_read_again(tmp_path: Path) -> None:
    tables, kept = SQLiteStore(tmp_path / "test.db")._tables, items_kept.Kept()
    kept.add_item(1, StoredItem(NS, "a", "{}", "{}", 0, 0, 1))
    with pytest.raises(StopIteration):
        next(items_kept.kept_items(tables, kept, [1], {}, 0))
    assert "WHERE id IN" in next(items_kept.kept_items(tables, kept, [1], {1: 2}, 0))[0].sql

"""Recall from stores: the same answer from each, whatever is in them, and off the event loop if it is much work."""

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Closed, InvalidInput
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.sqlite_engine import ThreadedSqliteEngine
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.recall import Recalled, ranking, recall_items, retrieve
from holdfast.memory.store import BaseStore
from tests.memory.recall.support import NAMESPACE, NOW, Memory, ask, asked, day, fill, keys, session

WORDS = "tea mint boat paint red rain Oslo Rome cellist concert bicycle tyre".split()
QUESTIONS = (
    "Which mint tea does Alice like?",
    "red paint of the boat yesterday",
    "Where was I in May?",
    "concert concert cellist bicycle",
    "nothing of this is known",
)
STORES = pytest.mark.parametrize("make", [InMemoryStore, SQLiteStore])


def _many(seed: int, count: int = 60) -> list[Memory]:
    rng = random.Random(seed)
    return [
        Memory(
            f"k{number}",
            " ".join(rng.choices(WORDS, k=rng.randint(2, 9))),
            group=rng.choice([None, "s", "t", "u"]),
            ordinal=rng.choice([None, number % 20]),
            speaker=rng.choice([None, "Alice", "Bob", "user"]),
            at=rng.choice([None, day(rng.randint(1, 5), rng.randint(1, 20))]),
            confidence=rng.choice([None, 0.3, 1.0]),
            vector=(rng.uniform(-1, 1), rng.uniform(-1, 1)),
            dated=rng.random() < 0.5,
        )
        for number in range(count)
    ]


def _told(hits: list[Recalled]) -> list[tuple[str, float, dict[str, float]]]:
    return [(hit.item.key, hit.score, dict(hit.parts)) for hit in hits]


@pytest.mark.parametrize("embedding", [None, [0.6, 0.8]])
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_store_gives_the_same_answer(question: str, embedding: list[float] | None) -> None:
    memories = _many(7)
    first, second = (
        _told(asyncio.run(asked(store, memories, question, embedding=embedding)))
        for store in (InMemoryStore(dimension=2), SQLiteStore(dimension=2))
    )
    assert [key for key, _, _ in first] == [key for key, _, _ in second]
    for (_, score, parts), (_, other, others) in zip(first, second, strict=True):
        assert score == pytest.approx(other)
        assert parts == pytest.approx(others)


@STORES
def test_the_same_question_has_the_same_answer(make: Callable[[], BaseStore]) -> None:
    async def answers() -> list[list[tuple[str, float, dict[str, float]]]]:
        async with make() as store:
            await fill(store, [Memory(**{**vars(m), "vector": None}) for m in _many(3)])
            return [_told(await recall_items(store, NAMESPACE, QUESTIONS[0], now=NOW)) for _ in range(3)]

    once, again, third = asyncio.run(answers())
    assert once == again == third
    assert len(once) == 10


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_a_smaller_limit_gives_the_beginning_of_the_answer(limit: int) -> None:
    memories = [Memory(f"k{n}", f"tea number {n} " + "la " * n) for n in range(20)]
    assert keys(ask(memories, "tea", limit=limit)) == keys(ask(memories, "tea", limit=20))[:limit]


@STORES
@pytest.mark.parametrize(
    "question",
    [
        "",
        "   ",
        "?",
        "the of and",
        "\x00\x1f",
        "'; DROP TABLE holdfast_items; --",
        '"tea" OR NEAR(*) AND (',
        "%_%",
        "\ud800 alone",
        "🫖" * 500,
        "お茶はどこ",
        "tea " * 20_000,
        "9" * 10_000 + " years ago on 99 May 9999",
        "a" * 100_000,
    ],
    ids=range(14),
)
def test_no_question_breaks_it(make: Callable[[], BaseStore], question: str) -> None:
    memories = session("s", "tea", "お茶", "'; DROP TABLE holdfast_items; --")

    async def run() -> tuple[list[Recalled], int]:
        async with make() as store:
            await fill(store, memories)
            found = await recall_items(store, NAMESPACE, question, now=NOW)
            return found, len(await store.search(NAMESPACE))

    found, left = asyncio.run(run())
    assert left == 3
    assert {hit.item.key for hit in found} <= {"s0", "s1", "s2"}


@STORES
def test_metadata_of_any_kind_is_not_used_where_it_says_nothing(make: Callable[[], BaseStore]) -> None:
    odd: list[dict[str, Any]] = [
        {"group": 7, "ordinal": "1", "speaker": ["x"], "at": "now", "confidence": "much"},
        {"group": "", "ordinal": 10**30, "at": -(10**17), "confidence": 2},
        {"group": "g" * 5000, "ordinal": 1, "speaker": "", "confidence": True},
        {"group": "\x00'\"", "ordinal": -(2**63), "speaker": "\u202e", "at": 0},
        {},
    ]

    async def run() -> list[str]:
        async with make() as store:
            for number, metadata in enumerate(odd):
                await store.put(NAMESPACE, f"k{number}", {"text": f"tea {number}"}, metadata)
            await store.put(NAMESPACE, "bare", "tea")
            await store.put(NAMESPACE, "number", 7)
            return keys(await recall_items(store, NAMESPACE, "tea of yesterday", now=NOW))

    assert sorted(asyncio.run(run())) == ["bare", "k0", "k1", "k2", "k3", "k4"]


@STORES
def test_an_empty_namespace_has_no_answer_and_a_full_one_answers_for_itself(
    make: Callable[[], BaseStore],
) -> None:
    async def run() -> list[list[str]]:
        async with make() as store:
            before = await recall_items(store, NAMESPACE, "tea", now=NOW)
            await fill(store, session("s", "tea", "mint"))
            others = [(*NAMESPACE[:-1], "notes"), (*NAMESPACE, "below"), NAMESPACE[:-1], ("memory",)]
            return [keys(before), *[keys(await recall_items(store, ns, "tea", now=NOW)) for ns in others]]

    assert asyncio.run(run()) == [[]] * 5


@STORES
def test_what_the_filter_leaves_out_is_not_recalled_as_context_either(make: Callable[[], BaseStore]) -> None:
    async def run() -> list[str]:
        async with make() as store:
            for place, (text, kind) in enumerate([("tea?", "a"), ("mint", "b"), ("fine", "a")]):
                metadata = {"group": "s", "ordinal": place, "kind": kind}
                await store.put(NAMESPACE, f"s{place}", {"text": text}, metadata)
            return keys(await recall_items(store, NAMESPACE, "tea", now=NOW, filter={"kind": "a"}))

    assert asyncio.run(run()) == ["s0", "s2"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"question": 7}, "question"),
        ({"question": None}, "question"),
        ({"limit": -1}, "limit"),
        ({"limit": True}, "limit"),
        ({"window": -1}, "window"),
        ({"now": "today"}, "now"),
        ({"namespace": "memory"}, "namespace"),
        ({"embedding": [1.0]}, "embedding"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], field: str) -> None:
    given = {"namespace": NAMESPACE, "question": "tea", **options}

    async def run() -> None:
        async with InMemoryStore(dimension=2) as store:
            await recall_items(store, **given)

    with pytest.raises(InvalidInput, match=field):
        asyncio.run(run())


def test_a_closed_store_says_so() -> None:
    async def run() -> None:
        store = InMemoryStore()
        await store.close()
        await recall_items(store, NAMESPACE, "tea")

    with pytest.raises(Closed):
        asyncio.run(run())


@pytest.mark.parametrize(("limit", "elsewhere"), [(10, False), (400, True)])
def test_many_candidates_are_ranked_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, limit: int, elsewhere: bool
) -> None:
    threads: dict[str, threading.Thread] = {}

    def seen(name: str) -> Callable[..., Any]:
        original = getattr(retrieve, name)

        def call(*arguments: Any, **options: Any) -> Any:
            threads[name] = threading.current_thread()
            return original(*arguments, **options)

        return call

    for name in ("match", "rank"):
        monkeypatch.setattr(retrieve, name, seen(name))
    memories = [Memory(f"k{n}", f"tea number {n}") for n in range(300)]
    assert len(ask(memories, "tea", limit=limit)) == min(limit, 300)
    assert [threads[name] is not threading.main_thread() for name in ("match", "rank")] == [elsewhere] * 2


def test_on_sqlite_a_question_is_one_transaction_and_no_work_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []
    threads: list[threading.Thread] = []
    read, ranked = ThreadedSqliteEngine.read, ranking.rank

    def counted(self: ThreadedSqliteEngine, plan: Any, schema: Any) -> Any:
        reads.append(plan)
        return read(self, plan, schema)

    def noted(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return ranked(*arguments, **options)

    monkeypatch.setattr(ThreadedSqliteEngine, "read", counted)
    monkeypatch.setattr(retrieve, "rank", noted)
    memories = session("s", "How was the concert?", "Loud, but the cellist was amazing.", "Good.")
    hits = asyncio.run(asked(SQLiteStore(tmp_path / "test.db"), memories, "Who was at the concert?"))
    assert keys(hits)[:2] == ["s0", "s1"]  # the second is read from beside the first
    assert len(reads) == 1
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()

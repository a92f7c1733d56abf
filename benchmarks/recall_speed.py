"""What a question costs, against one hand-written FTS5 query on the same memories.

``python -m benchmarks.recall_speed [N]`` measures a user with N memories (100,000) beside 1,000 users of 100 each.
"""

import asyncio
import os
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.recall_data import generate
from benchmarks.recall_data.building import Conversation, Turn
from benchmarks.settings import progress, progress_done
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.recall import recall_items
from holdfast.memory.text import STOP_WORDS

WORDS = re.compile(r"\w+")
MEMORIES = 600
TOP = 10
_ROUNDS = 5
_SMALL_USERS = 1000
_SMALL_USER = 100

ItemOf = Callable[[Turn, int], tuple[tuple[str, ...], str, dict[str, str], dict[str, Any]]]


def any_of(question: str, stop: frozenset[str]) -> str:
    """An FTS5 expression: any of the question's words."""
    words = [word for word in WORDS.findall(question.lower()) if word not in stop]
    return " OR ".join(f'"{word}"' for word in dict.fromkeys(words))


class Small:
    """CPU of a question on 600 memories (fewer, if no conversation is that long), both sides in turns."""

    def __init__(self, conversations: Sequence[Conversation], item_of: ItemOf) -> None:
        longest = max(conversations, key=lambda c: len(c["turns"]))
        self._turns = longest["turns"][:MEMORIES]
        self._questions = [question["question"] for question in longest["questions"]]
        self._items = [item_of(turn, number) for number, turn in enumerate(self._turns)]
        self._fts = sqlite3.connect(":memory:")
        fill_fts(self._fts, [turn["text"] for turn in self._turns])

    def told(self) -> str:
        fts, ours = asyncio.run(self._measure())
        ratio = median(own / theirs for own, theirs in zip(ours, fts, strict=True))
        return (
            f"CPU of a question on {len(self._turns)} memories: FTS5 with a stop list {median(fts) * 1e6:.0f} us, "
            f"Holdfast {median(ours) * 1e6:.0f} us: {ratio:.1f} x"
        )

    async def _measure(self) -> tuple[list[float], list[float]]:
        fts: list[float] = []
        ours: list[float] = []
        async with SQLiteStore() as store:
            await store.put_batch(self._items)
            namespace = self._items[0][0]
            for round_number in range(_ROUNDS):
                begin = time.process_time()
                for question in self._questions:
                    ask_fts(self._fts, question)
                middle = time.process_time()
                for question in self._questions:
                    await recall_items(store, namespace, question, TOP)
                end = time.process_time()
                if round_number:  # the first one warms up
                    fts.append((middle - begin) / len(self._questions))
                    ours.append((end - middle) / len(self._questions))
        return fts, ours

    def close(self) -> None:
        self._fts.close()


def fill_fts(connection: sqlite3.Connection, texts: Sequence[str]) -> None:
    connection.execute("CREATE VIRTUAL TABLE memories USING fts5(text, tokenize='porter unicode61')")
    connection.executemany("INSERT INTO memories VALUES (?)", [(text,) for text in texts])
    connection.commit()


def ask_fts(connection: sqlite3.Connection, question: str) -> list[tuple[int, str]]:
    words = any_of(question, STOP_WORDS)
    sql = "SELECT rowid, text FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT ?"
    return connection.execute(sql, (words, TOP)).fetchall() if words else []


class Large:
    """A user with many memories, and many users with few, in one file."""

    def __init__(self, folder: Path, memories: int) -> None:
        self._folder = folder
        rng = random.Random(1)
        turns = [turn["text"] for conversation in generate() for turn in conversation["turns"]]
        sentences = [part for text in turns for part in re.split(r"(?<=[.!?])\s+", text) if len(part) > 15]
        self._texts = [_text(rng, sentences) for _ in range(memories)]
        questions = [q["question"] for conversation in generate() for q in conversation["questions"]]
        self._questions = rng.sample(questions, min(60, len(questions)))

    async def measure(self) -> None:
        store = SQLiteStore(self._folder / "ours.db", durability="normal")
        with closing(sqlite3.connect(self._folder / "fts.db")) as fts:
            fill_fts(fts, self._texts)
            await self._fill(store)
            both: dict[str, list[float]] = {"fts": [], "ours": []}
            for question in [*self._questions[:5], *self._questions]:
                begin = time.perf_counter()
                ask_fts(fts, question)
                middle = time.perf_counter()
                await recall_items(store, ("memory", "large"), question, TOP)
                both["fts"].append(middle - begin)
                both["ours"].append(time.perf_counter() - middle)
            slowest = [0.0]
            with _callbacks(slowest):  # nothing else runs on the loop meanwhile
                await asyncio.sleep(0)
                for question in self._questions:
                    await recall_items(store, ("memory", "large"), question, TOP)
        await store.close()
        ours, theirs = (_p95(both[name][5:]) for name in ("ours", "fts"))
        progress_done()
        print(
            f"{len(self._texts):,} memories of one user beside {_SMALL_USERS:,} of {_SMALL_USER}: recall p95 "
            f"{ours * 1e3:.1f} ms, FTS5 p95 {theirs * 1e3:.1f} ms: {ours / theirs:.2f} x; "
            f"medians {median(both['ours'][5:]) * 1e3:.1f} and {median(both['fts'][5:]) * 1e3:.1f} ms"
        )
        print(f"longest callback on the event loop: {slowest[0] * 1e3:.2f} ms of thread CPU")

    async def _fill(self, store: SQLiteStore) -> None:
        for start in range(0, len(self._texts), 2000):
            progress(f"recall: {start:,} memories")
            await store.put_batch(
                [
                    _item(("memory", "large"), number, text)
                    for number, text in enumerate(self._texts[start : start + 2000], start=start)
                ]
            )
        for user in range(_SMALL_USERS):
            texts = self._texts[user % 500 : user % 500 + _SMALL_USER]
            await store.put_batch(
                [_item(("memory", f"user {user}"), n, text) for n, text in enumerate(texts)]
            )


def _item(namespace: tuple[str, ...], number: int, text: str) -> tuple[Any, ...]:
    metadata = {"group": f"s{number // 20}", "ordinal": number % 20, "at": number * 60_000_000}
    return namespace, f"k{number}", {"text": text}, {**metadata, "speaker": ("Alice", "Bob")[number % 2]}


def _text(rng: random.Random, sentences: Sequence[str]) -> str:
    words = " ".join(rng.choice(sentences) for _ in range(rng.choice((1, 2, 2, 3)))).split()
    for _ in range(2):  # names and numbers, few of them frequent
        words[rng.randrange(len(words))] = f"n{int(rng.paretovariate(0.6)) % 50_000}"
    return " ".join(words)


@contextmanager
def _callbacks(slowest: list[float]) -> Any:
    """Note the longest callback of the running loop, in CPU of its thread."""
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> Any:
        begin = time.thread_time()
        try:
            return run(handle)
        finally:
            slowest[0] = max(slowest[0], time.thread_time() - begin)

    with mock.patch.object(asyncio.events.Handle, "_run", timed):
        yield


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=os.environ.get("TMPDIR")) as place:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
        asyncio.run(Large(Path(place), count).measure())

"""What a question costs, against one hand-written FTS5 query on the same memories, in turns.

``python -m benchmarks.recall_speed [N]`` measures a user with N memories (100,000) beside 1,000 users of 100 each.

The floor: a file with ``fts5(text, tokenize='porter unicode61')`` and nothing else; the question cut into words, those
of a stop list left out, ``MATCH`` any of them, ordered by FTS5's own BM25, the ten best with their text. Ours: a file,
the store at its defaults, `recall_items`, ten items with all their fields, scores and reasons.
"""

import asyncio
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.recall_data import KINDS, generate, grown
from benchmarks.recall_data.building import Conversation, Turn
from benchmarks.report import Measure, at_most, duration, print_table
from benchmarks.settings import Settings, progress, progress_done
from benchmarks.store import watched
from benchmarks.timing import ratio
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.recall import recall_items
from holdfast.memory.text import STOP_WORDS

MEMORIES = 600
TOP = 10
LIMIT = 5.0
"""Times one FTS5 query, on 600 memories of talk."""
CALLBACK_LIMIT = 0.020
_WORDS = re.compile(r"\w+")
_ROUNDS = 5
_QUESTIONS = 150
_SHOWN = 6
_LARGE_QUESTIONS = 60
_SMALL_USER = 100

Item = tuple[tuple[str, ...], str, dict[str, str], dict[str, Any]]
ItemOf = Callable[[Turn, int], Item]


def any_of(question: str, stop: frozenset[str]) -> str:
    """An FTS5 expression: any of the question's words."""
    words = [word for word in _WORDS.findall(question.lower()) if word not in stop]
    return " OR ".join(f'"{word}"' for word in dict.fromkeys(words))


def fill_fts(connection: sqlite3.Connection, texts: Sequence[str]) -> None:
    connection.execute("CREATE VIRTUAL TABLE memories USING fts5(text, tokenize='porter unicode61')")
    connection.executemany("INSERT INTO memories VALUES (?)", [(text,) for text in texts])
    connection.commit()


def ask_fts(connection: sqlite3.Connection, question: str) -> list[tuple[int, str]]:
    words = any_of(question, STOP_WORDS)
    sql = "SELECT rowid, text FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT ?"
    return connection.execute(sql, (words, TOP)).fetchall() if words else []


# ── a few hundred memories ────────────────────────────────────────────────────────────────────────


@dataclass
class Cost:
    """Seconds of CPU for a question, round by round."""

    what: str
    memories: int
    ours: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    def told(self) -> str:
        found = ratio(self.ours, self.floor)
        bound = ""
        if self.memories == MEMORIES:
            bound = f" (at most {LIMIT:g} x: {'kept' if found <= LIMIT else 'MISSED'})"
        return (
            f"CPU of a question, {self.what}, {self.memories} memories: FTS5 with a stop list "
            f"{duration(median(self.floor))}, Holdfast {duration(median(self.ours))}: {found:.1f} x{bound}"
        )

    def measure(self) -> Measure:
        """Shown, not bound: the bound is for talk, in which a question's words are in many memories."""
        what = f"CPU of a question, {self.what}, {self.memories} memories"
        ours, floor = duration(median(self.ours)), duration(median(self.floor))
        return Measure(what, ours, floor, ratio(self.ours, self.floor), timed=True)


def told(conversations: Sequence[Conversation], item_of: ItemOf) -> Iterator[str]:
    """A line for each of the longest conversations."""
    longest = sorted(conversations, key=lambda c: len(c["turns"]), reverse=True)[:_SHOWN]
    for conversation in longest:
        if conversation["questions"]:
            yield asyncio.run(_cost(conversation, item_of, _ROUNDS)).told()


async def _cost(conversation: Conversation, item_of: ItemOf, rounds: int) -> Cost:
    """Of the first 600 memories of a conversation. Whoever begins a round ends the next one."""
    turns = conversation["turns"][:MEMORIES]
    asked = [question["question"] for question in conversation["questions"]]
    asked = (asked * (1 + _QUESTIONS // len(asked)))[: max(_QUESTIONS, len(asked))]
    items = [item_of(turn, number) for number, turn in enumerate(turns)]
    cost = Cost(conversation["id"], len(turns))
    progress(f"recall: questions to {conversation['id']}")
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        closing(sqlite3.connect(Path(folder) / "fts.db")) as fts,
    ):
        fill_fts(fts, [turn["text"] for turn in turns])
        async with SQLiteStore(Path(folder) / "ours.db") as store:
            await store.put_batch(items)

            async def by_fts() -> None:
                for question in asked:
                    ask_fts(fts, question)

            async def by_recall() -> None:
                for question in asked:
                    await recall_items(store, items[0][0], question, TOP)

            for number in range(rounds + 1):  # the first one warms up
                sides = [(by_fts, cost.floor), (by_recall, cost.ours)]
                for ask, spent in sides if number % 2 else sides[::-1]:
                    seconds = await _cpu(ask)
                    if number:
                        spent.append(seconds / len(asked))
    progress_done()
    return cost


async def _cpu(work: Callable[[], Awaitable[None]]) -> float:
    begin = time.process_time()
    await work()
    return time.process_time() - begin


# ── many memories ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class Spent:
    """Seconds for each question, in each round: CPU and time, ours and the floor's."""

    cpu: dict[str, list[list[float]]] = field(default_factory=lambda: {"ours": [], "floor": []})
    wall: dict[str, list[list[float]]] = field(default_factory=lambda: {"ours": [], "floor": []})
    slowest_callback: float = 0.0

    def measures(self, of: str) -> list[Measure]:
        return [
            *[_p95_measure(kind, of, spent) for kind, spent in (("CPU", self.cpu), ("time", self.wall))],
            at_most(
                "longest callback on the event loop while recalling, CPU of its thread",
                self.slowest_callback,
                CALLBACK_LIMIT,
                "s",
                timed=True,
            ),
        ]


def _p95_measure(kind: str, of: str, spent: Mapping[str, list[list[float]]]) -> Measure:
    """The 95th of 100 questions, each as its median round: a busy moment hits one round of a question."""
    each = {side: [median(rounds) for rounds in zip(*found, strict=True)] for side, found in spent.items()}
    ours, floor = _p95(each["ours"]), _p95(each["floor"])
    return Measure(
        f"{kind} of recall, {of}, p95 of {len(each['ours'])} questions",
        duration(ours),
        duration(floor),
        ours / floor,
        "<= 3 x FTS5",
        ours <= 3.0 * floor,
        timed=True,
        value=ours / floor,
        samples=each,
        note=f"medians {duration(median(each['ours']))} and {duration(median(each['floor']))}",
    )


class Large:
    """A user with many memories, and many users with few, in one file."""

    def __init__(self, folder: Path, memories: int, users: int) -> None:
        self._folder = folder
        self._users = users
        rng = random.Random(1)
        turns = [turn["text"] for conversation in generate() for turn in conversation["turns"]]
        sentences = [part for text in turns for part in re.split(r"(?<=[.!?])\s+", text) if len(part) > 15]
        self._texts = [_text(rng, sentences) for _ in range(memories)]
        questions = [q["question"] for conversation in generate() for q in conversation["questions"]]
        self._questions = rng.sample(questions, min(_LARGE_QUESTIONS, len(questions)))

    async def measure(self, rounds: int) -> list[Measure]:
        await self._fill()
        spent = Spent()
        with closing(sqlite3.connect(self._folder / "fts.db")) as fts:
            fill_fts(fts, self._texts)
            async with SQLiteStore(self._folder / "ours.db") as store:
                for number in range(rounds + 1):  # the first one warms up
                    progress(f"recall: questions, round {number}")
                    found = await self._round(store, fts, ours_first=bool(number % 2))
                    for side in ("ours", "floor") if number else ():
                        spent.cpu[side].append(found.cpu[side][0])
                        spent.wall[side].append(found.wall[side][0])
                spent.slowest_callback = await self._slowest_callback()
        progress_done()
        of = f"{len(self._texts):,} memories of one user beside {self._users:,} users of {_SMALL_USER}"
        return spent.measures(of)

    async def _round(self, store: SQLiteStore, fts: sqlite3.Connection, *, ours_first: bool) -> Spent:
        """Question by question in turns."""
        found = Spent({"ours": [[]], "floor": [[]]}, {"ours": [[]], "floor": [[]]})

        async def by_fts(question: str) -> None:
            ask_fts(fts, question)

        async def by_recall(question: str) -> None:
            await recall_items(store, ("memory", "large"), question, TOP)

        sides = [("floor", by_fts), ("ours", by_recall)]
        for question in self._questions:
            for side, ask in sides[::-1] if ours_first else sides:
                wall, cpu = time.perf_counter(), time.process_time()
                await ask(question)
                found.cpu[side][0].append(time.process_time() - cpu)
                found.wall[side][0].append(time.perf_counter() - wall)
        return found

    async def _slowest_callback(self) -> float:
        """Of a fresh object: the first questions read most. One after the other, then ten at once."""
        async with SQLiteStore(self._folder / "ours.db") as store:
            with watched() as spent:
                for question in self._questions:
                    await recall_items(store, ("memory", "large"), question, TOP)
                some = self._questions[:10]
                await asyncio.gather(*(recall_items(store, ("memory", "large"), q, TOP) for q in some))
                await asyncio.sleep(0)
        return max(spent)

    async def _fill(self) -> None:
        """Not measured, so it need not survive a power cut."""
        async with SQLiteStore(self._folder / "ours.db", durability="normal") as store:
            for start in range(0, len(self._texts), 2000):
                progress(f"recall: {start:,} memories")
                some = enumerate(self._texts[start : start + 2000], start=start)
                await store.put_batch([_item(("memory", "large"), number, text) for number, text in some])
            for user in range(self._users):
                texts = self._texts[user % 500 : user % 500 + _SMALL_USER]
                await store.put_batch(
                    [_item(("memory", f"user {user}"), n, text) for n, text in enumerate(texts)]
                )


def _item(namespace: tuple[str, ...], number: int, text: str) -> Item:
    metadata = {"group": f"s{number // 20}", "ordinal": number % 20, "at": number * 60_000_000}
    return namespace, f"k{number}", {"text": text}, {**metadata, "speaker": ("Alice", "Bob")[number % 2]}


def _text(rng: random.Random, sentences: Sequence[str]) -> str:
    words = " ".join(rng.choice(sentences) for _ in range(rng.choice((1, 2, 2, 3)))).split()
    for _ in range(2):  # names and numbers, few of them frequent
        words[rng.randrange(len(words))] = f"n{int(rng.paretovariate(0.6)) % 50_000}"
    return " ".join(words)


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


# ── as a group of the benchmarks ──────────────────────────────────────────────────────────────────


def run(settings: Settings) -> list[Measure]:
    """The measures of a question's cost."""
    return [*_kinds(settings), *_many(settings)]


def _kinds(settings: Settings) -> Iterator[Measure]:
    from benchmarks.recall import item_of  # it imports this module

    for kind in KINDS:
        yield asyncio.run(_cost(grown(kind, MEMORIES), item_of, settings.repeat)).measure()


def _many(settings: Settings) -> list[Measure]:
    large = Large(settings.place("recall"), settings.memories, settings.users)
    return asyncio.run(large.measure(3 if settings.repeat > 1 else 1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as place:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else Settings(Path(place)).memories
        shown = Settings(Path(place), memories=count)
        print_table("Recall among many memories", _many(shown))

"""How much of the evidence is among the first ten: ``python -m benchmarks.recall [FILE]``.

FILE has conversations with ``turns`` and ``questions`` (see `benchmarks.recall_file`); without one our own data is
measured. ``recall@10`` is the share of a question's evidence found, averaged over the questions that are not
``adversarial``. No language model is used. The last line is ``overall recall@10 NN.N``, that of the default.
"""

import argparse
import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import recall_speed
from benchmarks.recall_data import generate
from benchmarks.recall_data.building import Conversation, Question, Turn
from benchmarks.recall_file import BadFile, read_file
from benchmarks.report import Measure, not_measured
from benchmarks.settings import Settings, progress, progress_done
from holdfast.core.clock import from_us, to_us
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.embedder.local import LocalEmbedder
from holdfast.memory.recall import Weights, recall_items, time_words
from holdfast.memory.store import BaseStore
from holdfast.memory.text import STOP_WORDS

NAMESPACE = ("memory", "default", "u:bench", "episodes")
TOP = 10

Embed = Callable[[list[str]], Awaitable[Sequence[Sequence[float]]]]
Ask = Callable[[Question], Awaitable[list[str]]]
Shares = dict[str, list[float]]
"""For each category, the share of the evidence found, question by question."""

# Each without one signal, and with none but the words.
ABLATIONS = {
    "without context": replace(Weights(), context=()),
    "without session": replace(Weights(), session=0.0),
    "without speaker": replace(Weights(), speaker=0.0),
    "without time": replace(Weights(), time=0.0),
    "without recency": replace(Weights(), recency=0.0, recency_asked=0.0),
    "without diversity": replace(Weights(), duplicate=0.0),
    "words alone": Weights((), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}


def item_of(turn: Turn, ordinal: int) -> tuple[tuple[str, ...], str, dict[str, str], dict[str, Any]]:
    """A turn as a memory: its words in the value, where it stands in the metadata. What it lacks is left out."""
    value: dict[str, str] = {"text": turn["text"]}
    metadata: dict[str, Any] = {}
    if turn["session"] is not None:
        metadata |= {"group": str(turn["session"]), "ordinal": ordinal}
    if turn["speaker"] is not None:
        metadata["speaker"] = turn["speaker"]
    if turn["when"] is not None:
        metadata["at"] = to_us(datetime.fromisoformat(turn["when"]))
        value["when"] = time_words(metadata["at"])
    return NAMESPACE, turn["id"], value, metadata


async def fill(store: BaseStore, conversation: Conversation, embed: Embed | None) -> None:
    turns = conversation["turns"]
    items = [item_of(turn, number) for number, turn in enumerate(turns)]
    if embed is None:
        await store.put_batch(items)
        return
    vectors = await embed([turn["text"] for turn in turns])
    for (namespace, key, value, metadata), vector in zip(items, vectors, strict=True):
        await store.put_with_embedding(namespace, key, value, list(vector), metadata)


def asked_at(conversation: Conversation) -> datetime | None:
    """Questions are asked when the last thing has been said."""
    times = [to_us(datetime.fromisoformat(turn["when"])) for turn in conversation["turns"] if turn["when"]]
    return from_us(max(times)) if times else None


class Fts5:
    """One hand-written query on an FTS5 table with porter stemming; ``stop`` are words left out."""

    def __init__(self, conversation: Conversation, stop: frozenset[str], *, speaker: bool) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE memories USING fts5(id UNINDEXED, speaker, text, tokenize='porter unicode61')"
        )
        self._connection.executemany(
            "INSERT INTO memories VALUES (?, ?, ?)",
            [
                (turn["id"], (turn["speaker"] or "") if speaker else "", turn["text"])
                for turn in conversation["turns"]
            ],
        )
        self._stop = stop

    async def __call__(self, question: Question) -> list[str]:
        words = recall_speed.any_of(question["question"], self._stop)
        if not words:
            return []
        found = self._connection.execute(
            "SELECT id FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT ?", (words, TOP)
        )
        return [number for (number,) in found]

    def close(self) -> None:
        self._connection.close()


@dataclass
class Systems:
    """What is compared, on one conversation."""

    store: BaseStore
    conversation: Conversation
    embed: Embed | None

    def lexical(self, weights: Weights) -> Ask:
        now = asked_at(self.conversation)

        async def ask(question: Question) -> list[str]:
            text = question["question"]
            hits = await recall_items(self.store, NAMESPACE, text, TOP, now=now, weights=weights)
            return [hit.item.key for hit in hits]

        return ask

    def hybrid(self, embed: Embed) -> Ask:
        now = asked_at(self.conversation)

        async def ask(question: Question) -> list[str]:
            text = question["question"]
            (vector,) = await embed([text])
            hits = await recall_items(self.store, NAMESPACE, text, TOP, now=now, embedding=list(vector))
            return [hit.item.key for hit in hits]

        return ask

    def vectors(self, embed: Embed) -> Ask:
        async def ask(question: Question) -> list[str]:
            (vector,) = await embed([question["question"]])
            hits = await self.store.search_by_embedding(NAMESPACE, list(vector), TOP)
            return [hit.item.key for hit in hits]

        return ask

    def all(self, *, ablations: bool) -> dict[str, Ask]:
        subjects: dict[str, Ask] = {"Holdfast": self.lexical(Weights())}
        if self.embed is not None:
            subjects["vectors alone"] = self.vectors(self.embed)
            subjects["Holdfast, with vectors"] = self.hybrid(self.embed)
        if ablations:
            subjects |= {name: self.lexical(weights) for name, weights in ABLATIONS.items()}
        return subjects


async def measure(
    conversations: Sequence[Conversation], embed: Embed | None, *, ablations: bool
) -> dict[str, Shares]:
    """The shares of each system."""
    results: dict[str, Shares] = {}
    dimension = None if embed is None else len((await embed(["a"]))[0])
    for conversation in conversations:
        progress(f"recall: {conversation['id']}")
        baselines = {
            "FTS5 porter": Fts5(conversation, frozenset(), speaker=True),
            "FTS5 porter, stop list": Fts5(conversation, STOP_WORDS, speaker=True),
            "FTS5 porter, stop list, text only": Fts5(conversation, STOP_WORDS, speaker=False),
        }
        async with SQLiteStore(dimension=dimension) as store:
            await fill(store, conversation, embed)
            subjects: dict[str, Ask] = {
                **baselines,
                **Systems(store, conversation, embed).all(ablations=ablations),
            }
            for name, ask in subjects.items():
                shares = results.setdefault(name, {})
                for question in counted(conversation):
                    found = set(await ask(question))
                    evidence = set(question["evidence"])
                    share = len(evidence & found) / len(evidence)
                    shares.setdefault(question["category"], []).append(share)
        for baseline in baselines.values():
            baseline.close()
    progress_done()
    return results


def counted(conversation: Conversation) -> list[Question]:
    """The questions that count."""
    return [q for q in conversation["questions"] if q["category"] != "adversarial" and q["evidence"]]


def mean(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0


def overall(shares: Shares) -> float:
    return mean([share for values in shares.values() for share in values])


def show(results: Mapping[str, Shares]) -> None:
    categories = sorted({category for shares in results.values() for category in shares})
    width = max(len(name) for name in results)
    print(f"{'recall@10':{width}}  " + "  ".join(f"{name:>11}" for name in [*categories, "overall"]))
    for name, shares in results.items():
        numbers = [*[mean(shares.get(category, [])) for category in categories], overall(shares)]
        print(f"{name:{width}}  " + "  ".join(f"{number:11.1f}" for number in numbers))
    first = next(iter(results.values()))
    counts = [*[len(first.get(c, [])) for c in categories], sum(map(len, first.values()))]
    print(f"{'questions':{width}}  " + "  ".join(f"{number:11d}" for number in counts))


def embedder(name: str) -> Embed:
    """``local``, or ``module:name`` of something that takes a list of texts and returns their vectors."""
    if name == "local":
        return LocalEmbedder().embed
    module, _, attribute = name.partition(":")
    found: Any = getattr(import_module(module), attribute)

    async def embed(texts: list[str]) -> list[list[float]]:
        return [[float(x) for x in vector] for vector in found(texts)]

    return embed


def run(settings: Settings) -> list[Measure]:
    """The measures of our own data, kind by kind: of what is found, which no machine's speed decides."""
    local = LocalEmbedder().embed if LocalEmbedder.is_installed() else None
    results = asyncio.run(measure(generate(), local, ablations=False))
    fts5, words = results["FTS5 porter, stop list"], results["Holdfast"]
    found = [
        _compared(f"recall@10 without vectors: {kind}", mean(words[kind]), mean(fts5[kind]), -LEEWAY, "FTS5")
        for kind in words
    ]
    if local is None:
        return [*found, not_measured("recall@10 with the local embedder", "needs the extra local")]
    both = results["Holdfast, with vectors"]
    return found + [
        _compared(
            f"recall@10 with the local embedder: {kind}",
            mean(both[kind]),
            mean(words[kind]),
            1.0 if kind == "assistant" else 0.0,
            "without vectors",
        )
        for kind in words
    ]


LEEWAY = 2.0
"""Points that recall may be below FTS5 with a stop list, on any kind."""


def _compared(what: str, ours: float, other: float, more: float, name: str) -> Measure:
    bound = f">= {name} {more:+g} points" if more else f">= {name}"
    return Measure(what, f"{ours:.1f}", f"{other:.1f}", bound=bound, passed=ours >= other + more, value=ours)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="conversations (our own data)")
    parser.add_argument(
        "--embedder", type=embedder, metavar="NAME", help="measure vectors too: local, or MODULE:NAME"
    )
    parser.add_argument("--brief", action="store_true", help="no ablations, no timings")
    options = parser.parse_args(arguments)
    try:
        conversations = generate() if options.file is None else read_file(options.file)
    except BadFile as error:
        parser.error(str(error))
    results = asyncio.run(measure(conversations, options.embedder, ablations=not options.brief))
    show(results)
    if not options.brief:
        for line in recall_speed.told(conversations, item_of):
            print(line)
    print(f"overall recall@10 {overall(results['Holdfast']):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a store keeps between two questions, on any database: random writes of several objects, and questions."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from holdfast.memory.backends.sql.items_lengths import LengthCache
from holdfast.memory.backends.sql.items_store import SqlStore
from holdfast.memory.recall import recall_items
from holdfast.testing.clock import FrozenClock

NS = ("users", "ann")
WORDS = "tea mint boat paint red rain sun hill".split()
QUESTIONS = ("Was there tea on the boat?", "red paint", "rain", "Did anybody see the sun?")
KEYS = 40

Open = Callable[[FrozenClock], SqlStore]


async def told(store: SqlStore, question: str) -> list[tuple[object, ...]]:
    hits = await recall_items(store, NS, question, 5)
    return [(hit.item, hit.score, dict(hit.parts)) for hit in hits]


async def put(store: SqlStore, rng: random.Random, ttl: float | None = None) -> None:
    number = rng.randint(0, KEYS)
    at = rng.randint(0, KEYS) if rng.random() < 0.2 else number
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))
    place: dict[str, Any] = {"group": f"s{at % 3}", "ordinal": at // 3, "at": at * 1_000_000}
    await store.put(NS, f"k{number}", {"text": text}, place, ttl=ttl)


async def check_whoever_writes(open_store: Open, *, steps: int) -> None:
    """Two objects write and ask; a third keeps nothing, and answers the same."""
    rng, clock = random.Random(steps), FrozenClock()
    async with open_store(clock) as one, open_store(clock) as two, open_store(clock) as plain:
        plain._lengths = LengthCache(0)
        for _ in range(25):
            await put(one, rng)
        for _ in range(steps):
            store, chance = rng.choice([one, two]), rng.random()
            if chance < 0.05:
                clock.advance(3.0)
            elif chance < 0.1:
                await store.purge_expired()
            elif chance < 0.13:
                await store.clear_namespace(NS)
                await put(rng.choice([one, two]), rng)
            elif chance < 0.25:
                await store.delete(NS, f"k{rng.randint(0, KEYS)}")
            else:
                await put(store, rng, rng.choice([None] * 15 + [5.0]))
            question = rng.choice(QUESTIONS)
            expected = await told(plain, question)
            assert await told(one, question) == expected
            if rng.random() < 0.5:
                assert await told(two, question) == expected


async def check_while_others_write(open_store: Open, *, writes: int) -> None:
    """Tasks of two objects write while tasks ask; then all answer as one does that kept nothing."""
    clock = FrozenClock()
    async with open_store(clock) as one, open_store(clock) as two, open_store(clock) as plain:
        plain._lengths = LengthCache(0)
        await put(one, random.Random(0))
        await told(plain, "rain")  # a database that was emptied is indexed anew: not while the others write
        done = asyncio.Event()

        async def write(store: SqlStore, seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(writes):
                if rng.random() < 0.15:
                    await store.delete(NS, f"k{rng.randint(0, KEYS)}")
                else:
                    await put(store, rng)

        async def ask(store: SqlStore, seed: int) -> None:
            rng = random.Random(seed)
            while not done.is_set():
                keys = [item.key for item, *_ in await told(store, rng.choice(QUESTIONS))]  # type: ignore[attr-defined] # an item
                assert len(set(keys)) == len(keys), "one item, two moments"

        asking = [asyncio.create_task(ask(store, seed)) for seed, store in enumerate([one, one, two])]
        await asyncio.gather(*(write(store, seed) for seed, store in enumerate([one, two, two])))
        done.set()
        await asyncio.gather(*asking)
        for question in QUESTIONS:
            expected = await told(plain, question)
            assert await told(one, question) == expected
            assert await told(two, question) == expected

"""Memories for the tests of recall, and questions to them."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.core.clock import to_us
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.recall import Recalled, recall_items, time_words
from holdfast.memory.store import BaseStore

NAMESPACE = ("memory", "default", "u:alice", "episodes")
NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)  # a Wednesday


@dataclass(frozen=True)
class Memory:
    """A memory; what is not given is not in its metadata."""

    key: str
    text: str
    group: str | None = None
    ordinal: int | None = None
    speaker: str | None = None
    at: datetime | None = None
    confidence: float | None = None
    vector: tuple[float, ...] | None = None
    dated: bool = False

    @property
    def metadata(self) -> dict[str, Any]:
        fields = {
            "group": self.group,
            "ordinal": self.ordinal,
            "speaker": self.speaker,
            "at": None if self.at is None else to_us(self.at),
            "confidence": self.confidence,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def value(self) -> dict[str, str]:
        when = {"when": time_words(to_us(self.at))} if self.dated and self.at is not None else {}
        return {"text": self.text, **when}


def day(month: int, number: int, year: int = 2026) -> datetime:
    return datetime(year, month, number, 12, tzinfo=UTC)


def session(group: str, *texts: str, **fields: Any) -> list[Memory]:
    """One turn after the other; the keys are the group and the place."""
    return [
        Memory(f"{group}{place}", text, group=group, ordinal=place, **fields)
        for place, text in enumerate(texts)
    ]


async def fill(store: BaseStore, memories: Sequence[Memory]) -> None:
    for memory in memories:
        if memory.vector is None:
            await store.put(NAMESPACE, memory.key, memory.value, memory.metadata)
        else:
            await store.put_with_embedding(
                NAMESPACE, memory.key, memory.value, list(memory.vector), memory.metadata
            )


async def asked(
    opening: AbstractAsyncContextManager[BaseStore], memories: Sequence[Memory], question: str, **options: Any
) -> list[Recalled]:
    async with opening as store:
        await fill(store, memories)
        return await recall_items(store, NAMESPACE, question, **{"now": NOW, **options})


def ask(memories: Sequence[Memory], question: str, **options: Any) -> list[Recalled]:
    """What is recalled from a new store in memory that has these memories."""
    dimension = 2 if any(memory.vector for memory in memories) else None
    return asyncio.run(asked(InMemoryStore(dimension=dimension), memories, question, **options))


def keys(hits: Sequence[Recalled]) -> list[str]:
    return [hit.item.key for hit in hits]

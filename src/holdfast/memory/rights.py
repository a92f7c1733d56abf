"""What a user may ask for: what is known of them, a copy of it, and that it be gone. Counted by looking."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.core import codec
from holdfast.core.clock import to_us
from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.memory.buckets import bucket_of
from holdfast.memory.facts import Fact
from holdfast.memory.records import StoreItem
from holdfast.memory.store import BaseStore

__all__ = ["Filter", "Profile", "Receipt", "export_lines", "import_lines", "scan"]

FORMAT = "holdfast-memory"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a user."""

    blocks: Mapping[str, str]
    facts: tuple[Fact, ...]
    episodes: int
    sessions: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was forgotten: how many of each kind there were before, and what a second look found afterwards."""

    removed: Mapping[str, int]
    remaining: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing was found any more."""
        return not any(self.remaining.values())


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of a user's episodes are meant: all, those of a session, those before a moment, or both."""

    session_id: str | None = None
    before: datetime | None = None

    @property
    def everything(self) -> bool:
        return self.session_id is None and self.before is None

    def takes(self, item: StoreItem) -> bool:
        if self.session_id is not None and item.metadata.get("group") != self.session_id:
            return False
        return self.before is None or item.metadata.get("at", 0) < to_us(self.before)


async def scan(store: BaseStore, space: str, user_id: str | None) -> AsyncIterator[StoreItem]:
    """Every item of a user, of whatever kind."""
    async for item in store.iterate(bucket_of(space, user_id), prefix=True):
        yield item


async def export_lines(store: BaseStore, space: str, user_id: str | None) -> AsyncIterator[str]:
    """All that is kept of a user, as JSON lines: a head, then an item a line."""
    yield json.dumps({"format": FORMAT, "version": VERSION})
    depth = len(bucket_of(space, user_id))
    async for item in scan(store, space, user_id):
        line = {
            "place": list(item.namespace[depth:]),
            "key": item.key,
            "value": item.value,
            "metadata": item.metadata,
        }
        yield codec.dumps(line)


def import_lines(lines: list[str]) -> list[dict[str, Any]]:
    """The items of an export, all of them checked before the first is written."""
    if not lines:
        raise InvalidInput("the export is empty: its first line says what it is")
    try:
        head = json.loads(lines[0])
        if head.get("format") != FORMAT or head.get("version") != VERSION:
            raise InvalidInput(
                f"line 1 must say format {FORMAT!r}, version {VERSION}, got {lines[0][:100]!r}"
            )
        items = [codec.loads(line, place=f"line {number}") for number, line in enumerate(lines[1:], 2)]
        for number, item in enumerate(items, 2):
            if not isinstance(item, dict) or not {"place", "key", "value", "metadata"} <= item.keys():
                raise Corrupt(f"line {number} is not an item", place=f"line {number}")
    except (ValueError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise Corrupt(f"line 1 is not JSON: {error}", place="line 1") from error
    return items

"""What `MemoryCheckpointer` keeps, and all that can be said of it without scopes and clocks: pure."""

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from holdfast.core import codec
from holdfast.core.clock import from_us
from holdfast.core.messages import decode_message
from holdfast.core.state import LOGGED_FIELDS, AgentState, encode_element
from holdfast.memory.diff import common_length
from holdfast.memory.records import CheckpointInfo
from holdfast.memory.requests import ListDelta, PruneRequest
from holdfast.memory.text import analyse, message_text

Lists = Mapping[str, tuple[str, ...]]
"""The logged fields of a state, each as the texts of its elements."""


@dataclass(frozen=True, slots=True)
class Row:
    """A stored checkpoint. Never changed, so forks share it."""

    checkpoint_id: str
    parent_id: str | None
    sequence: int
    created_us: int
    metadata: str
    head: str
    lists: Lists


@dataclass(slots=True)
class Thread:
    """One life of a thread id: deleted and saved again, it is another one."""

    life: int
    created_us: int
    # The visible checkpoints by id, oldest first.
    rows: dict[str, Row] = field(default_factory=dict)
    # The pending writes of a checkpoint's task: its channels and values.
    writes: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    next_sequence: int = 1
    # Rows up to this sequence came with a fork: from these lives, from each up to that sequence.
    inherited: int = 0
    ancestors: dict[int, int] = field(default_factory=dict)
    # The place of the last save in the order of all saves.
    number: int = 0
    updated_us: int = 0
    expires_us: int | None = None
    last_saved: tuple[AgentState, Lists] | None = None

    @property
    def head(self) -> Row:
        return next(reversed(self.rows.values()))

    def find(self, checkpoint_id: str | None) -> Row | None:
        return self.head if checkpoint_id is None else self.rows.get(checkpoint_id)

    def drop(self, checkpoint_id: str) -> None:
        del self.rows[checkpoint_id]
        self.drop_writes(checkpoint_id)

    def drop_writes(self, checkpoint_id: str) -> None:
        for key in [key for key in self.writes if key[0] == checkpoint_id]:
            del self.writes[key]

    def has_writes(self, checkpoint_id: str) -> bool:
        return any(key[0] == checkpoint_id for key in self.writes)


class Storage:
    """What an object and its scoped views share."""

    def __init__(self) -> None:
        self.scopes: dict[str | None, dict[str, Thread]] = {}
        self.saves = 0
        self.lives = 0


@dataclass(frozen=True, slots=True)
class Words:
    """What search looks into: a message's text, how often it has each term, and how many terms it has."""

    text: str
    counts: Mapping[str, int]
    length: int


@lru_cache(maxsize=10_000)
def words_of(element: str) -> Words:
    text = message_text(decode_message(element))
    terms = analyse(text)
    return Words(text, Counter(terms), len(terms))


def expired(thread: Thread, now_us: int) -> bool:
    return thread.expires_us is not None and thread.expires_us <= now_us


def info_of(thread_id: str, row: Row) -> CheckpointInfo:
    return CheckpointInfo(
        thread_id,
        row.checkpoint_id,
        row.parent_id,
        row.sequence,
        from_us(row.created_us),
        codec.loads(row.metadata),
    )


def fits(metadata: Mapping[str, Any], where: tuple[str, Any] | None) -> bool:
    return where is None or (where[0] in metadata and codec.same(metadata[where[0]], where[1]))


def encode_lists(state: AgentState, last_saved: tuple[AgentState, Lists] | None) -> Lists:
    """The texts of all logged elements. Those shared with the last state are not encoded again."""
    lists: dict[str, tuple[str, ...]] = {}
    for name in LOGGED_FIELDS:
        elements: tuple[Any, ...] = getattr(state, name)
        known: tuple[str, ...] = ()
        if last_saved is not None:
            known = last_saved[1][name][: _identical(elements, getattr(last_saved[0], name))]
        lists[name] = known + tuple([encode_element(name, element) for element in elements[len(known) :]])
    return lists


def _identical(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many leading elements are the same objects: being immutable, they have the same texts."""
    for index, identical in enumerate(map(operator.is_, first, second)):
        if not identical:
            return index
    return min(len(first), len(second))


def delta(before: tuple[str, ...], after: tuple[str, ...]) -> ListDelta:
    keep = common_length(before, after)
    return ListDelta(keep, after[keep:])


def writes_at(thread: Thread, checkpoint_id: str) -> list[tuple[str, int, str, Any]]:
    """``(task_id, idx, channel, value)``, in order."""
    return [
        (task_id, idx, channel, codec.loads(value))
        for (at, task_id), writes in sorted(thread.writes.items())
        if at == checkpoint_id
        for idx, (channel, value) in enumerate(writes)
    ]


def read_by_forks(threads: Iterable[Thread]) -> dict[int, int]:
    """For each life that a thread was forked from, directly or not: up to which sequence it is read."""
    read: dict[int, int] = {}
    for thread in threads:
        for life, upto in thread.ancestors.items():
            read[life] = max(upto, read.get(life, 0))
    return read


def removable(thread: Thread, request: PruneRequest, read_by_forks: int) -> list[str]:
    """The ids that a prune takes from this thread, oldest first."""
    rows = list(thread.rows.values())
    newest = rows[-max(1, request.keep_last or 0) :]
    protected = max(thread.inherited, read_by_forks)
    return [
        row.checkpoint_id
        for row in rows[: len(rows) - len(newest)]
        if row.sequence > protected
        and not thread.has_writes(row.checkpoint_id)
        and (request.older_than is None or row.created_us < request.older_than)
    ]

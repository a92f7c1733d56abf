"""What a validated call asks of a backend: the arguments of the hooks, once they need a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.core.state import AgentState
from holdfast.core.unset import UnsetType


class SaveRequest(NamedTuple):
    """``checkpoint_id``: ``None`` if the backend is to make one (see `core.ids`).

    ``parent``: an id to compare the head with, ``None`` for "no such thread", unset for "whatever it is".
    """

    thread_id: str
    state: AgentState
    checkpoint_id: str | None
    metadata: dict[str, Any]
    parent: str | UnsetType | None
    now_us: int


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Which checkpoints may go: those that every given criterion names.

    A thread's head, a checkpoint that a fork still reads and one with pending writes are never removed.
    ``stale_before`` also removes whole threads whose last save is older.
    """

    keep_last: int | None = None
    older_than: int | None = None
    stale_before: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ListDelta:
    """A list relative to the one of the record before: keep so many, then add these encoded elements."""

    keep: int
    add: Sequence[str]


@dataclass(frozen=True, slots=True)
class DumpRecord:
    """One checkpoint of a :class:`ThreadDump`, as a change from the record before it.

    A list that is not named is empty.
    """

    checkpoint_id: str
    parent_id: str | None
    created_us: int
    metadata: Mapping[str, Any]
    head: str
    lists: Mapping[str, ListDelta]
    writes: Sequence[tuple[str, int, str, Any]] = ()


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """A whole thread, oldest checkpoint first: what export writes and import reads."""

    thread_id: str
    created_us: int
    records: Sequence[DumpRecord] = field(default_factory=tuple)

"""What the two contracts hand out: frozen objects, safe to keep and to share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from holdfast.core.state import AgentState

T = TypeVar("T")


class Page(list[T], Generic[T]):
    """A list that knows how to go on: pass ``next`` as ``after=`` to get what follows; ``None`` is the end."""

    def __init__(self, items: Iterable[T] = (), next: str | None = None) -> None:
        super().__init__(items)
        self.next = next


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """One checkpoint without its state. ``sequence`` orders the checkpoints of a thread."""

    thread_id: str
    checkpoint_id: str
    parent_id: str | None
    sequence: int
    created_at: datetime
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint with its state."""

    state: AgentState
    info: CheckpointInfo


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """One write of a step that is not yet part of a checkpoint."""

    task_id: str
    idx: int
    channel: str
    value: Any


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a ``prune`` removed, or would remove: ``(thread_id, checkpoint_id)``, oldest first in each thread."""

    removed: tuple[tuple[str, str], ...]
    dry_run: bool

    @property
    def count(self) -> int:
        return len(self.removed)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of the state that differs: its value on each side."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ListChange:
    """How a list grew or was edited: ``common`` leading elements are shared, then they part."""

    common: int
    removed: Sequence[Any]
    added: Sequence[Any]


@dataclass(frozen=True, slots=True)
class CheckpointDiff:
    """What changed from ``before`` to ``after``. Empty mappings mean: nothing."""

    before: CheckpointInfo
    after: CheckpointInfo
    fields: Mapping[str, FieldChange] = field(default_factory=dict)
    lists: Mapping[str, ListChange] = field(default_factory=dict)

    @property
    def identical(self) -> bool:
        return not self.fields and not self.lists


@dataclass(frozen=True, slots=True)
class CheckpointerStats:
    """Counts within one scope. ``bytes`` is the stored size of messages and states where the backend can tell."""

    threads: int
    checkpoints: int
    entries: int
    pending_writes: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did."""

    threads: int
    checkpoints: int
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreItem:
    """One item of a store. ``value`` and ``metadata`` are copies: changing them changes nothing stored."""

    namespace: tuple[str, ...]
    key: str
    value: Any
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    version: int


@dataclass(frozen=True, slots=True)
class SearchHit:
    """An item that was found. ``score``: higher is nearer, on every metric; ``distance`` only for vectors."""

    item: StoreItem
    score: float
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class TextCandidate:
    """An item that has at least one of the asked terms: how often each occurs, and the item's length in terms."""

    item: StoreItem
    frequencies: Mapping[str, int]
    length: int


@dataclass(frozen=True, slots=True)
class TextCandidates:
    """Candidates for ranking with the statistics of the namespace that they were looked for in."""

    candidates: tuple[TextCandidate, ...]
    document_frequencies: Mapping[str, int]
    documents: int
    average_length: float


@dataclass(frozen=True, slots=True)
class PutOp:
    """For ``batch``: put an item."""

    namespace: tuple[str, ...]
    key: str
    value: Any
    metadata: Mapping[str, Any] | None = None
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """For ``batch``: delete an item."""

    namespace: tuple[str, ...]
    key: str

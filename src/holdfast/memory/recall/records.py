"""What recall is given and what it hands out."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.memory.records import StoreItem
from holdfast.memory.store_requests import StoredCandidate, StoredItem

SIGNALS = (
    "words",
    "context",
    "session",
    "speaker",
    "time",
    "recency",
    "meaning",
    "confidence",
    "duplicate",
)
"""The parts of a score, in the order in which they are added up."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that was found. ``score`` is the sum of ``parts``, which say what each signal gave or took.

    Scores compare within one answer only.
    """

    item: StoreItem
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts; 0 or ``()`` switches one off.

    They are in units of a word of the question: 1.0 is a word as rare as the thing itself (turns of that speaker,
    memories of that time). ``context`` has a weight for each step away from a turn: what is said beside it counts half,
    two turns away a quarter.
    """

    context: tuple[float, ...] = (0.5, 0.25)
    session: float = 0.5
    speaker: float = 1.0
    time: float = 1.0
    recency: float = 0.05
    recency_asked: float = 1.0
    meaning: float = 0.35
    confidence: float = 0.5
    duplicate: float = 0.5


DEFAULTS = Weights()


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers of the namespace: how many memories have each term, how many there are, how long they are."""

    document_frequencies: Mapping[str, int]
    documents: int
    average_length: float


@dataclass(slots=True)
class Candidate:
    """A memory that may answer: which of the question's terms it has, and where it stands.

    ``similarity`` is that of its vector to the question's, if it was found by it. ``metadata`` is the item's, read.
    """

    item: StoredItem
    frequencies: Mapping[str, int]
    length: int = 0
    similarity: float | None = None
    group: str | None = None
    ordinal: int | None = None
    speaker: str | None = None
    at: int | None = None
    confidence: float | None = None
    metadata: Any = None

    def decode(self) -> StoreItem:
        """The item. Its metadata is handed out: it may be asked for once."""
        return self.item.with_metadata(self.metadata)


def candidates(found: Sequence[StoredCandidate], similarities: Mapping[int, float]) -> list[Candidate]:
    """What was found by words. ``similarities`` has those that were found by their vector too, by version."""
    read = _metadata([each.item.metadata for each in found])
    return [
        _placed(each, similarities.get(each.item.version), metadata)
        for each, metadata in zip(found, read, strict=True)
    ]


def wordless(items: Iterable[StoredItem], similarities: Mapping[int, float]) -> list[Candidate]:
    """What has no word of the question."""
    return candidates([StoredCandidate(item, {}, 0) for item in items], similarities)


def _placed(found: StoredCandidate, similarity: float | None, metadata: Any) -> Candidate:
    """With what its metadata says; a field of another type counts as not given."""
    item, frequencies, length = found.item, found.frequencies, found.length
    if type(metadata) is not dict:
        return Candidate(item, frequencies, length, similarity, metadata=metadata)
    given = metadata.get
    group, ordinal, at = given("group"), given("ordinal"), given("at")
    speaker, confidence = given("speaker") or given("role"), given("confidence")
    if confidence is not None:
        sure = isinstance(confidence, int | float) and 0 <= confidence <= 1
        confidence = float(confidence) if sure else None
    return Candidate(
        item,
        frequencies,
        length,
        similarity,
        group if type(group) is str else None,
        ordinal if type(ordinal) is int else None,
        speaker if type(speaker) is str else None,
        at if type(at) is int else None,
        confidence,
        metadata,
    )


def _metadata(texts: Sequence[str]) -> list[Any]:
    """Read as one text: that takes half the time. If one is damaged, each by itself, so that the error is its own."""
    with suppress(HoldfastError, TypeError):
        read = codec.loads(f"[{','.join(texts)}]")
        if type(read) is list and len(read) == len(texts):
            return read
    return [codec.loads(text) for text in texts]

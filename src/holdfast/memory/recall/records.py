"""What recall is given and what it hands out."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.core import codec
from holdfast.memory.records import StoreItem
from holdfast.memory.store_requests import StoredItem

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

    ``similarity`` is that of its vector to the question's, if it was found by it.
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


def candidate(
    item: StoredItem,
    frequencies: Mapping[str, int] | None = None,
    length: int = 0,
    *,
    similarity: float | None = None,
) -> Candidate:
    """A candidate with what its metadata says; a field of another type counts as not given."""
    found = Candidate(item, frequencies or {}, length, similarity)
    metadata = codec.loads(item.metadata)
    if not isinstance(metadata, dict):
        return found
    group, ordinal, at = metadata.get("group"), metadata.get("ordinal"), metadata.get("at")
    speaker, confidence = metadata.get("speaker") or metadata.get("role"), metadata.get("confidence")
    found.group = group if type(group) is str else None
    found.ordinal = ordinal if type(ordinal) is int else None
    found.at = at if type(at) is int else None
    found.speaker = speaker if type(speaker) is str else None
    if isinstance(confidence, int | float) and 0 <= confidence <= 1:
        found.confidence = float(confidence)
    return found

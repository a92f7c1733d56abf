"""What recall is given and what it hands out."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.memory.records import StoreItem

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

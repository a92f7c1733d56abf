"""Ranking of text: BM25, the same numbers on every backend."""

from collections.abc import Mapping
from math import log

from holdfast.memory.records import TextCandidate, TextCandidates

K1 = 1.2
B = 0.75


def bm25(
    frequencies: Mapping[str, int],
    length: int,
    document_frequencies: Mapping[str, int],
    documents: int,
    average_length: float,
    *,
    k1: float = K1,
    b: float = B,
) -> float:
    """How well a document answers the terms of ``document_frequencies``; 0.0 if it has none of them.

    ``frequencies`` and ``length`` are the document's, the rest belongs to the collection. The weight of a
    term, ``log(1 + (N - df + 0.5) / (df + 0.5))``, is never negative: a word that most documents have counts
    little, not against a document.
    """
    relative = length / average_length if average_length else 1.0
    norm = k1 * (1.0 - b + b * relative)
    score = 0.0
    for term, df in document_frequencies.items():
        frequency = frequencies.get(term, 0)
        if frequency:
            weight = log(1.0 + (documents - df + 0.5) / (df + 0.5))
            score += weight * frequency * (k1 + 1.0) / (frequency + norm)
    return score


def rank(found: TextCandidates) -> list[tuple[float, TextCandidate]]:
    """The candidates with their scores, best first; of equal ones the newest first."""
    scored = [
        (
            bm25(
                candidate.frequencies,
                candidate.length,
                found.document_frequencies,
                found.documents,
                found.average_length,
            ),
            candidate,
        )
        for candidate in found.candidates
    ]
    scored.sort(key=lambda pair: (-pair[0], -pair[1].item.version))
    return scored

"""Few memories, ranked by a question: all of them are at hand, so no index is asked."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.memory.ranking import bm25
from holdfast.memory.text import analyse, query_terms

__all__ = ["rank"]

T = TypeVar("T")


def rank(query: str, items: Sequence[T], text_of: Callable[[T], str]) -> list[T]:
    """The items by how well their text answers the query; those that don't keep their order after the others."""
    documents = [Counter(analyse(text_of(item))) for item in items]
    lengths = [sum(document.values()) for document in documents]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    frequencies = {
        term: sum(term in document for document in documents) for term in dict.fromkeys(query_terms(query))
    }
    scores = [
        bm25(document, length, frequencies, len(documents), average)
        for document, length in zip(documents, lengths, strict=True)
    ]
    order = sorted(range(len(items)), key=lambda place: -scores[place])
    return [items[place] for place in order]

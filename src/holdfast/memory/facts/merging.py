"""Statements that say the same in other words: a pure look at what was stated. What is not clear stays apart."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.memory.facts.fold import alive, is_naming, retractions
from holdfast.memory.facts.records import Change
from holdfast.memory.facts.words import plain, subject_of

__all__ = ["Restated", "alike"]

_SYNONYMS: Final = {
    other: predicate
    for predicate, others in {
        "lives_in": "resides_in living_in",
        "works_at": "works_for employed_at employed_by employer",
        "works_as": "occupation profession",
        "likes": "loves enjoys is_fond_of",
        "dislikes": "hates does_not_like",
        "has_pet": "owns_pet",
        "speaks": "speaks_language",
        "allergic_to": "has_allergy_to is_allergic_to",
    }.items()
    for other in others.split()
}
_ARTICLES: Final = frozenset({"a", "an", "the", "my", "our", "their", "his", "her", "some"})
_WORDS: Final = re.compile(r"[\w'+#-]+")


@dataclass(frozen=True, slots=True)
class Restated:
    """A statement, and how it is to be said instead."""

    change: Change
    predicate: str
    object: str


def alike(changes: Iterable[Change]) -> list[Restated]:
    """The statements of a user's facts that another one says better."""
    live = alive(changes)
    gone = retractions(live)
    groups: dict[tuple[str, str, tuple[str, ...]], list[Change]] = defaultdict(list)
    for change in live:
        if change.kind == "add" and change.id not in gone and not is_naming(change.predicate):
            predicate = _SYNONYMS.get(change.predicate, change.predicate)
            groups[subject_of(change.subject), predicate, _meant(change.object)].append(change)
    found: list[Restated] = []
    for (_, predicate, _), group in groups.items():
        best = _best(group)
        found += [
            Restated(change, predicate, best)
            for change in group
            if change.predicate != predicate or plain(change.object) != plain(best)
        ]
    return found


def _best(group: list[Change]) -> str:
    """The object as it was said most surely, most often, first."""
    said: dict[str, list[Change]] = defaultdict(list)
    for change in group:
        said[plain(change.object)].append(change)

    def order(changes: list[Change]) -> tuple[float, int, float, str]:
        first = min(changes, key=lambda change: (change.recorded_at, change.id))
        surest = max(change.confidence for change in changes)
        return -surest, -len(changes), first.recorded_at.timestamp(), first.id

    best = min(said.values(), key=order)
    return min(best, key=lambda change: (change.recorded_at, change.id)).object


def _meant(text: str) -> tuple[str, ...]:
    """Equal for texts that differ in articles, punctuation or a plural alone."""
    words = [word for word in _WORDS.findall(plain(text)) if word not in _ARTICLES]
    return tuple([_singular(word) for word in words]) or (plain(text),)


def _singular(word: str) -> str:
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")):
        return word[:-1]
    return word

"""The words of a question against their definition, written down plainly: places, context, sessions."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from holdfast.memory.ranking import K1, B
from holdfast.memory.recall.notes import Place
from holdfast.memory.recall.question import Question
from holdfast.memory.recall.ranking import rank
from holdfast.memory.recall.records import Weights
from holdfast.memory.recall.words import match, missing, rarity
from holdfast.memory.store_requests import StoredCandidate, StoredCandidates, StoredItem

TERMS = ("tea", "boat", "paint", "rain")
Turn = tuple[str | None, int | None, Mapping[str, int]]


def candidate(version: int, turn: Turn, speaker: str | None = None) -> StoredCandidate:
    group, ordinal, frequencies = turn
    given = {"group": group, "ordinal": ordinal, "speaker": speaker}
    metadata = json.dumps({name: value for name, value in given.items() if value is not None})
    item = StoredItem(("a",), f"k{version}", '{"text":"x"}', metadata, 0, 0, version)
    return StoredCandidate(item, frequencies, sum(frequencies.values()) + 3)


def found(candidates: Sequence[StoredCandidate]) -> StoredCandidates:
    known = Counter(term for each in candidates for term in each.frequencies)
    return StoredCandidates(candidates, {term: known[term] for term in TERMS}, 50, 5.0)


class Definition:
    """The same without any short cut."""

    def __init__(self, turns: Sequence[Turn], words: StoredCandidates, weights: Weights) -> None:
        self.turns, self.weights = turns, weights
        self.given = [self._given(each, words) for each in words.candidates]
        self.own = [sum(each.values()) for each in self.given]

    def _given(self, each: StoredCandidate, words: StoredCandidates) -> dict[str, float]:
        norm = K1 * (1.0 - B + B * each.length / words.average_length)
        return {
            term: rarity(words.documents, words.document_frequencies[term]) * tf * (K1 + 1.0) / (tf + norm)
            for term, tf in each.frequencies.items()
        }

    def around(self, place: Place) -> float:
        best: dict[str, float] = {}
        for (group, ordinal, _), given in zip(self.turns, self.given, strict=True):
            if group != place[0] or ordinal is None:
                continue
            far = abs(ordinal - place[1])
            if far <= len(self.weights.context):
                weight = self.weights.context[far - 1] if far else 1.0
                for term, value in given.items():
                    best[term] = max(best.get(term, 0.0), value * weight)
        return sum(best.values())

    def context(self) -> list[float]:
        return [
            0.0 if group is None or ordinal is None else max(0.0, self.around((group, ordinal)) - own)
            for (group, ordinal, _), own in zip(self.turns, self.own, strict=True)
        ]

    def sessions(self) -> dict[str, float]:
        counts: dict[str, Counter[str]] = {}
        for group, _, frequencies in self.turns:
            if group is not None and frequencies:
                counts.setdefault(group, Counter()).update(frequencies)
        having = Counter(term for each in counts.values() for term in each)
        return {
            group: sum(
                rarity(len(counts), having[term]) * tf * (K1 + 1) / (tf + K1) for term, tf in here.items()
            )
            for group, here in counts.items()
            if len(counts) > 1
        }

    def value(self, place: Place) -> float:
        return self.around(place) + self.weights.session * self.sessions().get(place[0], 0.0)

    def missing(self, best: int) -> list[Place]:
        standing = {(group, ordinal) for group, ordinal, _ in self.turns}
        reach = len(self.weights.context)
        places = {
            (group, ordinal + step)
            for group, ordinal, _ in self.turns
            for step in range(-reach, reach + 1)
            if group is not None and ordinal is not None and self.around((group, ordinal + step))
        }
        order = sorted(places, key=lambda place: (round(-self.value(place), 9), place))
        return [place for place in order[:best] if place not in standing]


def some_turns(rng: random.Random) -> list[Turn]:
    """Several at one place, some without words, some in a group but at no place, some alone."""
    turns: list[Turn] = []
    for _ in range(rng.randint(1, 14)):
        group = rng.choice([None, "a", "a", "b", "c"])
        ordinal = rng.choice([None, *range(12)]) if group else None
        terms = rng.sample(TERMS, rng.choice([0, 1, 1, 2, 3]))
        turns.append((group, ordinal, {term: rng.randint(1, 3) for term in terms}))
    return turns


@pytest.mark.parametrize("context", [(), (0.5,), (0.5, 0.25), (0.2, 0.6)])
def test_places_context_and_sessions_are_what_they_are_defined_to_be(context: tuple[float, ...]) -> None:
    rng, weights, question = random.Random(len(context)), Weights(context=context), Question(TERMS)
    for _ in range(150):
        turns = some_turns(rng)
        words = found([candidate(version, turn) for version, turn in enumerate(turns, 1)])
        definition = Definition(turns, words, weights)
        matches = match(question, words, weights=weights)
        assert matches.own == pytest.approx(definition.own)
        assert matches.context == pytest.approx(definition.context(), abs=1e-9)
        assert matches.sessions == pytest.approx(definition.sessions())
        best = rng.choice([1, 2, 4, 30])
        places = missing(matches, best)
        expected = definition.missing(best)
        # Of equal ones either: sums are rounded.
        assert list(map(definition.value, places)) == pytest.approx(list(map(definition.value, expected)))
        assert len(set(places)) == len(places)
        assert not {(group, ordinal) for group, ordinal, _ in turns}.intersection(places)
        others = [candidate(100 + n, (group, ordinal, {})).item for n, (group, ordinal) in enumerate(places)]
        parts = {item.version: parts for item, _, parts in rank(matches, others, limit=100)}
        for item, place in zip(others, places, strict=True):
            assert parts[item.version]["context"] == pytest.approx(definition.around(place))


def test_a_speakers_name_is_no_word_in_the_sessions_either() -> None:
    turns: list[Turn] = [("a", 1, {"tea": 2, "boat": 1}), ("b", 1, {"boat": 1, "rain": 1})]
    words = found([candidate(version, turn, "Tea") for version, turn in enumerate(turns, 1)])
    sessions = match(Question(TERMS), words).sessions
    without: list[Turn] = [("a", 1, {"boat": 1}), turns[1]]
    plain = found([candidate(version, turn) for version, turn in enumerate(without, 1)])
    assert sessions == pytest.approx(Definition(without, plain, Weights()).sessions())


def test_a_name_is_better_than_nothing() -> None:
    turn: Turn = ("a", 1, {"tea": 2})
    words = found([candidate(1, turn, "Tea")])
    assert match(Question(("tea",)), words).own == pytest.approx(Definition([turn], words, Weights()).own)

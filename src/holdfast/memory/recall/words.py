"""What the words of a question say: about the candidates that have them, and about the places around these.

One currency: the weight of a word, ``log(1 + (N - n + 0.5) / (n + 0.5))`` where n of N memories have it. Who speaks and
when count in it too, as if they were words. So a signal fades by itself where it tells nothing: a speaker who says
everything, a session that holds everything, a month in which everything happened.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import log
from typing import Final

from holdfast.memory.ranking import K1, B
from holdfast.memory.recall.notes import Note, Place, notes_of
from holdfast.memory.recall.question import Question
from holdfast.memory.recall.records import DEFAULTS, Weights
from holdfast.memory.store_requests import StoredCandidate, StoredCandidates
from holdfast.memory.text import analyse

_SHORT: Final = 25
"""Terms of a turn that is still short: two or three sentences."""
Given = Mapping[str, float]
"""What each term gives to a candidate."""


@dataclass(frozen=True, slots=True)
class Matches:
    """``own`` has for each candidate, in their order, what its terms give together, and ``context`` what the turns
    beside it add to that. ``full`` is the weight of all terms that are known."""

    question: Question
    candidates: Sequence[StoredCandidate]
    notes: Sequence[Note]
    own: Sequence[float]
    context: Sequence[float]
    around: "Surroundings"
    sessions: Mapping[str, float]
    full: float
    found: StoredCandidates
    weights: Weights


def rarity(total: float, having: float) -> float:
    """What it tells that one of ``having`` out of ``total`` is meant: a word's weight in BM25."""
    return log(1.0 + (total - having + 0.5) / (having + 0.5))


def match(question: Question, found: StoredCandidates, *, weights: Weights = DEFAULTS) -> Matches:
    """Weigh the words. Candidates may come in any order."""
    ordered = sorted(found.candidates, key=_version)
    notes = notes_of([candidate.item for candidate in ordered])
    spoken = _spoken(question, notes)
    known = found.document_frequencies
    weighed = {term: rarity(found.documents, known.get(term, 0)) for term in question.terms}
    # A speaker's name says who is meant. As a word it would find those who call them by it.
    values = {term: value for term, value in weighed.items() if term not in spoken} if spoken else weighed
    given = _given(ordered, values, found.average_length)
    if spoken and not any(given):  # but it is better than nothing
        values = weighed
        given = _given(ordered, values, found.average_length)
    own = [sum(terms.values()) for terms in given]
    around = Surroundings(notes, given, own, _leaning(weights.context, found.average_length))
    return Matches(
        question=question,
        candidates=ordered,
        notes=notes,
        own=own,
        context=around.added(notes, own),
        around=around,
        sessions=_sessions(ordered, notes, given) if weights.session else {},
        full=sum(value for term, value in values.items() if known.get(term)),
        found=found,
        weights=weights,
    )


def missing(matches: Matches, best: int) -> list[Place]:
    """Places among the ``best`` that no candidate stands at: an answer may have no word of the question."""
    weight = matches.weights.session
    sessions = {group: weight * value for group, value in matches.sessions.items()}
    standing = {
        note.place: -(own + context) - sessions.get(note.place[0], 0.0) if own or context else 0.0
        for note, own, context in zip(matches.notes, matches.own, matches.context, strict=True)
        if note.place is not None
    }
    values = sorted(filter(None, standing.values()))
    least = values[best - 1] if len(values) >= best else 0.0
    beside = [entry for entry in matches.around.beside(sessions, least) if entry[1] not in standing]
    if not beside:
        return []
    among = [(value, place) for place, value in standing.items() if value and value <= least]
    return [place for _, place in sorted(beside + among)[:best] if place not in standing]


def named_speakers(question: Question, notes: Iterable[Note]) -> frozenset[str]:
    """The speakers whom a question names, else the side of a chat with an assistant that "I" or "you" is."""
    names = {note.speaker for note in notes}
    names.discard(None)
    asked = frozenset(question.terms)
    by_name = frozenset(name for name in names if name is not None and not asked.isdisjoint(_name(name)))
    roles = question.roles
    if by_name or not roles:
        return by_name
    return frozenset(name for name in names if name is not None and name.lower() in roles)


def _version(candidate: StoredCandidate) -> int:
    return candidate.item.version


def _spoken(question: Question, notes: Iterable[Note]) -> frozenset[str]:
    """The terms of the question that are names of speakers."""
    names = {note.speaker for note in notes}
    spoken = frozenset(chain.from_iterable(_name(name) for name in names if name is not None))
    return spoken.intersection(question.terms)


@lru_cache(maxsize=1024)
def _name(speaker: str) -> frozenset[str]:
    return frozenset(analyse(speaker))


def _given(candidates: Iterable[StoredCandidate], values: Mapping[str, float], average: float) -> list[Given]:
    """BM25, term by term."""
    given: list[Given] = []
    for candidate in candidates:
        norm = K1 * (1.0 - B + B * (candidate.length / average if average else 1.0))
        given.append(
            {
                term: values[term] * count * (K1 + 1.0) / (count + norm)
                for term, count in candidate.frequencies.items()
                if term in values
            }
        )
    return given


def _leaning(context: Sequence[float], average: float) -> list[float]:
    """Short turns lean on what is said beside them; the longer turns are, the more each says what it is about."""
    return [weight * min(1.0, _SHORT / average) if average else weight for weight in context]


def _sessions(
    candidates: Iterable[StoredCandidate], notes: Iterable[Note], own: Iterable[Given]
) -> dict[str, float]:
    """What each session gives as one document. Words that all sessions have tell nothing, nor does a lone one."""
    counts: dict[str, Mapping[str, int]] = {}
    for candidate, note, given in zip(candidates, notes, own, strict=True):
        group = note.group
        if group is None or not given:
            continue
        counted = candidate.frequencies
        if len(counted) != len(given):
            counted = {term: counted[term] for term in given}
        here = counts.get(group)
        if here is not None:
            counted = {**here, **{term: here.get(term, 0) + count for term, count in counted.items()}}
        counts[group] = counted
    if len(counts) < 2:
        return {}
    having = Counter(chain.from_iterable(counts.values()))
    values = _SessionValues({term: rarity(len(counts), number) for term, number in having.items()})
    return {group: sum([values[pair] for pair in here.items()]) for group, here in counts.items()}


class _SessionValues(dict[tuple[str, int], float]):
    """What a term gives to a session that has it so often."""

    def __init__(self, rarities: Mapping[str, float]) -> None:
        super().__init__()
        self._rarities = rarities

    def __missing__(self, pair: tuple[str, int]) -> float:
        term, count = pair
        value = self[pair] = self._rarities[term] * count * (K1 + 1.0) / (count + K1)
        return value


# ── context ───────────────────────────────────────────────────────────────────────────────────────────


class Surroundings:
    """What is said around a place. A word counts once there: where it is said nearest. Turns share their subjects."""

    def __init__(
        self,
        notes: Iterable[Note],
        given: Iterable[Given],
        own: Iterable[float],
        context: Sequence[float],
    ) -> None:
        self._steps: list[tuple[int, float]] = []
        for far, weight in enumerate(context, start=1):
            self._steps += [(-far, weight), (far, weight)]
        self._groups: dict[str, _Standing] = {}
        self._shared: set[str] = set()  # groups in which several stand at one place
        self._sums: dict[Place, float] = {}
        groups = self._groups
        for note, terms, value in zip(notes, given, own, strict=True):
            if note.place is None or not terms:
                continue
            group, ordinal = note.place
            here = groups.get(group)
            if here is None:
                groups[group] = {ordinal: (value, terms)}
            elif ordinal in here:
                both = _most(here[ordinal][1], terms)
                here[ordinal] = (sum(both.values()), both)
                self._shared.add(group)
            else:
                here[ordinal] = (value, terms)

    def at(self, place: Place) -> float:
        """What is said at a place and around it; 0.0 if nothing is."""
        found = self._sums.get(place)
        if found is not None:
            return found
        here = self._groups.get(place[0])
        return 0.0 if here is None else self._sum(here, place[1])

    def added(self, notes: Iterable[Note], own: Iterable[float]) -> list[float]:
        """For each turn what those beside it add to what it gives itself."""
        context: list[float] = []
        groups, shared = self._groups, self._shared
        for note, value in zip(notes, own, strict=True):
            more = 0.0
            if note.place is not None:
                group, ordinal = note.place
                here = groups.get(group)
                if here is not None and (len(here) > 1 or not value or group in shared):
                    more = self._sum(here, ordinal) - value
            context.append(more if more > 0.0 else 0.0)
        return context

    def beside(self, sessions: Mapping[str, float], least: float) -> list[tuple[float, Place]]:
        """Places that no turn with words stands at, with what is said around them and their session gives, negative:
        those that are ``least`` or better. Most groups give too little to be looked at.
        """
        if not self._steps:
            return []
        found: list[tuple[float, Place]] = []
        steps, sums = self._steps, self._sums
        most = max([weight for _, weight in steps])
        for group, here in self._groups.items():
            session = sessions.get(group, 0.0)
            if -most * sum([own for own, _ in here.values()]) - session > least:
                continue
            near: dict[int, float] = {}
            for ordinal, (own, _) in here.items():
                for step, weight in steps:
                    place = ordinal + step
                    if place not in here:
                        near[place] = self._sum(here, place) if place in near else own * weight
            for ordinal, value in near.items():
                fallen = -value - session
                if fallen <= least:
                    at = (group, ordinal)
                    sums[at] = value
                    found.append((fallen, at))
        return found

    def _sum(self, here: "_Standing", ordinal: int) -> float:
        """The sum of the most that each term gives at a place."""
        standing = here.get(ordinal)
        best: Given | None = None if standing is None else standing[1]
        for step, weight in self._steps:
            other = here.get(ordinal + step)
            if other is not None:
                less = {term: value * weight for term, value in other[1].items()}
                best = less if best is None else _most(best, less)
        return 0.0 if best is None else sum(best.values())


_Standing = dict[int, tuple[float, Given]]
"""By ordinal: what a turn gives, and what its terms do."""


def _most(one: Given, other: Given) -> Given:
    """Of each term the greater."""
    if len(other) == 1:
        ((term, value),) = other.items()
        return one if one.get(term, 0.0) >= value else {**one, term: value}
    most = dict(one)
    for term, value in other.items():
        if value > most.get(term, 0.0):
            most[term] = value
    return most

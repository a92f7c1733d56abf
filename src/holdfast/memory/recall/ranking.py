"""Which memories answer a question: pure functions over candidates.

One currency: the weight of a word, ``log(1 + (N - n + 0.5) / (n + 0.5))`` where n of N memories have it. Who speaks and
when count in it too, as if they were words. So a signal fades by itself where it tells nothing: a speaker who says
everything, a session that holds everything, a month in which everything happened.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import log

from holdfast.core import codec
from holdfast.memory.ranking import K1, B
from holdfast.memory.recall.question import Question
from holdfast.memory.recall.records import DEFAULTS, SIGNALS, Candidate, Statistics, Weights
from holdfast.memory.text import analyse, value_text

_WITNESSES = 3
"""So many of the best matches by words say whether vectors agree with them."""
_SHORT = 25
"""Terms of a turn that is still short: two or three sentences."""

Place = tuple[str, int]
"""A group and an ordinal in it."""

_WORDS, _CONTEXT, _SESSION, _SPEAKER, _TIME, _RECENCY, _MEANING, _CONFIDENCE, _DUPLICATE = range(len(SIGNALS))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score and what each signal gave to it."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Matches:
    """What the words of a question say: about each candidate, and about the places around them.

    ``own`` has for each candidate, in their order, what each term gives; ``around``, by group and ordinal, for each
    place the sum of the most that each term gives there, from the place itself or from one beside it; ``full`` is the
    weight of all terms that are known.
    """

    question: Question
    candidates: Sequence[Candidate]
    own: Sequence[Mapping[str, float]]
    around: Mapping[str, Mapping[int, float]]
    sessions: Mapping[str, float]
    full: float
    statistics: Statistics
    weights: Weights


def rarity(total: float, having: float) -> float:
    """What it tells that one of ``having`` out of ``total`` is meant: a word's weight in BM25."""
    return log(1.0 + (total - having + 0.5) / (having + 0.5))


def match(
    question: Question,
    candidates: Iterable[Candidate],
    statistics: Statistics,
    *,
    weights: Weights = DEFAULTS,
) -> Matches:
    """Weigh the words. Candidates may come in any order."""
    ordered = sorted(candidates, key=lambda c: c.item.version)
    names = _names(ordered)
    spoken = frozenset(chain.from_iterable(names.values()))
    known = statistics.document_frequencies
    weighed = {term: rarity(statistics.documents, known.get(term, 0)) for term in question.terms}
    # A speaker's name says who is meant. As a word it would find those who call them by it.
    values = {term: value for term, value in weighed.items() if term not in spoken}
    own = [_own(candidate, values, statistics.average_length) for candidate in ordered]
    if not any(own):  # but it is better than nothing
        values = weighed
        own = [_own(candidate, values, statistics.average_length) for candidate in ordered]
    return Matches(
        question=question,
        candidates=ordered,
        own=own,
        around=_around(ordered, own, _leaning(weights.context, statistics.average_length)),
        sessions=_sessions(ordered, own) if weights.session else {},
        full=sum(value for term, value in values.items() if known.get(term)),
        statistics=statistics,
        weights=weights,
    )


def missing(matches: Matches, best: int) -> list[Place]:
    """Places among the ``best`` that no candidate stands at: an answer may have no word of the question."""
    weight, sessions = matches.weights.session, matches.sessions
    scored: list[tuple[float, str, int]] = []
    for group, places in matches.around.items():
        session = weight * sessions.get(group, 0.0)
        scored += [(-given - session, group, ordinal) for ordinal, given in places.items()]
    if len(scored) > best:
        least = sorted([entry[0] for entry in scored])[best - 1]
        scored = [entry for entry in scored if entry[0] <= least]
    scored.sort()
    standing = {(candidate.group, candidate.ordinal) for candidate in matches.candidates}
    return [(group, ordinal) for _, group, ordinal in scored[:best] if (group, ordinal) not in standing]


def rank(matches: Matches, others: Iterable[Candidate] = (), *, limit: int) -> list[Ranked]:
    """The best ``limit``, best first; of equal ones the newest first.

    ``others`` are candidates without a word of the question: from beside a match, or near by their vector.
    """
    extra = sorted(others, key=lambda c: c.item.version)
    pool = [*matches.candidates, *extra]
    own = [*matches.own, *[_NOTHING] * len(extra)]
    rows = _lexical(matches, pool, own)
    _add_speaker(matches, pool, rows)
    _add_time(matches, pool, rows)
    _add_meaning(matches, pool, rows)
    # What has nothing to do with the question is no answer, however new it is.
    found = [
        place
        for place, row in enumerate(rows)
        if row[_WORDS] > 0 or row[_CONTEXT] > 0 or row[_TIME] > 0 or row[_MEANING] > 0
    ]
    _add_recency(matches, pool, rows, found)
    for place in found:
        confidence, row = pool[place].confidence, rows[place]
        if confidence is not None:
            row[_CONFIDENCE] = -matches.weights.confidence * (1.0 - confidence) * sum(row)
    order = sorted([(-sum(rows[place]), -pool[place].item.version, place) for place in found])
    if matches.weights.duplicate:
        order = _with_duplicates(order, pool, rows, matches.weights.duplicate, limit)
    return [
        Ranked(
            pool[place],
            -falling,
            {name: part for name, part in zip(SIGNALS, rows[place], strict=True) if part},
        )
        for falling, _, place in order[:limit]
    ]


_Row = list[float]
_NOTHING: Mapping[str, float] = {}


_Order = list[tuple[float, int, int]]
"""Of each candidate that counts its score and its version, both negative, and its place in the pool."""


# ── words, context, session ───────────────────────────────────────────────────────────────────────────


def _own(candidate: Candidate, values: Mapping[str, float], average: float) -> dict[str, float]:
    """BM25, term by term."""
    norm = K1 * (1.0 - B + B * (candidate.length / average if average else 1.0))
    return {
        term: values[term] * count * (K1 + 1.0) / (count + norm)
        for term, count in candidate.frequencies.items()
        if term in values
    }


def _leaning(context: Sequence[float], average: float) -> list[float]:
    """Short turns lean on what is said beside them; the longer turns are, the more each says what it is about."""
    return [weight * min(1.0, _SHORT / average) if average else weight for weight in context]


def _around(
    candidates: Sequence[Candidate], own: Sequence[Mapping[str, float]], context: Sequence[float]
) -> dict[str, dict[int, float]]:
    """A word counts once at a place: where it is said nearest. Turns share what they talk about."""
    groups: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
    for candidate, given in zip(candidates, own, strict=True):
        group, ordinal = candidate.group, candidate.ordinal
        if given and group is not None and ordinal is not None:
            groups.setdefault(group, []).append((ordinal, given))
    steps = [(0, 1.0)]
    for step, weight in enumerate(context, start=1):
        steps += [(-step, weight), (step, weight)]
    reach = 2 * len(context)
    around: dict[str, dict[int, float]] = {}
    for group, standing in groups.items():
        standing.sort(key=_ordinal)
        places = around[group] = {}
        last = len(standing) - 1
        first = 0
        for at, (ordinal, _) in enumerate(standing):
            if at < last and standing[at + 1][0] - ordinal <= reach:
                continue
            if first == at:  # nobody else is near
                full = sum(standing[at][1].values())
                for step, weight in steps:
                    places[ordinal + step] = full * weight
            else:
                _add_cluster(places, standing[first : at + 1], steps)
            first = at + 1
    return around


def _ordinal(standing: tuple[int, Mapping[str, float]]) -> int:
    return standing[0]


def _add_cluster(
    places: dict[int, float],
    cluster: Sequence[tuple[int, Mapping[str, float]]],
    steps: Sequence[tuple[int, float]],
) -> None:
    """Where several are near each other: the sum of the most that each term gives."""
    best: dict[int, dict[str, float]] = {}
    for ordinal, given in cluster:
        for step, weight in steps:
            here = best.get(ordinal + step)
            if here is None:
                best[ordinal + step] = {term: value * weight for term, value in given.items()}
                continue
            for term, value in given.items():
                less = value * weight
                if less > here.get(term, 0.0):
                    here[term] = less
    for place, here in best.items():
        places[place] = sum(here.values())


def _sessions(candidates: Sequence[Candidate], own: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What each session gives as one document. Words that all sessions have tell nothing, nor does a lone one."""
    counts: dict[str, dict[str, int]] = {}
    for candidate, given in zip(candidates, own, strict=True):
        if candidate.group is not None and given:
            here = counts.setdefault(candidate.group, {})
            for term in given:
                here[term] = here.get(term, 0) + candidate.frequencies[term]
    if len(counts) < 2:
        return {}
    having: dict[str, int] = {}
    for here in counts.values():
        for term in here:
            having[term] = having.get(term, 0) + 1
    values = {term: rarity(len(counts), number) for term, number in having.items()}
    return {
        group: sum(values[term] * count * (K1 + 1.0) / (count + K1) for term, count in here.items())
        for group, here in counts.items()
    }


def _lexical(matches: Matches, pool: Sequence[Candidate], own: Sequence[Mapping[str, float]]) -> list[_Row]:
    around, sessions = matches.around, matches.sessions
    nothing = [0.0] * len(SIGNALS)
    rows: list[_Row] = []
    for candidate, given in zip(pool, own, strict=True):
        row = nothing.copy()
        rows.append(row)
        row[_WORDS] = words = sum(given.values())
        group = candidate.group
        if group is None:
            continue
        if candidate.ordinal is not None and group in around:
            context = around[group].get(candidate.ordinal, 0.0) - words
            if context > 0.0:
                row[_CONTEXT] = context
        if group in sessions:
            row[_SESSION] = matches.weights.session * sessions[group]
    return rows


# ── who and when ──────────────────────────────────────────────────────────────────────────────────────


def _names(candidates: Iterable[Candidate]) -> dict[str, frozenset[str]]:
    """The terms of each speaker's name."""
    speakers = {candidate.speaker for candidate in candidates}
    return {speaker: _name(speaker) for speaker in speakers if speaker is not None}


@lru_cache(maxsize=1024)
def _name(speaker: str) -> frozenset[str]:
    return frozenset(analyse(speaker))


def _named(question: Question, names: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The speakers whom a question names, else the side of a chat with an assistant that "I" or "you" is."""
    asked = frozenset(question.terms)
    by_name = frozenset(speaker for speaker, terms in names.items() if not asked.isdisjoint(terms))
    return by_name or frozenset(speaker for speaker in names if speaker.lower() in question.roles)


def _add_speaker(matches: Matches, pool: Sequence[Candidate], rows: Sequence[_Row]) -> None:
    if not matches.weights.speaker:
        return
    named = _named(matches.question, _names(pool))
    # Of those that have other words of the question, or stand beside one that does: a store that indexes names finds
    # all turns of the named one.
    speakers = [
        c.speaker for c, row in zip(pool, rows, strict=True) if c.speaker and row[_WORDS] + row[_CONTEXT] > 0
    ]
    theirs = sum(speaker in named for speaker in speakers)
    value = matches.weights.speaker * rarity(len(speakers), theirs) if theirs else 0.0
    for candidate, row in zip(pool, rows, strict=True):
        if candidate.speaker in named:
            row[_SPEAKER] = value


def _add_time(matches: Matches, pool: Sequence[Candidate], rows: Sequence[_Row]) -> None:
    question = matches.question
    if not question.spans or not matches.weights.time:
        return
    near = [0.0 if c.at is None else max(span.nearness(c.at) for span in question.spans) for c in pool]
    known = matches.statistics.document_frequencies
    indexed = sum(known.get(term, 0) for term in question.time_terms)
    if indexed:
        value = rarity(max(matches.statistics.documents, indexed), indexed)
    else:
        value = rarity(len(pool), sum(near))
    for row, nearness in zip(rows, near, strict=True):
        row[_TIME] = matches.weights.time * value * nearness


def _add_recency(
    matches: Matches, pool: Sequence[Candidate], rows: Sequence[_Row], found: Sequence[int]
) -> None:
    weights = matches.weights
    weight = weights.recency_asked if matches.question.recent else weights.recency
    times = [(at, place) for place in found if (at := pool[place].at) is not None]
    if not weight or not times:
        return
    oldest, newest = min(times)[0], max(times)[0]
    reach = newest - oldest
    for at, place in times if reach else ():
        rows[place][_RECENCY] = weight * (at - oldest) / reach


# ── meaning, duplicates ───────────────────────────────────────────────────────────────────────────────


def _add_meaning(matches: Matches, pool: Sequence[Candidate], rows: Sequence[_Row]) -> None:
    """Vectors count as far as they agree with the words: as near as the best matches by words are to the question.

    Where the nearest vectors are far from what the words find, they know little of this data. If no word was found
    there is only their word for it.
    """
    near = [c.similarity for c in pool if c.similarity is not None]
    if not near or not matches.weights.meaning:
        return
    low, reach = min(near), max(near) - min(near)
    nearness = [0.0 if c.similarity is None else (c.similarity - low) / reach if reach else 1.0 for c in pool]
    by_words = [place for place, row in enumerate(rows) if row[_WORDS] > 0]
    by_words.sort(key=lambda place: (-sum(rows[place]), place))
    best = by_words[:_WITNESSES]
    agreement = sum(nearness[place] for place in best) / len(best) if best else 1.0
    value = matches.weights.meaning * max(matches.full, 1.0) * agreement
    for row, near_by in zip(rows, nearness, strict=True):
        row[_MEANING] = value * near_by


def _with_duplicates(
    order: _Order, pool: Sequence[Candidate], rows: Sequence[_Row], weight: float, limit: int
) -> _Order:
    """What says the same as a better one makes room for others: the order with that.

    Behind ``limit`` different ones nobody comes among the best, marked or not.
    """
    better: dict[frozenset[str], list[Candidate]] = {}
    texts: dict[int, frozenset[str]] = {}
    marked: dict[int, float] = {}
    for falling, _, place in order[: 2 * limit]:
        candidate = pool[place]
        kin = better.setdefault(frozenset(candidate.frequencies), [])
        if kin and _is_repeated(candidate, kin, texts):
            rows[place][_DUPLICATE] = weight * falling
            marked[place] = -sum(rows[place])
        else:
            kin.append(candidate)
            limit -= 1
            if not limit:
                break
    if not marked:
        return order
    return sorted([(marked.get(place, falling), version, place) for falling, version, place in order])


def _is_repeated(one: Candidate, kin: Iterable[Candidate], texts: dict[int, frozenset[str]]) -> bool:
    """Nine words of ten are those of another. Texts are read only if their lengths allow it, and once."""
    size, length = len(one.item.value), one.length
    for other in kin:
        if 9 * abs(length - other.length) > 2 * max(length, other.length):
            continue
        other_size = len(other.item.value)
        if 10 * size < 9 * other_size or 10 * other_size < 9 * size:
            continue
        for candidate in (one, other):
            if candidate.item.version not in texts:
                texts[candidate.item.version] = _words(candidate)
        words, others = texts[one.item.version], texts[other.item.version]
        both = len(words & others)
        if both and 10 * both >= 9 * (len(words) + len(others) - both):
            return True
    return False


def _words(candidate: Candidate) -> frozenset[str]:
    stored = candidate.item.value
    if (
        stored.startswith(_TEXT_FIRST) and "\\" not in stored and "$" not in stored
    ):  # most are as they are written
        return frozenset(stored[len(_TEXT_FIRST) : stored.index('"', len(_TEXT_FIRST))].casefold().split())
    value = codec.loads(stored)
    text = value.get("text") if isinstance(value, dict) else None
    return frozenset((text if isinstance(text, str) else value_text(value)).casefold().split())


_TEXT_FIRST = '{"text":"'

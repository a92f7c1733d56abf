"""Which memories answer a question: pure functions over candidates.

What a signal gives is a column: a number for each candidate. One that says nothing about any is empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.memory.recall.dates import nearness
from holdfast.memory.recall.duplicates import repeated
from holdfast.memory.recall.notes import Note, notes_of
from holdfast.memory.recall.records import SIGNALS, Weights
from holdfast.memory.recall.words import Matches, named_speakers, rarity
from holdfast.memory.store_requests import StoredCandidate, StoredItem

_WITNESSES = 3
"""So many of the best matches by words say whether vectors agree with them."""

Column = Sequence[float]


Ranked = tuple[StoredItem, float, dict[str, float]]
"""An item with its score and what each signal gave to it."""


@dataclass(slots=True)
class Columns:
    """What each signal gives, in the order in which it is added up: that of `SIGNALS`."""

    words: Column
    context: Column
    session: Column = ()
    speaker: Column = ()
    time: Column = ()
    recency: Column = ()
    meaning: Column = ()
    confidence: Column = ()

    def given(self) -> list[tuple[str, Column]]:
        """Those that are not empty, with their names."""
        columns = (
            *(self.words, self.context, self.session, self.speaker),
            *(self.time, self.recency, self.meaning, self.confidence),
        )
        return [(name, column) for name, column in zip(SIGNALS, columns, strict=False) if column]

    def sums(self) -> list[float]:
        return list(map(sum, zip(*[column for _, column in self.given()], strict=True)))


def rank(
    matches: Matches,
    others: Iterable[StoredItem] = (),
    similarities: Mapping[int, float] | None = None,
    *,
    limit: int,
) -> list[Ranked]:
    """The best ``limit``, best first; of equal ones the newest first.

    ``others`` have no word of the question: they are from beside a match, or near by their vector. ``similarities``, by
    version, are those of the vectors to the question's.
    """
    extra = sorted(others, key=lambda item: item.version)
    pool = [*matches.candidates, *[StoredCandidate(item, {}, 0) for item in extra]]
    notes = [*matches.notes, *notes_of(extra)]
    columns = _lexical(matches, notes)
    columns.speaker = _speaker(matches, notes, columns)
    columns.time = _time(matches, notes)
    if similarities:
        near = [similarities.get(candidate.item.version) for candidate in pool]
        columns.meaning = _meaning(matches, near, columns)
    # What has nothing to do with the question is no answer, however new it is.
    says = filter(None, (columns.words, columns.context, columns.time, columns.meaning))
    found = [place for place, most in enumerate(map(max, zip(*says, strict=True))) if most > 0.0]
    columns.recency = _recency(matches, notes, found)
    scores = columns.sums()
    columns.confidence = _confidence(matches.weights, notes, scores)
    if columns.confidence:
        scores = columns.sums()
    order = sorted([(-scores[place], -pool[place].item.version, place) for place in found])
    marked: dict[int, float] = {}
    if matches.weights.duplicate:
        best = [place for _, _, place in order[: 2 * limit]]
        weight = matches.weights.duplicate
        marked = {place: -weight * scores[place] for place in repeated(pool, notes, best, limit)}
    if marked:
        order = sorted(
            [(falling - marked.get(place, 0.0), version, place) for falling, version, place in order]
        )
    given = columns.given()
    ranked: list[Ranked] = []
    for falling, _, place in order[:limit]:
        parts = {name: part for name, column in given if (part := column[place])}
        if place in marked:
            parts[SIGNALS[-1]] = marked[place]
        ranked.append((pool[place].item, -falling, parts))
    return ranked


def _lexical(matches: Matches, notes: Sequence[Note]) -> Columns:
    """Words, context and session. What stands beside a match has no words of its own."""
    others = notes[len(matches.own) :]
    at = matches.around.at
    beside = [0.0 if note.place is None else at(note.place) for note in others]
    columns = Columns([*matches.own, *[0.0] * len(others)], [*matches.context, *beside])
    if matches.sessions:
        weight, given = matches.weights.session, matches.sessions.get
        columns.session = [0.0 if note.group is None else weight * given(note.group, 0.0) for note in notes]
    return columns


# ── who and when ──────────────────────────────────────────────────────────────────────────────────────


def _speaker(matches: Matches, notes: Sequence[Note], columns: Columns) -> Column:
    if not matches.weights.speaker:
        return ()
    named = named_speakers(matches.question, notes)
    if not named:
        return ()
    # Of those that have other words of the question, or stand beside one that does: a store that indexes names finds
    # all turns of the named one.
    said = zip(notes, columns.words, columns.context, strict=True)
    speakers = [note.speaker for note, words, context in said if note.speaker and words + context > 0]
    theirs = sum([speaker in named for speaker in speakers])
    if not theirs:
        return ()
    value = matches.weights.speaker * rarity(len(speakers), theirs)
    return [value if note.speaker in named else 0.0 for note in notes]


def _time(matches: Matches, notes: Sequence[Note]) -> Column:
    question = matches.question
    if not question.spans or not matches.weights.time:
        return ()
    near = nearness(question.spans, [note.at for note in notes])
    known = matches.found.document_frequencies
    indexed = sum(known.get(term, 0) for term in question.time_terms)
    if indexed:
        value = rarity(max(matches.found.documents, indexed), indexed)
    else:
        value = rarity(len(notes), sum(near))
    return [matches.weights.time * value * nearness for nearness in near]


def _recency(matches: Matches, notes: Sequence[Note], found: Sequence[int]) -> Column:
    weights = matches.weights
    weight = weights.recency_asked if matches.question.recent else weights.recency
    times = [at for place in found if (at := notes[place].at) is not None]
    if not weight or not times:
        return ()
    oldest = min(times)
    reach = max(times) - oldest
    if not reach:
        return ()
    column = [0.0 if (at := note.at) is None else weight * (at - oldest) / reach for note in notes]
    if len(found) < len(notes):  # those that are no answer may be older, or newer
        counted = frozenset(found)
        column = [value if place in counted else 0.0 for place, value in enumerate(column)]
    return column


# ── meaning, confidence ───────────────────────────────────────────────────────────────────────────────


def _meaning(matches: Matches, similarities: Sequence[float | None], columns: Columns) -> Column:
    """Vectors count as far as they agree with the words: as near as the best matches by words are to the question.

    Where the nearest vectors are far from what the words find, they know little of this data. If no word was found
    there is only their word for it.
    """
    near = [similarity for similarity in similarities if similarity is not None]
    if not near or not matches.weights.meaning:
        return ()
    low, reach = min(near), max(near) - min(near)
    nearness = [0.0 if each is None else (each - low) / reach if reach else 1.0 for each in similarities]
    scores = columns.sums()
    by_words = [place for place, words in enumerate(columns.words) if words > 0]
    by_words.sort(key=lambda place: (-scores[place], place))
    best = by_words[:_WITNESSES]
    agreement = sum(nearness[place] for place in best) / len(best) if best else 1.0
    value = matches.weights.meaning * max(matches.full, 1.0) * agreement
    return [value * near_by for near_by in nearness]


def _confidence(weights: Weights, notes: Sequence[Note], scores: Sequence[float]) -> Column:
    if not weights.confidence or all(note.confidence is None for note in notes):
        return ()
    return [
        0.0 if note.confidence is None else -weights.confidence * (1.0 - note.confidence) * score
        for note, score in zip(notes, scores, strict=True)
    ]

"""Recall from any store: candidates in one or two round trips, then the ranking."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from holdfast.core.clock import from_us
from holdfast.core.errors import InvalidInput
from holdfast.memory import validate
from holdfast.memory.recall.question import Question, parse
from holdfast.memory.recall.ranking import Matches, Place, Ranked, match, missing, rank
from holdfast.memory.recall.records import DEFAULTS, Recalled, Statistics, Weights, candidates, wordless
from holdfast.memory.store import BaseStore
from holdfast.memory.store_requests import Namespace, StoredCandidates, StoredHit, StoredItem, VectorRequest
from holdfast.memory.vectors import Embedding, check_vector

MIN_CANDIDATES: Final = 48
PER_RESULT: Final = 4
"""Candidates by words, and by vectors, for each result that is asked for."""
_CLOSE: Final = 4
"""Turns between two places, up to which one look-up for both is cheaper than two."""
_OFF_LOOP: Final = 256
"""More candidates than that are ranked in a thread: the event loop has others to serve."""

_T = TypeVar("_T")


async def recall_items(
    store: BaseStore,
    namespace: Sequence[str],
    question: str,
    limit: int = 10,
    *,
    now: datetime | None = None,
    embedding: Embedding | None = None,
    window: int = 2,
    filter: Mapping[str, Any] | None = None,
    weights: Weights = DEFAULTS,
) -> list[Recalled]:
    """The items that answer a question, best first, each with its score and the parts of it.

    The item's strings are searched. Its metadata may say where it stands: ``group`` (a session), ``ordinal`` (its
    place there, a whole number), ``speaker``, ``at`` (microseconds since 1970), ``confidence`` (0 to 1). What is not
    there is not used. ``now`` is what "yesterday" counts from: the store's clock, if not given. ``window`` is how many
    turns on both sides give context, 0 to 2. With ``embedding``, that of the question, vectors count too.
    """
    limit = validate.limit(limit)
    asked = parse(validate.text(question, "question"), _moment(now, store))
    settings = _narrowed(weights, window)
    search = _Search(store, validate.namespace(namespace), filter, max(MIN_CANDIDATES, PER_RESULT * limit))
    if not limit:
        return []
    words, hits = await search.candidates(asked, embedding)
    similarities = {hit.item.version: hit.score for hit in hits}
    matches = await _run(len(words.candidates), partial(_matched, asked, words, similarities, settings))
    seen = {found.item.version for found in matches.candidates}
    beside = await search.around(missing(matches, 2 * limit))
    more = {i.version: i for i in (*beside, *(hit.item for hit in hits)) if i.version not in seen}
    others = wordless(more.values(), similarities)
    ranked = await _run(len(seen) + len(others), partial(rank, matches, others, limit=limit))
    return [_recalled(found) for found in ranked]


class _Search:
    """What is asked of the store. Items stay as they are stored: only those that are handed out are decoded."""

    def __init__(
        self, store: BaseStore, namespace: Namespace, filter: Mapping[str, Any] | None, limit: int
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._filter = store._filter(filter)
        self._given = filter
        self._limit = limit

    async def candidates(
        self, asked: Question, embedding: Embedding | None
    ) -> tuple[StoredCandidates, list[StoredHit]]:
        store = self._store
        terms = [*asked.terms, *asked.time_terms]
        by_words = store._text_request(self._namespace, terms, self._limit, False, self._given)
        if embedding is None:
            return await store._text_candidates(by_words), []
        space = store._vector_space()
        nearest = VectorRequest(
            namespace=self._namespace,
            vector=check_vector(embedding, space, "embedding"),
            space=space,
            filter=self._filter,
            limit=self._limit,
            threshold=None,
            now_us=store._clock.now_us(),
        )
        words, hits = await asyncio.gather(store._text_candidates(by_words), store._nearest(nearest))
        return words, hits

    async def around(self, places: Sequence[Place]) -> list[StoredItem]:
        """The items at these places that pass the filter."""
        if not places or not self._store.capabilities.metadata_filter:
            return []
        look_ups = [
            self._store._neighbours(self._namespace, group, (first + last) // 2, (last - first + 1) // 2)
            for group, first, last in _runs(places)
        ]
        found = await asyncio.gather(*look_ups) if len(look_ups) > 1 else [await look_ups[0]]
        items = {item.version: item for items in found for item in items}
        return [item for item in items.values() if self._passes(item)]

    def _passes(self, item: StoredItem) -> bool:
        if not self._filter.conditions:
            return True
        decoded = item.decode()
        return self._filter(decoded.metadata, decoded.value)


def _matched(
    asked: Question, words: StoredCandidates, similarities: Mapping[int, float], weights: Weights
) -> Matches:
    numbers = Statistics(words.document_frequencies, words.documents, words.average_length)
    return match(asked, candidates(words.candidates, similarities), numbers, weights=weights)


async def _run(size: int, work: "partial[_T]") -> "_T":
    """Here if it is little, else in a thread."""
    return work() if size <= _OFF_LOOP else await asyncio.to_thread(work)


def _runs(places: Sequence[Place]) -> list[tuple[str, int, int]]:
    """Places that lie close together, as ``(group, first, last)``: one look-up each."""
    runs: list[tuple[str, int, int]] = []
    for group, ordinal in sorted(places):
        if runs and runs[-1][0] == group and ordinal - runs[-1][2] <= _CLOSE:
            runs[-1] = (group, runs[-1][1], ordinal)
        else:
            runs.append((group, ordinal, ordinal))
    return runs


def _recalled(found: Ranked) -> Recalled:
    return Recalled(found.candidate.item.decode(), found.score, found.parts)


def _moment(now: object, store: BaseStore) -> datetime:
    if now is None:
        return from_us(store._clock.now_us())
    if not isinstance(now, datetime):
        raise InvalidInput(f"now must be a datetime or None, got {type(now).__name__}")
    return now


def _narrowed(weights: Weights, window: int) -> Weights:
    steps = validate.limit(window, "window")
    if steps >= len(weights.context):
        return weights
    return replace(weights, context=weights.context[:steps])

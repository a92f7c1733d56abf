"""Recall from any store: the nearest by vector, if there is one, then the words and the ranking in one reading."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from holdfast.core.clock import from_us
from holdfast.core.errors import InvalidInput
from holdfast.memory import validate
from holdfast.memory.filters import Filter
from holdfast.memory.recall.notes import Place, decoded
from holdfast.memory.recall.question import Question, parse
from holdfast.memory.recall.ranking import rank
from holdfast.memory.recall.records import DEFAULTS, Recalled, Weights
from holdfast.memory.recall.words import match, missing
from holdfast.memory.store import BaseStore
from holdfast.memory.store_requests import (
    Namespace,
    Reading,
    StoredCandidates,
    StoredHit,
    StoredItem,
    Stretch,
    TextRequest,
    VectorRequest,
)
from holdfast.memory.vectors import Embedding, check_vector

MIN_CANDIDATES: Final = 48
PER_RESULT: Final = 4
"""Candidates by words, and by vectors, for each result that is asked for."""
_CLOSE: Final = 4
"""Turns between two places, up to which one look-up for both is cheaper than two."""


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
    where = validate.namespace(namespace)
    condition = store._filter(filter)
    most = max(MIN_CANDIDATES, PER_RESULT * limit)
    store._check("text_search")
    by_words = TextRequest(
        namespace=where,
        prefix=False,
        terms=[*asked.terms, *asked.time_terms],
        filter=condition,
        limit=most,
        now_us=store._clock.now_us(),
    )
    nearest = None if embedding is None else _nearest(store, where, embedding, condition, most)
    if not limit:
        return []
    hits = [] if nearest is None else await store._nearest(nearest)
    return await store._read_candidates(by_words, _Reader(asked, hits, condition, settings, limit))


class _Reader:
    """The ranking, from the candidates on. Items stay as they are stored: only those handed out are decoded."""

    def __init__(
        self, asked: Question, hits: Sequence[StoredHit], condition: Filter, weights: Weights, limit: int
    ) -> None:
        self._asked = asked
        self._hits = hits
        self._condition = condition
        self._weights = weights
        self._limit = limit

    def __call__(self, words: StoredCandidates) -> Reading[list[Recalled]]:
        similarities = {hit.item.version: hit.score for hit in self._hits}
        matches = match(self._asked, words, weights=self._weights)
        # By key: an item that was written meanwhile is not another one.
        seen = {each.item.key for each in words.candidates}
        more = {hit.item.key: hit.item for hit in self._hits if hit.item.key not in seen}
        places = missing(matches, 2 * self._limit)
        if places:
            for item in (yield _stretches(places)):
                if item.key not in seen and item.key not in more and self._passes(item):
                    more[item.key] = item
        ranked = rank(matches, more.values(), similarities, limit=self._limit)
        items = decoded([item for item, _, _ in ranked])
        return [Recalled(item, score, parts) for item, (_, score, parts) in zip(items, ranked, strict=True)]

    def _passes(self, item: StoredItem) -> bool:
        if not self._condition.conditions:
            return True
        decoded = item.decode()
        return self._condition(decoded.metadata, decoded.value)


def _nearest(
    store: BaseStore, namespace: Namespace, embedding: Embedding, condition: Filter, limit: int
) -> VectorRequest:
    space = store._vector_space()
    return VectorRequest(
        namespace=namespace,
        vector=check_vector(embedding, space, "embedding"),
        space=space,
        filter=condition,
        limit=limit,
        threshold=None,
        now_us=store._clock.now_us(),
    )


def _stretches(places: Sequence[Place]) -> list[Stretch]:
    """Places that lie close together, as one stretch each."""
    runs: list[tuple[str, int, int]] = []
    for group, ordinal in sorted(places):
        if runs and runs[-1][0] == group and ordinal - runs[-1][2] <= _CLOSE:
            runs[-1] = (group, runs[-1][1], ordinal)
        else:
            runs.append((group, ordinal, ordinal))
    return [Stretch(group, (first + last) // 2, (last - first + 1) // 2) for group, first, last in runs]


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

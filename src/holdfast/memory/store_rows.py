"""Items of a store as rows in memory, and what listing and searching them means: exact, for any backend that reads
the rows of a namespace.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.memory.filters import Filter
from holdfast.memory.namespaces import encode_namespace
from holdfast.memory.ranking import bm25
from holdfast.memory.store_requests import (
    Namespace,
    ScanRequest,
    StoredCandidate,
    StoredCandidates,
    StoredHit,
    StoredItem,
    TextRequest,
    VectorRequest,
)
from holdfast.memory.text import analyse, value_text
from holdfast.memory.vectors import VectorSpace, prepare, score_all, top, unpack

if TYPE_CHECKING:
    from holdfast.memory.vectors import Floats


class Row:
    """An item with what is derived from it, when it is first asked for. Without ``text``, it is the value's."""

    def __init__(
        self,
        item: StoredItem,
        *,
        expires_us: int | None = None,
        vector: bytes | None = None,
        text: str | None = None,
    ) -> None:
        self.item = item
        self.expires_us = expires_us
        self.vector = vector
        self._text = text

    def lives(self, now_us: int) -> bool:
        return self.expires_us is None or self.expires_us > now_us

    def passes(self, condition: Filter) -> bool:
        return not condition.conditions or condition(*self._document)

    @cached_property
    def _document(self) -> tuple[Any, Any]:
        """Metadata and value, to look into: never handed out."""
        place = f"{self.item.namespace!r} {self.item.key!r}"
        metadata = codec.loads(self.item.metadata, place=f"metadata of {place}")
        return metadata, codec.loads(self.item.value, place=f"value of {place}")

    @property
    def place_in_group(self) -> tuple[str | None, int | None]:
        """The ``group`` and the ``ordinal`` of its metadata, where they are of the right types."""
        try:
            metadata = self._document[0]
        except HoldfastError:  # reading it says what is damaged
            metadata = None
        group, ordinal = (
            (metadata.get("group"), metadata.get("ordinal")) if type(metadata) is dict else (None, None)
        )
        return group if type(group) is str else None, ordinal if type(ordinal) is int else None

    @cached_property
    def terms(self) -> Counter[str]:
        if self._text is None:
            return Counter(analyse(self._text_of_value()))
        return Counter(analyse(self._text))

    def _text_of_value(self) -> str:
        """A damaged value has no words: reading it says so, searching must not stop at it."""
        try:
            return value_text(codec.loads(self.item.value))
        except HoldfastError:
            return ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows that have a vector, newest first, and the vectors as :func:`score_all` takes them."""

    rows: Sequence[Row]
    vectors: "Floats"

    @classmethod
    def of(cls, rows: Iterable[Row], space: VectorSpace) -> "Matrix":
        kept = sorted((row for row in rows if row.vector is not None), key=lambda row: -row.item.version)
        vectors = unpack([row.vector for row in kept if row.vector is not None], space.dimension)
        return cls(kept, prepare(space.metric, vectors))


class Groups:
    """Rows of sequences by group and ordinal, as `neighbours` asks for them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._groups: dict[str, list[tuple[int, int, Row]]] = {}
        for row in rows:
            group, ordinal = row.place_in_group
            if group is not None and ordinal is not None:
                self._groups.setdefault(group, []).append((ordinal, row.item.version, row))
        for members in self._groups.values():
            members.sort(key=lambda member: member[:2])

    def around(self, group: str, ordinal: int, window: int, now_us: int) -> list[StoredItem]:
        """Unexpired items at most ``window`` away, in their order."""
        members = self._groups.get(group, [])
        first = bisect_left(members, ordinal - window, key=lambda member: member[0])
        last = bisect_right(members, ordinal + window, key=lambda member: member[0])
        return [row.item for _, _, row in members[first:last] if row.lives(now_us)]


def within(namespace: Namespace, wanted: Namespace, prefix: bool) -> bool:
    """Whether a namespace is the one that is wanted, or with ``prefix`` below it."""
    return namespace[: len(wanted)] == wanted if prefix else namespace == wanted


def scan(live: Iterable[Row], request: ScanRequest) -> list[StoredItem]:
    """What :class:`ScanRequest` asks for, of unexpired rows of its namespaces."""
    found = [row.item for row in live if row.passes(request.filter)]
    if request.order == "key":
        start = None if request.after is None else _place(*request.after)
        found = [item for item in found if start is None or _place(item.namespace, item.key) > start]
        found.sort(key=lambda item: _place(item.namespace, item.key))
    else:
        newest, bound = request.order == "newest", request.version
        found = [
            item
            for item in found
            if bound is None or (item.version < bound if newest else item.version > bound)
        ]
        found.sort(key=lambda item: item.version, reverse=newest)
    return found[: request.limit]


def text_candidates(live: Iterable[Row], request: TextRequest) -> StoredCandidates:
    """What :class:`TextRequest` asks for, of unexpired rows of its namespaces."""
    documents = [row for row in live if row.terms]
    average = sum(row.terms.total() for row in documents) / len(documents) if documents else 0.0
    frequencies = {term: sum(term in row.terms for row in documents) for term in request.terms}
    scored: list[tuple[float, int, StoredCandidate]] = []
    for row in documents:
        counts = {term: row.terms[term] for term in request.terms if term in row.terms}
        if counts and row.passes(request.filter):
            length = row.terms.total()
            score = bm25(counts, length, frequencies, len(documents), average)
            scored.append((-score, -row.item.version, StoredCandidate(row.item, counts, length)))
    scored.sort(key=lambda entry: entry[:2])
    best = [candidate for _, _, candidate in scored[: request.limit]]
    return StoredCandidates(best, frequencies, len(documents), average)


def nearest(matrix: Matrix, request: VectorRequest) -> list[StoredHit]:
    """What :class:`VectorRequest` asks for, of all rows of its namespace that have a vector."""
    rows = matrix.rows
    wanted = [i for i, row in enumerate(rows) if row.lives(request.now_us) and row.passes(request.filter)]
    some = matrix.vectors if len(wanted) == len(rows) else matrix.vectors[wanted]
    scores, distances = score_all(request.space.metric, some, request.vector)
    hits = [
        StoredHit(rows[wanted[i]].item, float(scores[i]), float(distances[i]))
        for i in top(scores, request.limit)
    ]
    return [hit for hit in hits if request.threshold is None or hit.score >= request.threshold]


def _place(namespace: Namespace, key: str) -> tuple[str, str]:
    """What listings by key are sorted by."""
    return encode_namespace(namespace), key

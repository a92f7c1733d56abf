"""Which items have the terms of a search, and how well they match: BM25, exact.

A large namespace is searched from the rarest term on. Once no item that has only the remaining, frequent terms can
come among the best, the postings of these are looked up for the items that can, not read from end to end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nlargest
from math import log
from typing import NamedTuple

from holdfast.memory.backends.sql.items_kept import SMALL, Kept, Postings, select_groups
from holdfast.memory.backends.sql.items_lengths import Lengths
from holdfast.memory.backends.sql.items_rows import LIVE, in_namespace, key_of, lists
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, fetch, heavy, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.ranking import K1, B
from holdfast.memory.store_requests import StoredCandidate, StoredCandidates, StoredItem, TextRequest

_CAUTION = 1.0 + 1e-9  # sums are rounded
_FEW = 2000
"""Scores that are sorted sooner than their greatest are picked out."""

Scores = dict[int, float]
"""By number of the item."""


class _Norms(dict[int, float]):
    """BM25's norm of each length met so far."""

    def __init__(self, average: float) -> None:
        super().__init__()
        self._average = average

    def __missing__(self, length: int) -> float:
        norm = self[length] = K1 * (1.0 - B + B * (length / self._average))
        return norm


class Numbers:
    """How many documents a search looks through, and how long they are."""

    def __init__(self, documents: int, average: float) -> None:
        self.documents = documents
        self.average = average
        self.norms = _Norms(average)

    def weight(self, df: int) -> float:
        return log(1.0 + (self.documents - df + 0.5) / (df + 0.5))

    def most(self, df: int, count: int) -> float:
        """The most that a term gives that no item has more often: in an item that has no other words."""
        return self.weight(df) * count * (K1 + 1.0) / (count + self.norms[count])


class Found(NamedTuple):
    """The items that count, by term in the order of the request; and in how many items each term is.

    ``lengths`` are those of the items, ``versions`` theirs where they are not the item's number.
    """

    postings: Sequence[Postings]
    frequencies: dict[str, int]
    lengths: Mapping[int, int]
    versions: Mapping[int, int]

    def best_first(self, request: TextRequest, numbers: Numbers) -> Iterator[int]:
        """Numbers of items by falling score, the newest of equal ones first; as many as the search can need."""
        scores: Scores = {}
        for df, postings in zip(self.frequencies.values(), self.postings, strict=True):
            _add(scores, postings, df, numbers, self.lengths)
        best = list(scores)
        if not request.filter.conditions and request.limit < len(scores):
            least = _least_of_best(scores, request.limit)
            best = [number for number, score in scores.items() if score >= least]
        versions = self.versions
        if versions:
            best.sort(key=lambda number: versions.get(number, number), reverse=True)
        else:
            best.sort(reverse=True)
        best.sort(key=scores.__getitem__, reverse=True)
        return iter(best)

    def occurrences(self, items: Collection[int]) -> dict[int, tuple[dict[str, int], int]]:
        """For each of the items how often it has each term, and its length."""
        counts: dict[int, tuple[dict[str, int], int]] = {
            number: ({}, self.lengths[number]) for number in items
        }
        for term, postings in zip(self.frequencies, self.postings, strict=True):
            for number, count in postings:
                if number in counts:
                    counts[number][0][term] = count
        return counts

    def candidates(self, items: Mapping[int, StoredItem], numbers: Numbers) -> StoredCandidates:
        """These items, with what was found of them."""
        counts = self.occurrences(items)
        best = [StoredCandidate(item, *counts[number]) for number, item in items.items()]
        return StoredCandidates(best, self.frequencies, numbers.documents, numbers.average)


class Source:
    """Where postings are read from, and how long the items are that they name.

    ``known`` are the lengths of all items of one namespace, of which none has expired. Without them, each posting is
    read with its item, if that lives.
    """

    def __init__(self, t: ItemTables, request: TextRequest, ns_id: int | None, known: Lengths | None) -> None:
        self.t = t
        self.request = request
        self.ns_id = ns_id
        self.known = known
        self._lengths: dict[int, int] = {}
        self._versions: dict[int, int] = {}

    @property
    def lengths(self) -> Mapping[int, int]:
        return self._lengths if self.known is None else self.known.of

    @property
    def versions(self) -> Mapping[int, int]:
        return self._versions if self.known is None else self.known.versions

    @property
    def kept(self) -> Kept | None:
        return None if self.known is None else self.known.kept

    def select(self, term: str) -> Statement:
        """What to give to `read`."""
        t = self.t
        if self.known is not None:
            sql = f"SELECT item_id, tf FROM {t.postings} WHERE ns_id = ? AND term = ?"
            return rows(sql, self.ns_id, encode_id(term))
        condition, bounds = in_namespace(self.request.namespace, self.request.prefix)
        one = "IN" if self.request.prefix else "="
        return rows(
            f"SELECT p.item_id, p.tf, i.length, i.version FROM {t.postings} p JOIN {t.items} i ON i.id = p.item_id"
            f" WHERE p.ns_id {one} (SELECT ns_id FROM {t.namespaces} WHERE {condition}) AND p.term = ? AND {LIVE}",
            *(*bounds, encode_id(term), self.request.now_us),
        )

    def read(self, found: Sequence[Row]) -> Postings:
        """The postings that a query of `select` found."""
        if self.known is not None:
            return found
        for number, _, length, version in found:
            self._lengths[number] = length
            self._versions[number] = version
        return [(number, count) for number, count, _, _ in found]

    def is_large(self, numbers: Numbers) -> Plan[bool]:
        """Whether to begin with the rarest terms. Where items have expired, the index alone can't be counted."""
        if numbers.documents < SMALL or self.ns_id is None or self.request.filter.conditions:
            return False
        if self.known is not None:
            return True
        sql = f"SELECT 1 FROM {self.t.items} WHERE expires_at <= ? AND ns = ? LIMIT 1"
        return not (yield from fetch(sql, self.request.now_us, key_of(self.request.namespace)))


def matches(source: Source, numbers: Numbers) -> Plan[Found]:
    """What the best items are found with."""
    terms = source.request.terms
    if (yield from source.is_large(numbers)):
        return (yield from _rarest_first(source, numbers))
    if source.kept is not None:
        postings = yield from _kept_postings(source, source.kept)
    else:
        found = yield heavy([source.select(term) for term in terms])
        postings = [source.read(part) for part in found]
    frequencies = dict(zip(terms, map(len, postings), strict=True))
    return Found(postings, frequencies, source.lengths, source.versions)


def _kept_postings(source: Source, kept: Kept) -> Plan[list[Postings]]:
    """Those of all terms, of which only those are read that were not before."""
    terms = source.request.terms
    before = kept.postings
    found = {term: before[term] for term in terms if term in before}
    missing = [term for term in terms if term not in found]
    if missing:
        asked = [source.select(term) for term in missing]
        if kept.groups is None:  # who asks for words will ask who stands beside them
            asked.append(select_groups(source.t, key_of(source.request.namespace)))
        results = yield heavy(asked)
        for term, postings in zip(missing, results, strict=False):
            found[term] = postings
            kept.add_postings(term, postings)
        if len(results) > len(missing):
            kept.add_groups(results[-1])
    return [found[term] for term in terms]


def _rarest_first(source: Source, numbers: Numbers) -> Plan[Found]:
    terms, limit = source.request.terms, source.request.limit
    count = f"SELECT COUNT(*), COALESCE(MAX(tf), 0) FROM {source.t.postings} WHERE ns_id = ? AND term = ?"
    counted = yield [rows(count, source.ns_id, encode_id(term)) for term in terms]
    sizes = {term: (df, most) for term, ((df, most),) in zip(terms, counted, strict=True)}
    waiting = sorted((term for term in sizes if sizes[term][0]), key=lambda term: (sizes[term][0], term))
    read: dict[str, Postings] = {}
    scores: Scores = {}
    least, more = 0.0, 0.0
    while waiting:
        more = sum(numbers.most(*sizes[term]) for term in waiting) * _CAUTION
        if len(scores) >= limit and more < (least := _least_of_best(scores, limit)):
            break
        term = waiting.pop(0)
        (found,) = yield heavy([source.select(term)])
        read[term] = source.read(found)
        _add(scores, read[term], sizes[term][0], numbers, source.lengths)
    if waiting:
        kept = {number for number, score in scores.items() if score * _CAUTION + more >= least}
        read = {term: [row for row in part if row[0] in kept] for term, part in read.items()}
        read |= yield from _looked_up(source, waiting, kept)
    frequencies = {term: df for term, (df, _) in sizes.items()}
    return Found([read.get(term, ()) for term in sizes], frequencies, source.lengths, source.versions)


def _looked_up(source: Source, terms: Sequence[str], numbers: Collection[int]) -> Plan[dict[str, Postings]]:
    """The postings of frequent terms, for these items."""
    portions = list(lists(sorted(numbers)))
    of_items = (
        f"SELECT DISTINCT item_id, tf FROM {source.t.postings} WHERE ns_id = ? AND term = ? AND item_id IN"
    )
    results = yield [
        rows(f"{of_items} {marks}", source.ns_id, encode_id(term), *values)
        for term in terms
        for marks, values in portions
    ]
    size = len(portions)
    return {
        term: [row for part in results[place * size : (place + 1) * size] for row in part]
        for place, term in enumerate(terms)
    }


def _least_of_best(scores: Scores, count: int) -> float:
    """The least of the ``count`` greatest scores, of which there are that many."""
    if len(scores) <= _FEW:
        return sorted(scores.values(), reverse=True)[count - 1]
    return nlargest(count, scores.values())[-1]


def _add(scores: Scores, postings: Postings, df: int, numbers: Numbers, lengths: Mapping[int, int]) -> None:
    """What one term gives to each item that has it. The operations are those of `ranking.bm25`, in the same order."""
    weight, norms, get = numbers.weight(df), numbers.norms, scores.get
    for number, count in postings:
        score = weight * count * (K1 + 1.0) / (count + norms[lengths[number]])
        scores[number] = get(number, 0.0) + score

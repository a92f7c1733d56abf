"""Which items have the terms of a search, and how well they match: BM25, exact.

A large namespace is searched from the rarest term on. Once no item that has only the remaining, frequent terms can
come among the best, the postings of these are looked up for the items that can, not read from end to end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nlargest
from math import log
from typing import NamedTuple

from holdfast.memory.backends.sql.items_rows import LIVE, in_namespace, key_of, lists
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, heavy, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.ranking import K1, B
from holdfast.memory.store_requests import TextRequest

_LARGE = 5000
"""Documents of a namespace in which it pays to look at the rarest terms first."""
_CAUTION = 1.0 + 1e-9  # sums are rounded

Postings = Sequence[Row]
"""Of one term: number of the item, occurrences, length and version of the item."""


class Numbers(NamedTuple):
    """How many documents a search looks through, and how long they are."""

    documents: int
    average: float

    def weight(self, df: int) -> float:
        return log(1.0 + (self.documents - df + 0.5) / (df + 0.5))

    def norm(self, length: int) -> float:
        return K1 * (1.0 - B + B * (length / self.average))

    def most(self, df: int, count: int) -> float:
        """The most that a term gives that no item has more often: in an item that has no other words."""
        return self.weight(df) * count * (K1 + 1.0) / (count + self.norm(count))


class Found(NamedTuple):
    """The items that count, by term in the order of the request; and in how many items each term is."""

    postings: Sequence[Postings]
    frequencies: dict[str, int]

    def best_first(self, request: TextRequest, numbers: Numbers) -> Iterator[int]:
        """Numbers of items by falling score, the newest of equal ones first; as many as the search can need."""
        scored = [(score, *place) for place, score in self._scores(numbers).items()]
        if request.filter.conditions or 8 * request.limit > len(scored):
            best = sorted(scored, reverse=True)
        else:
            best = nlargest(request.limit, scored)
        return (number for _, _, number in best)

    def occurrences(self, items: Collection[int]) -> dict[int, tuple[dict[str, int], int]]:
        """For each of the items how often it has each term, and its length."""
        counts: dict[int, tuple[dict[str, int], int]] = {}
        for term, postings in zip(self.frequencies, self.postings, strict=True):
            for number, count, length, _ in postings:
                if number in items:
                    counts.setdefault(number, ({}, length))[0][term] = count
        return counts

    def _scores(self, numbers: Numbers) -> dict[tuple[int, int], float]:
        """By version and number. The operations are those of `ranking.bm25`, in the same order."""
        scores: dict[tuple[int, int], float] = {}
        for df, postings in zip(self.frequencies.values(), self.postings, strict=True):
            _add(scores, postings, df, numbers)
        return scores


def matches(t: ItemTables, request: TextRequest, numbers: Numbers) -> Plan[Found]:
    """What the best items are found with."""
    if numbers.documents >= _LARGE and not request.prefix and not request.filter.conditions:
        found = yield from _rarest_first(t, request, numbers)
        if found is not None:
            return found
    postings = yield heavy([_select(t, request, term) for term in request.terms])
    frequencies = {term: len(part) for term, part in zip(request.terms, postings, strict=True)}
    return Found(postings, frequencies)


def _rarest_first(t: ItemTables, request: TextRequest, numbers: Numbers) -> Plan[Found | None]:
    """``None``: some items have expired and are still in the index, so that it can't be counted from it."""
    (space,) = ns = (key_of(request.namespace),)
    of_namespace = f"ns_id = (SELECT ns_id FROM {t.namespaces} WHERE ns = ?)"
    count = f"SELECT COUNT(*), COALESCE(MAX(tf), 0) FROM {t.postings} WHERE {of_namespace} AND term = ?"
    expired, *counted = yield [
        rows(f"SELECT 1 FROM {t.items} WHERE expires_at <= ? AND ns = ? LIMIT 1", request.now_us, space),
        *[rows(count, *ns, encode_id(term)) for term in request.terms],
    ]
    if expired:
        return None
    sizes = {term: (df, most) for term, ((df, most),) in zip(request.terms, counted, strict=True)}
    waiting = sorted((term for term in sizes if sizes[term][0]), key=lambda term: (sizes[term][0], term))
    read: dict[str, Postings] = {}
    scores: dict[tuple[int, int], float] = {}
    least, more = 0.0, 0.0
    while waiting:
        more = sum(numbers.most(*sizes[term]) for term in waiting) * _CAUTION
        best = nlargest(request.limit, scores.values())
        least = best[-1] if len(best) == request.limit else 0.0
        if more < least:
            break
        (read[waiting[0]],) = yield heavy([_select(t, request, waiting[0])])
        _add(scores, read[waiting[0]], sizes[waiting[0]][0], numbers)
        del waiting[0]
    if waiting:
        kept = {number for (_, number), score in scores.items() if score * _CAUTION + more >= least}
        about = {row[0]: row[2:] for part in read.values() for row in part if row[0] in kept}
        read = {term: [row for row in part if row[0] in kept] for term, part in read.items()}
        read |= yield from _looked_up(t, space, waiting, about)
    return Found([read.get(term, ()) for term in sizes], {term: df for term, (df, _) in sizes.items()})


def _looked_up(
    t: ItemTables, space: str, terms: Sequence[str], about: Mapping[int, Row]
) -> Plan[dict[str, Postings]]:
    """The postings of frequent terms, for the items of which length and version are known."""
    portions = list(lists(sorted(about)))
    results = yield [
        rows(
            f"SELECT DISTINCT item_id, tf FROM {t.postings}"
            f" WHERE ns_id = (SELECT ns_id FROM {t.namespaces} WHERE ns = ?) AND term = ? AND item_id IN {marks}",
            *(space, encode_id(term), *values),
        )
        for term in terms
        for marks, values in portions
    ]
    found: dict[str, Postings] = {}
    for place, term in enumerate(terms):
        parts = results[place * len(portions) : (place + 1) * len(portions)]
        found[term] = [(number, count, *about[number]) for part in parts for number, count in part]
    return found


def _select(t: ItemTables, request: TextRequest, term: str) -> Statement:
    """The live items that have the term."""
    condition, bounds = in_namespace(request.namespace, request.prefix)
    one = "IN" if request.prefix else "="
    return rows(
        f"SELECT p.item_id, p.tf, i.length, i.version FROM {t.postings} p JOIN {t.items} i ON i.id = p.item_id"
        f" WHERE p.ns_id {one} (SELECT ns_id FROM {t.namespaces} WHERE {condition}) AND p.term = ? AND {LIVE}",
        *(*bounds, encode_id(term), request.now_us),
    )


def _add(scores: dict[tuple[int, int], float], postings: Postings, df: int, numbers: Numbers) -> None:
    """What one term gives to each item that has it."""
    weight = numbers.weight(df)
    norms: dict[int, float] = {}
    get = scores.get
    for number, count, length, version in postings:
        norm = norms.get(length)
        if norm is None:
            norm = norms[length] = numbers.norm(length)
        place = (version, number)
        scores[place] = get(place, 0.0) + weight * count * (K1 + 1.0) / (count + norm)

"""The words of a store: postings of our analyser's terms, and the candidates of a search over them.

All numbers are those of the namespaces looked through, and exact: no tenant's ranking tells about another's words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeVar

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.memory.backends.sql import text_index
from holdfast.memory.backends.sql.items_kept import Check, kept_items, parse_terms
from holdfast.memory.backends.sql.items_lengths import LengthCache, Lengths, Stamp, lengths
from holdfast.memory.backends.sql.items_matches import Found, Numbers, Source, matches
from holdfast.memory.backends.sql.items_reading import stretches
from holdfast.memory.backends.sql.items_rows import LIVE, best_items, in_namespace, key_of, lists
from holdfast.memory.backends.sql.items_schema import ANALYSER_MARK, ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, change, fetch, heavy, last, many, rows
from holdfast.memory.store_requests import Reader, StoredCandidates, StoredItem, Stretch, TextRequest
from holdfast.memory.text import analyse, value_text

T = TypeVar("T")

_REBUILD_ROWS = 256

Counts = Mapping[str, int]

this_analyser = lru_cache(maxsize=1)(text_index.analyser)
"""What postings are made by now."""


class IndexedText(NamedTuple):
    """The terms of an item, before and after a write."""

    ns_id: int
    item_id: int
    before: Counts
    after: Counts


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────


def count_terms(text: str) -> Counter[str]:
    """The terms to index of a text. They are letters and digits only: no database needs them encoded."""
    return Counter(analyse(text))


def indexed_terms(t: ItemTables, item_ids: Sequence[int]) -> Plan[dict[int, Counts]]:
    """What these items are indexed with."""
    results = yield [
        rows(f"SELECT item_id, terms FROM {t.terms} WHERE item_id IN {marks}", *values)
        for marks, values in lists(item_ids)
    ]
    return terms_by_item(results)


def terms_by_item(results: Iterable[Iterable[Row]]) -> dict[int, Counts]:
    """Rows of items and their terms, by item."""
    return {item_id: parse_terms(text) for result in results for item_id, text in result}


def index_changes(t: ItemTables, texts: Sequence[IndexedText]) -> list[Statement]:
    """Statements that write what differs, and nothing else."""
    changed = [text for text in texts if text.before != text.after]
    gone = [
        (ns_id, term, item_id)
        for ns_id, item_id, before, after in changed
        for term, count in before.items()
        if after.get(term) != count
    ]
    new = [
        (ns_id, term, item_id, count)
        for ns_id, item_id, before, after in changed
        for term, count in after.items()
        if before.get(term) != count
    ]
    new.sort()  # neighbours in the table are written one after the other
    old_terms = [(text.item_id,) for text in changed if text.before]
    new_terms = [(text.item_id, _join(text.after)) for text in changed if text.after]
    return [
        *t.dialect.put_rows(t.postings, ("ns_id", "term", "item_id"), ("tf",), gone, new),
        *t.dialect.put_rows(t.terms, ("item_id",), ("terms",), old_terms, new_terms),
    ]


def select_mark(t: ItemTables) -> Statement:
    """A query for what the postings are made by; ``NULL`` if they are not all made by one analyser."""
    return rows(f"SELECT MAX(value) FROM {t.meta} WHERE name = ?", ANALYSER_MARK)


def mark_after_write(t: ItemTables, mark: str | None, *, first: bool) -> list[Statement]:
    """Note it when the first items come, and when they come from another analyser than those before."""
    if mark == this_analyser() or (mark is None and not first):
        return []
    return _set_mark(t) if first else [change(f"DELETE FROM {t.meta} WHERE name = ?", ANALYSER_MARK)]


def _set_mark(t: ItemTables) -> list[Statement]:
    return t.dialect.put_row(t.meta, ("name",), ("value",), ANALYSER_MARK, this_analyser())


def rebuild(t: ItemTables) -> Plan[None]:
    """Index all items anew, with this analyser; nothing if somebody has done so."""
    *_, ((mark,),) = yield [*t.versions.lock(t.counters, None), select_mark(t)]
    if mark == this_analyser():
        return
    yield [change(f"DELETE FROM {t.postings}"), change(f"DELETE FROM {t.terms}"), *_set_mark(t)]
    last = 0
    while True:
        sql = (
            f"SELECT i.id, n.ns_id, i.value FROM {t.items} i JOIN {t.namespaces} n ON n.ns = i.ns"
            " WHERE i.id > ? ORDER BY i.id LIMIT ?"
        )
        (found,) = yield heavy([rows(sql, last, _REBUILD_ROWS)])
        if not found:
            return
        texts = [IndexedText(ns_id, item_id, {}, _terms_of(value)) for item_id, ns_id, value in found]
        lengths = [(sum(text.after.values()), text.item_id) for text in texts]
        yield [
            many(f"UPDATE {t.items} SET length = ? WHERE id = ?", lengths),
            *index_changes(t, texts),
        ]
        last = found[-1][0]


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────


def candidates(t: ItemTables, cache: LengthCache, request: TextRequest) -> Plan[StoredCandidates | None]:
    """The best by BM25, with the statistics. ``None``: the index must be rebuilt before it can answer."""
    try:
        found = yield from _candidates(t, cache, request)
    finally:
        cache.weigh(key_of(request.namespace))
    return None if found is None else found[0]


def read_candidates(
    t: ItemTables, cache: LengthCache, request: TextRequest, reader: Reader[T]
) -> Plan[tuple[T] | None]:
    """Have the candidates read, and what stands around them. ``None``: as for `candidates`."""
    try:
        found = yield from _candidates(t, cache, request)
        if found is None:
            return None
        best, known = found
        reading = reader(best)
        items: Sequence[StoredItem] | None = None
        while True:
            try:
                wanted = next(reading) if items is None else reading.send(items)
            except StopIteration as end:
                return (end.value,)
            items = yield from _at(t, request, wanted, known)
    finally:
        cache.weigh(key_of(request.namespace))


def _at(
    t: ItemTables, request: TextRequest, wanted: Sequence[Stretch], known: Lengths | None
) -> Plan[list[StoredItem]]:
    """The items at these places, from memory if the namespace is still as it was when that was read."""
    if known is not None and known.kept is not None:
        numbers = known.kept.numbers_at(wanted)
        if numbers is not None:
            check = _check(t, request, known)
            versions, now_us = known.versions, request.now_us
            there = yield from kept_items(t, known.kept, numbers, versions, now_us, check=check)
            if there is not None:
                return list(there.values())
    return (yield from stretches(t, request.namespace, wanted, request.now_us))


_Candidates = tuple[StoredCandidates, Lengths | None]
"""With what they were found by, if it may be used for more."""


def _candidates(t: ItemTables, cache: LengthCache, request: TextRequest) -> Plan[_Candidates | None]:
    at_hand = yield from _at_hand(t, cache, request)
    if at_hand is not None:
        return at_hand
    mark, ns_id, known = yield from _known(t, cache, request)
    if known is None:
        documents, total = yield from _counted(t, request)
    else:
        documents, total = known.documents, known.total
    average = total / documents if documents else 0.0
    if not documents or not request.terms or not request.limit:
        return StoredCandidates([], dict.fromkeys(request.terms, 0), documents, average), known
    if mark != this_analyser():
        return None
    numbers = Numbers(documents, average)
    found = yield from matches(Source(t, request, ns_id, known), numbers)
    ranking = found.best_first(request, numbers)
    items: dict[int, StoredItem] | None = None
    if known is not None and known.kept is not None and not request.filter.conditions:
        best = list(islice(ranking, request.limit))
        items = yield from kept_items(t, known.kept, best, known.versions, request.now_us)
    if items is None:
        items = yield from best_items(t, ranking, request.limit, request.filter, request.now_us)
    return found.candidates(items, numbers), known


def _at_hand(t: ItemTables, cache: LengthCache, request: TextRequest) -> Plan[_Candidates | None]:
    """From memory, if the words are there and nothing has changed: then that is all there is to ask.

    An item that is not there is read together with the state: all of an answer is of one moment.
    """
    known = None if request.prefix else cache.get(key_of(request.namespace))
    if known is None or known.kept is None or request.filter.conditions or not known.documents:
        return None
    if not request.terms or not request.limit or _if_alive(known, request.now_us) is None:
        return None
    postings = known.kept.postings_of(request.terms)  # taken now: they may go
    if postings is None:
        return None
    check = _check(t, request, known)
    (state,) = yield heavy(last([check.query]))
    if not check.passes(state):
        return None
    frequencies = dict(zip(request.terms, map(len, postings), strict=True))
    found = Found(postings, frequencies, known.of, known.versions)
    numbers = Numbers(known.documents, known.total / known.documents)
    best = list(islice(found.best_first(request, numbers), request.limit))
    items = yield from kept_items(t, known.kept, best, known.versions, request.now_us, check=check)
    return None if items is None else (found.candidates(items, numbers), known)


def _known(
    t: ItemTables, cache: LengthCache, request: TextRequest
) -> Plan[tuple[str | None, int | None, Lengths | None]]:
    """What the postings are made by; the number of the namespace, and how long its items are if all of them live."""
    if request.prefix:
        (((mark,),),) = yield [select_mark(t)]
        return mark, None, None
    ns = key_of(request.namespace)
    forgotten = cache.forgotten(ns)
    # Somebody else may have read all that follows meanwhile: then it takes its time at once.
    (found,) = yield heavy([_select_state(t, ns)])
    if not found or found[0][0] != this_analyser():
        return found[0][0] if found else None, None, None
    stamp = Stamp(*found[0][1:])
    known = yield from lengths(t, cache, ns, stamp, forgotten)
    return this_analyser(), stamp.ns_id, _if_alive(known, request.now_us)


def _check(t: ItemTables, request: TextRequest, known: Lengths) -> Check:
    return Check(_select_state(t, key_of(request.namespace)), (this_analyser(), *known.stamp))


def _select_state(t: ItemTables, ns: str) -> Statement:
    """What the postings are made by, and the stamp of a namespace; no row if it has no items."""
    return rows(
        f"SELECT (SELECT MAX(value) FROM {t.meta} WHERE name = ?), ns_id, removals,"
        f" (SELECT MAX(version) FROM {t.items} WHERE ns = ?) FROM {t.namespaces} WHERE ns = ?",
        *(ANALYSER_MARK, ns, ns),
    )


def _if_alive(known: Lengths | None, now_us: int) -> Lengths | None:
    """If none of the items has expired: of those that have, the words must not count."""
    if known is not None and known.first_expiry is not None and known.first_expiry <= now_us:
        return None
    return known


def _counted(t: ItemTables, request: TextRequest) -> Plan[tuple[int, int]]:
    """Documents and their length in all, of what lives."""
    condition, bounds = in_namespace(request.namespace, request.prefix)
    ((documents, total),) = yield from fetch(
        f"SELECT COUNT(*), COALESCE(SUM(length), 0) FROM {t.items} WHERE {condition} AND length > 0 AND {LIVE}",
        *(*bounds, request.now_us),
    )
    return documents, int(total)


# ── terms as text ─────────────────────────────────────────────────────────────────────────────────────


def _join(counts: Counts) -> str:
    return " ".join([f"{term}:{count}" for term, count in counts.items()])


def _terms_of(value: str) -> Counts:
    """A damaged value has no words: reading it says so, indexing must not stop at it."""
    try:
        return count_terms(value_text(codec.loads(value)))
    except HoldfastError:
        return {}

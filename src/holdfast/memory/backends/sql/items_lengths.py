"""How long the items of a namespace are, in memory: what BM25 needs of every item that has a word.

Read from the database it would be a look-up for each of them, and counting the namespace for its average. What memory
holds is checked against the namespace's row in the same transaction, since other processes write too, and brought up
to date by what was written since.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, fetch, rows

MAX_ITEMS = 250_000
"""Items of all namespaces that a store keeps the lengths of: some 20 MB."""
_SLACK = 1000


class Stamp(NamedTuple):
    """The state of a namespace: every put makes the newest version greater, every removal the removals."""

    ns_id: int
    removals: int
    version: int


class _ByNumber(dict[int, int]):
    """A word of an item whose row was taken away by hand: no search finds the item, so its length is any."""

    def __missing__(self, number: int) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Lengths:
    """``of`` has the number of terms by an item's number; ``versions`` only those that are not the item's number."""

    stamp: Stamp
    of: Mapping[int, int]
    versions: Mapping[int, int]
    documents: int
    total: int
    first_expiry: int | None


class LengthCache:
    """The most recently used ones, up to so many items. What it gave out never changes."""

    def __init__(self, most: int = MAX_ITEMS) -> None:
        self.most = most
        self._kept: OrderedDict[int, Lengths] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, ns_id: int) -> Lengths | None:
        with self._lock:
            if ns_id in self._kept:
                self._kept.move_to_end(ns_id)
            return self._kept.get(ns_id)

    def keep(self, lengths: Lengths) -> None:
        """For the next search."""
        with self._lock:
            known = self._kept.get(lengths.stamp.ns_id)
            if known is not None and known.stamp > lengths.stamp:
                return  # another reader has seen a later state
            self._kept[lengths.stamp.ns_id] = lengths
            self._kept.move_to_end(lengths.stamp.ns_id)
            self._size += len(lengths.of) - (0 if known is None else len(known.of))
            while self._size > self.most:
                self._size -= len(self._kept.popitem(last=False)[1].of)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._size = 0


def lengths(t: ItemTables, cache: LengthCache, ns: str, stamp: Stamp) -> Plan[Lengths | None]:
    """Those of a namespace in this state; ``None`` if there are too many, or if this state is past already."""
    known = cache.get(stamp.ns_id)
    if known is not None and known.stamp >= stamp:
        return known if known.stamp == stamp else None
    counted: _Counted | None = None
    if known is None or known.stamp.removals != stamp.removals:
        ((documents, total, first),) = yield from fetch(f"SELECT {_COUNTS} FROM {t.items} WHERE ns = ?", ns)
        counted = _Counted(documents, int(total), first)
        if counted.documents > cache.most:
            return None
    # Of what went, the lengths may stay: nobody asks for them. But not too many.
    if known is None or (counted is not None and len(known.of) > 2 * counted.documents + _SLACK):
        assert counted is not None
        new = yield from _all(t, ns, stamp, counted)
    else:
        written = yield from fetch(
            f"SELECT id, version, length, expires_at FROM {t.items} WHERE ns = ? AND version > ?",
            *(ns, known.stamp.version),
        )
        new = _renewed(known, stamp, written, counted)
    cache.keep(new)
    return new


class _Counted(NamedTuple):
    documents: int
    total: int
    first_expiry: int | None


_COUNTS = "COUNT(CASE WHEN length > 0 THEN 1 END), COALESCE(SUM(length), 0), MIN(expires_at)"


def _all(t: ItemTables, ns: str, stamp: Stamp, counted: _Counted) -> Plan[Lengths]:
    found, renewed = yield [
        rows(f"SELECT id, length FROM {t.items} WHERE ns = ?", ns),
        rows(f"SELECT id, version FROM {t.items} WHERE ns = ? AND version <> id", ns),
    ]
    return Lengths(stamp, _ByNumber(found), dict(renewed), *counted)


def _renewed(known: Lengths, stamp: Stamp, written: Iterable[Row], counted: _Counted | None) -> Lengths:
    """With the items that were written since."""
    of, versions = _ByNumber(known.of), dict(known.versions)
    documents, total, first_expiry = known.documents, known.total, known.first_expiry
    for number, version, length, expires_us in written:
        before = of.get(number, 0)
        of[number] = length
        documents += (length > 0) - (before > 0)
        total += length - before
        if version != number:
            versions[number] = version
        if expires_us is not None and (first_expiry is None or expires_us < first_expiry):
            first_expiry = expires_us
    return Lengths(stamp, of, versions, *(counted or (documents, total, first_expiry)))

"""How long the items of a namespace are, in memory: what BM25 needs of every item that has a word.

Read from the database it would be a look-up for each of them, and counting the namespace for its average. What memory
holds is checked against the namespace's row in the same transaction, since other processes write too, and brought up
to date by what was written since.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.memory.backends.sql.items_kept import MOST_WRITTEN, SMALL, Kept, select_written
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, fetch, heavy, rows

MAX_ITEMS = 250_000
"""Items of all namespaces that a store keeps the lengths of: some 20 MB."""
MAX_BYTES = 32_000_000
"""Of what is kept of small namespaces beside that."""
_SLACK = 1000
_COUNTERS = 256
"""Of what was forgotten: namespaces share them."""


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
    """``of`` has the number of terms by an item's number; ``versions`` only those that are not the item's number.

    ``kept`` is what else was read of a small namespace.
    """

    stamp: Stamp
    of: Mapping[int, int]
    versions: Mapping[int, int]
    documents: int
    total: int
    first_expiry: int | None
    kept: Kept | None = None


class LengthCache:
    """The most recently used ones by namespace, up to so many items and bytes beside. Their lengths never change."""

    def __init__(self, most: int = MAX_ITEMS, most_bytes: int = MAX_BYTES) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Lengths] = OrderedDict()
        self._size = 0
        self._weights: dict[str, int] = {}
        self._bytes = 0
        self._forgotten = [0] * _COUNTERS
        self._lock = threading.Lock()

    def get(self, ns: str) -> Lengths | None:
        with self._lock:
            known = self._kept.get(ns)
            if known is not None:
                self._kept.move_to_end(ns)
                self._weigh(ns, known)
            return known

    def weigh(self, ns: str) -> None:
        """To be called when a search is done: only then it is known how much more there is to keep."""
        self.get(ns)

    def forgotten(self, ns: str) -> int:
        """How often something was forgotten, before one looks into the database: see `keep`."""
        return self._forgotten[hash(ns) % _COUNTERS]

    def keep(self, ns: str, lengths: Lengths, forgotten: int) -> None:
        """For the next search; unless something was forgotten since, which these may still have."""
        with self._lock:
            if forgotten != self.forgotten(ns):
                return
            known = self._kept.get(ns)
            if known is not None and known.stamp > lengths.stamp:
                return  # another reader has seen a later state
            self._kept[ns] = lengths
            self._kept.move_to_end(ns)
            self._size += len(lengths.of) - (0 if known is None else len(known.of))
            while self._size > self.most:
                self._drop(next(iter(self._kept)))

    def forget(self, ns: str | None = None) -> None:
        """Of one namespace, or of all: something was taken out of it, and is not to stay in memory."""
        with self._lock:
            for counter in range(_COUNTERS) if ns is None else [hash(ns) % _COUNTERS]:
                self._forgotten[counter] += 1
            for name in list(self._kept) if ns is None else [ns] if ns in self._kept else []:
                self._drop(name)

    def _weigh(self, ns: str, known: Lengths) -> None:
        """With what has been kept since it was last asked for. The least recently used go if that is too much."""
        weight = 0 if known.kept is None else known.kept.bytes
        self._bytes += weight - self._weights.get(ns, 0)
        self._weights[ns] = weight
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._kept))
            if oldest != ns:
                self._drop(oldest)
                continue
            if known.kept is not None:
                known.kept.clear()
            self._bytes -= self._weights.pop(ns)

    def _drop(self, ns: str) -> None:
        self._size -= len(self._kept.pop(ns).of)
        self._bytes -= self._weights.pop(ns, 0)


def lengths(t: ItemTables, cache: LengthCache, ns: str, stamp: Stamp, forgotten: int) -> Plan[Lengths | None]:
    """Those of a namespace in this state; ``None`` if there are too many, or if this state is past already."""
    known = cache.get(ns)
    if known is not None and known.stamp >= stamp:
        return known if known.stamp == stamp else None
    if known is not None and known.stamp.ns_id != stamp.ns_id:  # it was empty meanwhile: this is another one
        known = None
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
        new = yield from _renewed(t, ns, known, stamp, counted)
    cache.keep(ns, new, forgotten)
    return new


class _Counted(NamedTuple):
    documents: int
    total: int
    first_expiry: int | None


_COUNTS = "COUNT(CASE WHEN length > 0 THEN 1 END), COALESCE(SUM(length), 0), MIN(expires_at)"


def _all(t: ItemTables, ns: str, stamp: Stamp, counted: _Counted) -> Plan[Lengths]:
    found, renewed = yield heavy(
        [
            rows(f"SELECT id, length FROM {t.items} WHERE ns = ?", ns),
            rows(f"SELECT id, version FROM {t.items} WHERE ns = ? AND version <> id", ns),
        ]
    )
    kept = Kept() if counted.documents < SMALL else None
    return Lengths(stamp, _ByNumber(found), dict(renewed), *counted, kept)


def _renewed(t: ItemTables, ns: str, known: Lengths, stamp: Stamp, counted: _Counted | None) -> Plan[Lengths]:
    """With the items that were written since. ``counted``: some were removed, and what went must not stay."""
    version, kept = known.stamp.version, Kept()
    written: Sequence[Row] | None = None
    if counted is None and known.kept is not None:
        # What follows may find the rest in memory, and take its time.
        (found,) = yield heavy([select_written(t, ns, version, MOST_WRITTEN + 1)])
        if len(found) <= MOST_WRITTEN:
            written, kept = found, known.kept.after(version, found)
    if written is None:
        sql = f"SELECT id, version, length, expires_at FROM {t.items} WHERE ns = ? AND version > ?"
        (written,) = yield heavy([rows(sql, ns, version)])
    return _with(known, stamp, written, counted, kept)


def _with(
    known: Lengths, stamp: Stamp, written: Iterable[Row], counted: _Counted | None, kept: Kept
) -> Lengths:
    of, versions = _ByNumber(known.of), dict(known.versions)
    documents, total, first_expiry = known.documents, known.total, known.first_expiry
    for number, version, length, expires_us, *_ in written:
        before = of.get(number, 0)
        of[number] = length
        documents += (length > 0) - (before > 0)
        total += length - before
        if version != number:
            versions[number] = version
        if expires_us is not None and (first_expiry is None or expires_us < first_expiry):
            first_expiry = expires_us
    if counted is not None:
        documents, total, first_expiry = counted
    return Lengths(stamp, of, versions, documents, total, first_expiry, kept if documents < SMALL else None)

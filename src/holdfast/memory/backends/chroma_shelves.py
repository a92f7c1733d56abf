"""What a place of a Chroma collection holds, parsed and kept in memory, brought up to date by what changed.

A record's head (of the namespace, or the counter for the list of namespaces) says whether anything changed since; then
only the newer records are read, and the ids, if some were removed. What was handed out never changes.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.memory.backends.chroma_client import ChromaCollection
from holdfast.memory.backends.chroma_rows import Head, Record
from holdfast.memory.store_rows import Groups, Matrix, Row
from holdfast.memory.vectors import VectorSpace

T = TypeVar("T")

_ENTRY_BYTES = 1000  # about what an entry takes besides its text and vector


@dataclass(frozen=True, slots=True)
class Shelf(Generic[T]):
    """The entries of a place by id, as they were at the version ``changed`` or a little later."""

    changed: int
    entries: Mapping[str, T]
    size: int
    matrices: dict[tuple[VectorSpace, int], Matrix] = field(default_factory=dict)
    sequences: list[Groups] = field(default_factory=list)
    """One, once they were asked for."""


def matrix(shelf: Shelf[Row], space: VectorSpace, since: int) -> Matrix:
    """The vectors of a namespace that were put after the version ``since``, made when they are first asked for."""
    if (space, since) not in shelf.matrices:
        newer = (row for row in shelf.entries.values() if row.item.version > since)
        shelf.matrices[space, since] = Matrix.of(newer, space)
    return shelf.matrices[space, since]


def groups(shelf: Shelf[Row]) -> Groups:
    """The sequences of a namespace, made when they are first asked for."""
    if not shelf.sequences:
        shelf.sequences.append(Groups(shelf.entries.values()))
    return shelf.sequences[0]


class Shelves(Generic[T]):
    """The most recently used shelves, up to about so many bytes. With 0, each is read anew when it is asked for."""

    def __init__(self, budget: int, parse: Callable[[Record], T]) -> None:
        self._budget = budget
        self._parse = parse
        self._shelves: OrderedDict[str, Shelf[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, collection: ChromaCollection, place: str, head: Head) -> Shelf[T]:
        """The shelf of a place with that head. Blocks."""
        with self._lock:
            known = self._shelves.get(place)
        if known is not None and known.changed >= head.changed:
            shelf = known
        elif known is not None:
            shelf = self._updated(collection, place, head, known)
        else:
            shelf = self._filled(head.changed, {}, 0, collection.at(place))
        self._keep(place, shelf)
        return shelf

    def clear(self) -> None:
        with self._lock:
            self._shelves.clear()

    def _updated(self, collection: ChromaCollection, place: str, head: Head, known: Shelf[T]) -> Shelf[T]:
        newer = collection.at(place, above=known.changed)
        entries = dict(known.entries)
        if head.removed > known.changed:
            left = set(collection.ids_at(place))
            entries = {name: entry for name, entry in entries.items() if name in left}
        return self._filled(head.changed, entries, known.size, newer)

    def _filled(self, changed: int, entries: dict[str, T], size: int, records: list[Record]) -> Shelf[T]:
        for record in records:
            if record.gone:
                entries.pop(record.id, None)
            else:
                entries[record.id] = self._parse(record)
                size += len(record.data) + _ENTRY_BYTES
        return Shelf(changed, entries, size)

    def _keep(self, place: str, shelf: Shelf[T]) -> None:
        with self._lock:
            known = self._shelves.get(place)
            if known is not None and known.changed > shelf.changed:
                return  # another reader has seen a later state
            self._shelves[place] = shelf
            self._shelves.move_to_end(place)
            total = sum(kept.size for kept in self._shelves.values())
            while total > self._budget:
                _, dropped = self._shelves.popitem(last=False)
                total -= dropped.size

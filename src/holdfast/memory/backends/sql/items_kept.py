"""What was read of a small namespace, kept in memory for the next search: postings, items, who stands where.

It belongs to one state of the namespace, which every search compares with the database first, and goes over into the
next state with what was written since. A search that finds all of it here asks the database that one question.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.memory.backends.sql.items_reading import within_bounds
from holdfast.memory.backends.sql.items_rows import select_items, stored_item
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, heavy, last, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.store_requests import StoredItem, Stretch

SMALL = 5000
"""Documents of a namespace from which on nothing is kept, and searches begin with the rarest terms."""
MOST_WRITTEN = 1000
"""Items written since, up to which it takes less to read their terms than to begin anew."""
_ITEM_BYTES, _TERM_BYTES, _POSTING_BYTES, _PLACE_BYTES = 1200, 250, 100, 120
_CHARACTER_BYTES = 10
"""Of a value: the words in it may be kept by themselves."""

Postings = Sequence[Row]
"""Of one term: number of the item, occurrences."""
Groups = dict[str, dict[int, tuple[int, ...]]]
"""Numbers of items by encoded group and ordinal."""


class Kept:
    """Entries come, and may all go at any time: threads share it, and take what they need once.

    ``postings`` and ``groups`` are those of one state of the namespace; ``items`` may be of another one, and say so
    by their version.
    """

    __slots__ = ("_item_bytes", "_place_bytes", "_posting_bytes", "groups", "items", "postings")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.postings: dict[str, Postings] = {}
        self.items: dict[int, StoredItem] = {}
        self.groups: Groups | None = None
        self._item_bytes = self._posting_bytes = self._place_bytes = 0

    @property
    def bytes(self) -> int:
        """Roughly, of memory."""
        return self._item_bytes + self._posting_bytes + self._place_bytes

    def postings_of(self, terms: Sequence[str]) -> list[Postings] | None:
        """Those of all the terms, in their order; ``None`` if some are not here."""
        found = list(map(self.postings.get, terms))
        return None if None in found else [postings for postings in found if postings is not None]

    def add_postings(self, term: str, postings: Postings) -> None:
        before = self.postings.get(term)
        self.postings[term] = postings
        self._posting_bytes += _posting_bytes(postings) - (0 if before is None else _posting_bytes(before))

    def add_item(self, number: int, item: StoredItem) -> None:
        before = self.items.get(number)
        self.items[number] = item
        self._item_bytes += _item_bytes(item) - (0 if before is None else _item_bytes(before))

    def add_groups(self, found: Sequence[Row]) -> None:
        groups: Groups = {}
        for key, ordinal, number in found:
            _stand(groups.setdefault(key, {}), ordinal, number)
        self.groups = groups
        self._place_bytes = _PLACE_BYTES * len(found)

    def numbers_at(self, wanted: Sequence[Stretch]) -> list[int] | None:
        """The items at these places; ``None`` if that is not known here."""
        groups = self.groups
        if groups is None or not all(map(within_bounds, wanted)):
            return None
        found: list[int] = []
        for group, ordinal, window in wanted:
            places = groups.get(encode_id(group))
            if places is None:
                continue
            for place in range(ordinal - window, ordinal + window + 1):
                found += places.get(place, ())
        return found

    def after(self, version: int, written: Sequence[Row]) -> "Kept":
        """For the next state: ``written`` are rows of `select_written`, the items behind ``version``, which was the
        newest."""
        new = Kept()
        new.items, new._item_bytes = dict(self.items), self._item_bytes
        for row in written:
            if (outdated := new.items.get(row[0])) is not None and outdated.version != row[1]:
                del new.items[row[0]]
                new._item_bytes -= _item_bytes(outdated)
        if any(row[0] <= version for row in written):
            return new  # one that was there has other words now, or another place
        new.postings, new._posting_bytes = dict(self.postings), self._posting_bytes
        fresh: dict[str, list[Row]] = {}
        for row in written:
            for term, count in parse_terms(row[-1] or "").items():
                if term in new.postings:
                    fresh.setdefault(term, []).append((row[0], count))
        for term, postings in fresh.items():
            new.add_postings(term, [*new.postings[term], *postings])
        if self.groups is not None:
            new._place(self.groups, [(row[4], row[5], row[0]) for row in written])
            new._place_bytes += self._place_bytes
        return new

    def _place(self, groups: Groups, written: Iterable[Row]) -> None:
        """Those groups, with more that stand in them. What was there stays as it was, for others who hold it."""
        placed = [row for row in written if row[0] is not None and row[1] is not None]
        new = dict(groups)
        for key in {key for key, _, _ in placed}:
            new[key] = dict(new.get(key, {}))
        for key, ordinal, number in placed:
            _stand(new[key], ordinal, number)
        self.groups = new
        self._place_bytes = _PLACE_BYTES * len(placed)


class Check(NamedTuple):
    """That a namespace is still in the state it was in."""

    query: Statement
    state: Row

    def passes(self, found: Iterable[Row]) -> bool:
        """Whether this is the state that the query found."""
        return list(map(tuple, found)) == [self.state]


def kept_items(
    t: ItemTables,
    kept: Kept,
    numbers: Sequence[int],
    versions: Mapping[int, int],
    now_us: int,
    *,
    check: Check | None = None,
) -> Plan[dict[int, StoredItem] | None]:
    """The items of these numbers, in their order, of which only those are read that were not before.

    ``versions`` are theirs where they are not the item's number. ``check`` is for those who found out the state in a
    transaction that ended. If it is another one by now, the answer is ``None``: items would be of another moment.
    """
    items = kept.items
    found: dict[int, StoredItem] = {}
    missing: list[int] = []
    for number in numbers:
        item = items.get(number)
        if item is None or item.version != (versions.get(number, number) if versions else number):
            missing.append(number)
        else:
            found[number] = item
    if not missing:
        return found
    asked = select_items(t, missing, now_us)
    # Who gets the items ranks them, which takes time.
    if check is not None:
        asked.insert(0, check.query)
    results = yield heavy(last(asked))
    if check is not None:
        state, *results = results
        if not check.passes(state):
            return None
    for result in results:
        for row in result:
            found[row[0]] = item = stored_item(row[1:])
            kept.add_item(row[0], item)
    return {number: found[number] for number in numbers if number in found}


def _item_bytes(item: StoredItem) -> int:
    return _ITEM_BYTES + _CHARACTER_BYTES * len(item.value) + len(item.metadata)


def _posting_bytes(postings: Postings) -> int:
    return _TERM_BYTES + _POSTING_BYTES * len(postings)


def _stand(places: dict[int, tuple[int, ...]], ordinal: int, number: int) -> None:
    places[ordinal] = (*places.get(ordinal, ()), number)


def select_groups(t: ItemTables, ns: str) -> Statement:
    """For `Kept.add_groups`."""
    return rows(
        f"SELECT group_key, ordinal, id FROM {t.items}"
        " WHERE ns = ? AND group_key IS NOT NULL AND ordinal IS NOT NULL",
        ns,
    )


def select_written(t: ItemTables, ns: str, version: int, limit: int) -> Statement:
    """What was written behind a version: number, version, length, expiry, group, ordinal, terms."""
    return rows(
        "SELECT i.id, i.version, i.length, i.expires_at, i.group_key, i.ordinal, w.terms"
        f" FROM {t.items} i LEFT JOIN {t.terms} w ON w.item_id = i.id WHERE i.ns = ? AND i.version > ? LIMIT ?",
        *(ns, version, limit),
    )


def parse_terms(text: str) -> dict[str, int]:
    """The terms of an item, as they are written beside it."""
    parts = (part.rpartition(":") for part in text.split(" ") if part)
    return {term: int(count) for term, _, count in parts}

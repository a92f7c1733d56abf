"""What was read of a small namespace, kept in memory for the next search: postings, items, who stands where.

It belongs to one state of the namespace, which every search compares with the database first, and goes over into the
next state with what was written since. A search that finds all of it here asks the database that one question.
"""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.memory.backends.sql.items_reading import within_bounds
from holdfast.memory.backends.sql.items_rows import select_items, stored_item
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, last, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.store_requests import StoredItem, Stretch

SMALL = 5000
"""Documents of a namespace from which on nothing is kept, and searches begin with the rarest terms."""
_ITEM_BYTES, _POSTING_BYTES, _PLACE_BYTES = 1200, 80, 120
_CHARACTER_BYTES = 10
"""Of a value: the words in it may be kept by themselves."""

Postings = Sequence[Row]
"""Of one term: number of the item, occurrences."""
Groups = dict[str, dict[int, tuple[int, ...]]]
"""Numbers of items by encoded group and ordinal."""


class Kept:
    """Entries come, and may all go at any time: threads share it, and take what they need once.

    ``postings`` and ``groups`` are those of one state of the namespace; ``items`` may be of an earlier one, and say so
    by their version.
    """

    __slots__ = ("bytes", "groups", "items", "postings")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.postings: dict[str, Postings] = {}
        self.items: dict[int, StoredItem] = {}
        self.groups: Groups | None = None
        self.bytes = 0

    def has(self, terms: Iterable[str]) -> bool:
        """Whether the postings of all these are here."""
        return all(map(self.postings.__contains__, terms))

    def add_postings(self, term: str, postings: Postings) -> None:
        self.postings[term] = postings
        self.bytes += _POSTING_BYTES * (1 + len(postings))

    def add_item(self, number: int, item: StoredItem) -> None:
        self.items[number] = item
        self.bytes += _ITEM_BYTES + _CHARACTER_BYTES * len(item.value) + len(item.metadata)

    def add_groups(self, found: Iterable[Row]) -> None:
        groups: Groups = {}
        for key, ordinal, number in found:
            _stand(groups.setdefault(key, {}), ordinal, number)
            self.bytes += _PLACE_BYTES
        self.groups = groups

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
        """For the next state: ``written`` are rows of `WRITTEN`, the items behind ``version``, which was the newest."""
        new = Kept()
        new.items = dict(self.items)
        new.bytes = self.bytes
        if any(
            row[0] <= version for row in written
        ):  # one that was there has other words now, or another place
            return new
        new.postings = dict(self.postings)
        fresh: dict[str, list[Row]] = {}
        for row in written:
            for term, count in parse_terms(row[-1] or "").items():
                if term in new.postings:
                    fresh.setdefault(term, []).append((row[0], count))
        for term, postings in fresh.items():
            new.add_postings(term, [*new.postings[term], *postings])
        if self.groups is not None:
            new.groups = dict(self.groups)
            places = [(key, ordinal, row[0]) for row in written for key, ordinal in [row[4:6]]]
            for key in {key for key, ordinal, _ in places if key is not None and ordinal is not None}:
                new.groups[key] = dict(new.groups.get(key, {}))
            for key, ordinal, number in places:
                if key is not None and ordinal is not None:
                    _stand(new.groups[key], ordinal, number)
        return new


def kept_items(
    t: ItemTables, kept: Kept, numbers: Sequence[int], versions: Mapping[int, int], now_us: int
) -> Plan[dict[int, StoredItem]]:
    """The items of these numbers, in their order, of which only those are read that were not before.

    ``versions`` are theirs where they are not the item's number.
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
    results = yield last(select_items(t, missing, now_us))
    for result in results:
        for row in result:
            found[row[0]] = item = stored_item(row[1:])
            kept.add_item(row[0], item)
    return {number: found[number] for number in numbers if number in found}


def _stand(places: dict[int, tuple[int, ...]], ordinal: int, number: int) -> None:
    places[ordinal] = (*places.get(ordinal, ()), number)


def select_groups(t: ItemTables, ns: str) -> Statement:
    """For `Kept.add_groups`."""
    return rows(
        f"SELECT group_key, ordinal, id FROM {t.items}"
        " WHERE ns = ? AND group_key IS NOT NULL AND ordinal IS NOT NULL",
        ns,
    )


def select_written(t: ItemTables, ns: str, version: int) -> Statement:
    """What was written behind a version: number, version, length, expiry, group, ordinal, terms."""
    return rows(
        "SELECT i.id, i.version, i.length, i.expires_at, i.group_key, i.ordinal, w.terms"
        f" FROM {t.items} i LEFT JOIN {t.terms} w ON w.item_id = i.id WHERE i.ns = ? AND i.version > ?",
        *(ns, version),
    )


def parse_terms(text: str) -> dict[str, int]:
    """The terms of an item, as they are written beside it."""
    parts = (part.rpartition(":") for part in text.split(" ") if part)
    return {term: int(count) for term, _, count in parts}

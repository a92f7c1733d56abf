"""Items that go: with their words, their vector and, if nothing else is in it, their namespace."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.memory.backends.sql.items_rows import LIVE, PORTION, in_namespace, lists
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_words import Counts, IndexedText, index_changes, indexed_terms
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, change, fetch, many, rows
from holdfast.memory.store_requests import Namespace


class Place(NamedTuple):
    """Where a row is: its number, the namespace's number and the namespace itself."""

    item_id: int
    ns_id: int
    ns: str


def removal(t: ItemTables, places: Sequence[Place], indexed: Mapping[int, Counts]) -> list[Statement]:
    """Delete these rows, indexed with that. The namespaces that they leave empty are the caller's to drop."""
    texts = [IndexedText(place.ns_id, place.item_id, indexed.get(place.item_id, {}), {}) for place in places]
    numbers = [(place.item_id,) for place in places]
    return [
        *index_changes(t, texts),
        many(f"DELETE FROM {t.vectors} WHERE item_id = ?", numbers),
        many(f"DELETE FROM {t.items} WHERE id = ?", numbers),
        items_went(t, {place.ns_id for place in places}),
    ]


def items_went(t: ItemTables, ns_ids: Iterable[int]) -> Statement:
    """Tell those who hold vectors or lengths of these namespaces that some may be gone."""
    sql = f"UPDATE {t.namespaces} SET removals = removals + 1 WHERE ns_id = ?"
    return many(sql, [(ns_id,) for ns_id in ns_ids])


def drop_empty(t: ItemTables, namespaces: Iterable[str]) -> Statement:
    """No row keeps the name of a namespace that holds nothing."""
    sql = f"DELETE FROM {t.namespaces} WHERE ns = ? AND NOT EXISTS (SELECT 1 FROM {t.items} WHERE ns = ?)"
    return many(sql, [(ns, ns) for ns in namespaces])


def clear(t: ItemTables, namespace: Namespace, prefix: bool, now_us: int) -> Plan[int]:
    """Delete all items; returns how many of them had not expired."""
    conditions: list[tuple[str, Sequence[str]]] = [in_namespace(namespace, prefix)]
    if t.versions.shared:
        # A namespace that comes into being now may stay: only of those that are locked everything can be seen.
        condition, bounds = conditions[0]
        found = yield from fetch(f"SELECT ns FROM {t.namespaces} WHERE {condition}", *bounds)
        names = sorted(name for (name,) in found)
        conditions = [(f"ns IN {marks}", values) for marks, values in lists(names)]
        if names:
            yield t.versions.lock(t.counters, names)
    results = yield [
        statement for condition, bounds in conditions for statement in _clear(t, condition, bounds, now_us)
    ]
    return sum(int(count) for ((count,),) in results[::_CLEARING])


_CLEARING = 6  # statements


def _clear(t: ItemTables, condition: str, bounds: Sequence[str], now_us: int) -> list[Statement]:
    return [
        rows(f"SELECT COUNT(*) FROM {t.items} WHERE {condition} AND {LIVE}", *bounds, now_us),
        *(
            change(
                f"DELETE FROM {table} WHERE ns_id IN (SELECT ns_id FROM {t.namespaces} WHERE {condition})",
                *bounds,
            )
            for table in (t.postings, t.vectors)
        ),
        change(
            f"DELETE FROM {t.terms} WHERE item_id IN (SELECT id FROM {t.items} WHERE {condition})", *bounds
        ),
        change(f"DELETE FROM {t.items} WHERE {condition}", *bounds),
        change(f"DELETE FROM {t.namespaces} WHERE {condition}", *bounds),
    ]


def purge(t: ItemTables, now_us: int) -> Plan[int]:
    """Delete what has expired; returns how many items that were.

    Where others write at the same time it ends after a portion, so that nobody waits for long: it is to be run again
    until there is nothing left.
    """
    count = 0
    while found := (yield from (_expired_locked if t.versions.shared else _expired)(t, now_us)):
        places = [Place(*row) for row in found]
        indexed = yield from indexed_terms(t, [place.item_id for place in places])
        yield [*removal(t, places, indexed), drop_empty(t, {place.ns for place in places})]
        count += len(found)
        if t.versions.shared:
            break
    return count


def _expired(t: ItemTables, now_us: int, within: str = "", names: Sequence[str] = ()) -> Plan[list[Row]]:
    return fetch(
        f"SELECT i.id, n.ns_id, i.ns FROM {t.items} i JOIN {t.namespaces} n ON n.ns = i.ns"
        f" WHERE i.expires_at <= ?{within} LIMIT ?",
        *(now_us, *names, PORTION),
    )


def _expired_locked(t: ItemTables, now_us: int) -> Plan[list[Row]]:
    """Some that have expired, in namespaces that are locked."""
    sql = f"SELECT ns FROM {t.items} WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
    while seen := (yield from fetch(sql, now_us, PORTION)):
        marks, names = next(lists(sorted({name for (name,) in seen})))
        yield t.versions.lock(t.counters, names)
        if found := (yield from _expired(t, now_us, f" AND i.ns IN {marks}", names)):
            return found
    return []

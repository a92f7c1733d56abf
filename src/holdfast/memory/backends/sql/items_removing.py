"""Items that go: with their words, their vector and, if nothing else is in it, their namespace."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.memory.backends.sql.items_rows import LIVE, PORTION, in_namespace
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_words import IndexedText, index_changes, indexed_terms
from holdfast.memory.backends.sql.plan import Plan, Statement, change, fetch, many, rows
from holdfast.memory.store_requests import Namespace


class Place(NamedTuple):
    """Where a row is: its number, the namespace's number and the namespace itself."""

    item_id: int
    ns_id: int
    ns: str


def remove(t: ItemTables, places: Sequence[Place]) -> Plan[None]:
    """Delete these rows. The namespaces that they leave empty are the caller's to drop."""
    indexed = yield from indexed_terms(t, [place.item_id for place in places])
    texts = [IndexedText(place.ns_id, place.item_id, indexed.get(place.item_id, {}), {}) for place in places]
    numbers = [(place.item_id,) for place in places]
    yield [
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
    condition, bounds = in_namespace(namespace, prefix)
    ((count,),), *_ = yield [
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
    return int(count)


def purge(t: ItemTables, now_us: int) -> Plan[int]:
    """Delete what has expired; returns how many items that were."""
    count = 0
    while True:
        found = yield from fetch(
            f"SELECT i.id, n.ns_id, i.ns FROM {t.items} i JOIN {t.namespaces} n ON n.ns = i.ns"
            " WHERE i.expires_at <= ? LIMIT ?",
            *(now_us, PORTION),
        )
        if not found:
            return count
        places = [Place(*row) for row in found]
        yield from remove(t, places)
        yield [drop_empty(t, {place.ns for place in places})]
        count += len(found)

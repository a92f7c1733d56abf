"""What embedding anew needs: which vectors a namespace has, giving them up for others, and what has none."""

from holdfast.memory.backends.sql.items_rows import COLUMNS, LIVE, key_of, stored_item
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_spaces import (
    NamespaceRow,
    namespace_rows,
    select_first_space,
    select_namespaces,
)
from holdfast.memory.backends.sql.plan import Plan, change, fetch
from holdfast.memory.encoding import encode_id
from holdfast.memory.namespaces import below
from holdfast.memory.store_requests import Namespace, ScanRequest, StoredItem
from holdfast.memory.vectors import VectorSpace


def space_of(t: ItemTables, namespace: Namespace, prefix: bool) -> Plan[VectorSpace | None]:
    """See :meth:`StoreHooks._space_of`."""
    key = key_of(namespace)
    asked = [select_first_space(t, *below(key))] if prefix else select_namespaces(t, [key])
    found = namespace_rows((yield asked))
    return next((row.space for row in found.values()), None)


def change_space(t: ItemTables, namespace: Namespace, space: VectorSpace) -> Plan[int]:
    """See :meth:`StoreHooks._change_space`. ``removals`` tells those who hold vectors of it that they are gone."""
    key = key_of(namespace)
    # A writer that checked the old space is done, the next one sees the new one.
    locking = t.versions.lock(t.counters, [key])
    results = yield [*locking, *select_namespaces(t, [key])]
    row = namespace_rows(results[len(locking) :]).get(key)
    if row is None or row.space is None or row.space == space:
        return 0
    dimension, metric, embedder, _ = NamespaceRow(row.ns_id, row.ns, space).vector_columns()
    gone, _ = yield [
        change(f"DELETE FROM {t.vectors} WHERE ns_id = ?", row.ns_id),
        change(
            f"UPDATE {t.namespaces} SET dimension = ?, metric = ?, embedder = ?, removals = removals + 1"
            " WHERE ns_id = ?",
            *(dimension, metric, embedder, row.ns_id),
        ),
    ]
    return int(gone)


def without_vectors(t: ItemTables, request: ScanRequest) -> Plan[list[StoredItem]]:
    """See :meth:`StoreHooks._without_vectors`."""
    start, bounds = (
        ("", ()) if request.after is None else (" AND item_key > ?", (encode_id(request.after[1]),))
    )
    found = yield from fetch(
        f"SELECT {COLUMNS} FROM {t.items} WHERE ns = ?{start} AND {LIVE}"
        f" AND NOT EXISTS (SELECT 1 FROM {t.vectors} v WHERE v.item_id = {t.items}.id) ORDER BY item_key LIMIT ?",
        *(key_of(request.namespace), *bounds, request.now_us, request.limit),
    )
    return [stored_item(row) for row in found]

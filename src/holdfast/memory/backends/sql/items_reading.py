"""Items by place, by key, by age, by group; and the namespaces that hold some."""

from collections.abc import Callable, Sequence

from holdfast.memory.backends.sql.items_rows import (
    COLUMNS,
    GROUP,
    LIVE,
    NUMBERS,
    ORDINAL,
    PORTION,
    in_namespace,
    key_of,
    lists,
    namespace_of,
    narrowed,
    passes,
    stored_item,
)
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import HEAVY, LAST, Plan, Row, Statement, fetch, last, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.filters import compile_filter
from holdfast.memory.namespaces import below
from holdfast.memory.store_requests import KeptItem, Namespace, ScanRequest, StoredItem, Stretch
from holdfast.memory.validate import MAX_LIMIT

_LEAST_PORTION = 64
_BARE_COLUMNS = COLUMNS.replace("value, metadata", "'', ''")


def read(
    t: ItemTables, places: Sequence[tuple[Namespace, str]], now_us: int
) -> Plan[list[StoredItem | None]]:
    """The item at each place."""
    encoded = [(key_of(namespace), encode_id(key)) for namespace, key in places]
    keys: dict[str, list[str]] = {}
    for ns, key in dict.fromkeys(encoded):
        keys.setdefault(ns, []).append(key)
    results = yield [
        Statement(
            "rows",
            f"SELECT {COLUMNS} FROM {t.items} WHERE ns = ? AND item_key IN {marks} AND {LIVE}",
            (ns, *values, now_us),
            LAST,
        )
        for ns, wanted in keys.items()
        for marks, values in lists(wanted)
    ]
    found = {(row[0], row[1]): stored_item(row) for result in results for row in result}
    return [found.get(place) for place in encoded]


def read_kept(
    t: ItemTables, places: Sequence[tuple[Namespace, str]], now_us: int
) -> Plan[list[KeptItem | None]]:
    """The item at each place, with its vector and its expiry."""
    encoded = [(key_of(namespace), encode_id(key)) for namespace, key in places]
    keys: dict[str, list[str]] = {}
    for ns, key in dict.fromkeys(encoded):
        keys.setdefault(ns, []).append(key)
    columns = ", ".join(f"i.{column}" for column in COLUMNS.split(", "))
    results = yield [
        rows(
            f"SELECT i.expires_at, v.vector, {columns} FROM {t.items} i LEFT JOIN {t.vectors} v ON v.item_id = i.id"
            f" WHERE i.ns = ? AND i.item_key IN {marks} AND {LIVE}",
            *(ns, *values, now_us),
        )
        for ns, wanted in keys.items()
        for marks, values in lists(wanted)
    ]
    found = {
        (row[2], row[3]): KeptItem(stored_item(row[2:]), row[0], None if row[1] is None else bytes(row[1]))
        for result in results
        for row in result
    }
    return [found.get(place) for place in encoded]


def scan(t: ItemTables, request: ScanRequest) -> Plan[list[StoredItem]]:
    """See :class:`ScanRequest`. With a filter, portions are read until enough items pass."""
    portion = _by_key(t, request) if request.order == "key" else _by_version(t, request)
    size = min(max(2 * request.limit, _LEAST_PORTION), PORTION)
    found: list[StoredItem] = []
    before: Row | None = None
    while len(found) < request.limit:
        wanted = size if request.filter.conditions else request.limit
        part = yield from portion(before, wanted)
        found += [item for item in map(stored_item, part) if passes(request.filter, item)]
        if len(part) < wanted:
            break
        before, size = part[-1], PORTION
    return found[: request.limit]


_Portion = Callable[[Row | None, int], Plan[list[Row]]]


def _by_key(t: ItemTables, request: ScanRequest) -> _Portion:
    low, high = below(key_of(request.namespace))
    start = None if request.after is None else (key_of(request.after[0]), encode_id(request.after[1]))
    columns, (extra, params) = _columns(request), narrowed(t, request.filter)

    def select(condition: str, bounds: tuple[str, ...], limit: int) -> Plan[list[Row]]:
        return _read(
            request,
            f"SELECT {columns} FROM {t.items} WHERE {condition}{extra} AND {LIVE} ORDER BY ns, item_key LIMIT ?",
            *(*bounds, *params, request.now_us, limit),
        )

    def portion(before: Row | None, limit: int) -> Plan[list[Row]]:
        place = start if before is None else (before[0], before[1])
        if place is None or place[0] < low:
            return (yield from select(*in_namespace(request.namespace, request.prefix), limit))
        # First the rest of the namespace of the last item, then those behind it: each is a range of the index.
        found: list[Row] = []
        if place[0] == low or (request.prefix and place[0] < high):
            found = yield from select("ns = ? AND item_key > ?", place, limit)
        if request.prefix and len(found) < limit:
            found += yield from select("ns > ? AND ns < ?", (place[0], high), limit - len(found))
        return found

    return portion


def _by_version(t: ItemTables, request: ScanRequest) -> _Portion:
    newest = request.order == "newest"
    sign, direction = ("<", "DESC") if newest else (">", "ASC")
    condition, bounds = in_namespace(request.namespace, request.prefix)
    columns, (extra, params) = _columns(request), narrowed(t, request.filter)

    settling = t.versions.settle(t.counters, key_of(request.namespace)) if newest and request.prefix else []

    def portion(before: Row | None, limit: int) -> Plan[list[Row]]:
        bound = request.version if before is None else before[-1]
        if settling and bound is None:
            # From here a listing goes down: what is committed from now on must have a version above its beginning.
            *_, ((highest,),) = yield last([*settling, t.versions.newest(t.counters)])
            bound = (highest or 0) + 1
        beyond, bound_params = ("", ()) if bound is None else (f" AND version {sign} ?", (bound,))
        where = f"{condition}{beyond}{extra} AND {LIVE} ORDER BY version {direction} LIMIT ?"
        values = (*bounds, *bound_params, *params, request.now_us, limit)
        if not request.prefix:
            return (yield from _read(request, f"SELECT {columns} FROM {t.items} WHERE {where}", *values))
        # Many namespaces are sorted by the numbers in the index; only then are items read.
        numbers = yield from fetch(f"SELECT id FROM {t.items} WHERE {where}", *values)
        results = yield [
            rows(f"SELECT {columns} FROM {t.items} WHERE id IN {marks}", *wanted)
            for marks, wanted in lists([number for (number,) in numbers])
        ]
        found = [row for result in results for row in result]
        return sorted(found, key=lambda row: int(row[-1]), reverse=newest)

    return portion


def _read(request: ScanRequest, sql: str, *params: object) -> Plan[list[Row]]:
    """Rows of items: to test many of them takes time, and others may follow; without a filter they are all."""
    (found,) = yield [Statement("rows", sql, params, HEAVY if request.filter.conditions else LAST)]
    return list(found)


def _columns(request: ScanRequest) -> str:
    return _BARE_COLUMNS if request.keys_only and not request.filter.conditions else COLUMNS


def stretches(
    t: ItemTables, namespace: Namespace, wanted: Sequence[Stretch], now_us: int
) -> Plan[list[StoredItem]]:
    """The items at these places of groups."""
    ns = key_of(namespace)
    indexed = [each for each in wanted if within_bounds(each)]
    results = yield [
        rows(
            f"SELECT {COLUMNS} FROM {t.items}"
            f" WHERE ns = ? AND group_key = ? AND ordinal >= ? AND ordinal <= ? AND {LIVE}",
            *(ns, encode_id(group), ordinal - window, ordinal + window, now_us),
        )
        for group, ordinal, window in indexed
    ]
    found = [stored_item(row) for result in results for row in result]
    for group, ordinal, window in wanted if len(indexed) < len(wanted) else ():
        if not within_bounds((group, ordinal, window)):
            span = {"$gte": ordinal - window, "$lte": ordinal + window}
            condition = compile_filter({GROUP: group, ORDINAL: span})
            found += yield from scan(t, ScanRequest(namespace, False, condition, MAX_LIMIT, now_us))
    return found


def within_bounds(stretch: tuple[str, int, int]) -> bool:
    """Whether the index of groups holds all its places."""
    _, ordinal, window = stretch
    return ordinal - window in NUMBERS and ordinal + window in NUMBERS


def namespaces(
    t: ItemTables, prefix: Namespace | None, limit: int, after: Namespace | None, now_us: int
) -> Plan[list[Namespace]]:
    """Those with unexpired items, by their keys."""
    tests: list[str] = []
    params: list[object] = []
    if prefix is not None:
        tests.append("n.ns >= ? AND n.ns < ?")
        params += below(key_of(prefix))
    if after is not None:
        tests.append("n.ns > ?")
        params.append(key_of(after))
    tests.append(f"EXISTS (SELECT 1 FROM {t.items} i WHERE i.ns = n.ns AND {LIVE})")
    sql = f"SELECT n.ns FROM {t.namespaces} n WHERE {' AND '.join(tests)} ORDER BY n.ns LIMIT ?"
    (found,) = yield last([rows(sql, *params, now_us, limit)])
    return [namespace_of(ns) for (ns,) in found]

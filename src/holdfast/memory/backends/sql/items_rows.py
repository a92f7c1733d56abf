"""What the plans of a store share: rows as items, lists of values in SQL, and the walk down a ranking."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from holdfast.core import codec
from holdfast.memory.backends.sql.items_documents import contained
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, heavy, last, rows
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.filters import Filter
from holdfast.memory.namespaces import below, decode_namespace, encode_namespace
from holdfast.memory.store_requests import Namespace, StoredItem
from holdfast.memory.validate import MAX_ID_CHARACTERS

V = TypeVar("V")

COLUMNS = "ns, item_key, value, metadata, created_at, updated_at, version"
LIVE = "(expires_at IS NULL OR expires_at > ?)"
PORTION = 512
GROUP, ORDINAL = "group", "ordinal"
"""The keys of metadata that have columns of their own: `neighbours` asks for them."""
NUMBERS = range(-(2**63), 2**63)
"""What a column of numbers holds."""
_LIST_SIZES = (1, 4, 16, 48, 64, 256)

namespace_of = lru_cache(maxsize=1024)(decode_namespace)
key_of = lru_cache(maxsize=1024)(encode_namespace)


def stored_item(row: Row) -> StoredItem:
    """The item of a row with `COLUMNS`."""
    ns, key, value, metadata, created_us, updated_us, version = row
    return StoredItem(namespace_of(ns), decode_id(key), value, metadata, created_us, updated_us, version)


def passes(condition: Filter, item: StoredItem) -> bool:
    """Whether an item passes the filter."""
    if not condition.conditions:
        return True
    place = f"{item.namespace!r} {item.key!r}"
    metadata = codec.loads(item.metadata, place=f"metadata of {place}")
    value = codec.loads(item.value, place=f"value of {place}") if condition.needs_value else None
    return condition(metadata, value)


def group_key(group: object) -> str | None:
    """What the column of groups holds for that value in the metadata: ``None`` for what no index takes."""
    return encode_id(group) if type(group) is str and 0 < len(group) <= MAX_ID_CHARACTERS else None


def narrowed(t: ItemTables, condition: Filter) -> tuple[str, tuple[Any, ...]]:
    """What of a filter the database can answer, as a condition; all of it is tested on the items."""
    if not condition.conditions:
        return "", ()
    for test in condition.conditions:
        if (test.source, test.path, test.op) == ("metadata", (GROUP,), "$eq"):
            key = group_key(test.operand)
            return ("", ()) if key is None else (" AND group_key = ?", (key,))
    if t.documents is not None and (wanted := contained(condition)) is not None:
        contains, values = t.dialect.contains("document", wanted)
        return f" AND (document IS NULL OR {contains})", values
    return "", ()


def in_namespace(namespace: Namespace, prefix: bool) -> tuple[str, tuple[str, ...]]:
    """A condition on ``ns``, and its parameters."""
    key = key_of(namespace)
    return ("ns >= ? AND ns < ?", below(key)) if prefix else ("ns = ?", (key,))


def lists(values: Sequence[V]) -> Iterator[tuple[str, list[V]]]:
    """The values in portions, each with the text of its ``IN`` list.

    A portion is filled up with its last value to one of a few lengths, so that a database sees few different
    statements and keeps them prepared.
    """
    most = _LIST_SIZES[-1]
    for start in range(0, len(values), most):
        portion = list(values[start : start + most])
        size = next(size for size in _LIST_SIZES if size >= len(portion))
        portion += portion[-1:] * (size - len(portion))
        yield f"({', '.join('?' * size)})", portion


def select_items(
    t: ItemTables, numbers: Sequence[int], now_us: int, extra: str = "", params: Sequence[Any] = ()
) -> list[Statement]:
    """Queries for those of the numbered items that live: the number, then the columns."""
    return [
        rows(
            f"SELECT id, {COLUMNS} FROM {t.items} WHERE id IN {marks}{extra} AND {LIVE}",
            *(*values, *params, now_us),
        )
        for marks, values in lists(numbers)
    ]


def best_items(
    t: ItemTables, ranking: Iterable[int], limit: int, condition: Filter, now_us: int
) -> Plan[dict[int, StoredItem]]:
    """The first ``limit`` items of a ranking of numbers that live and pass, in its order."""
    found: dict[int, StoredItem] = {}
    numbers = iter(ranking)
    extra, params = narrowed(t, condition)
    portion = min(limit, PORTION) if not condition.conditions else min(max(2 * limit, 64), PORTION)
    while len(found) < limit and (wanted := list(islice(numbers, portion))):
        asked = select_items(t, wanted, now_us, extra, params)
        results = yield heavy(asked) if condition.conditions else last(asked)
        by_number = {row[0]: row[1:] for result in results for row in result}
        for number in wanted:
            if number in by_number and passes(condition, item := stored_item(by_number[number])):
                found[number] = item
                if len(found) == limit:
                    break
        portion = PORTION
    return found

"""Puts and deletes: all of a request in one transaction, whatever their number, in a handful of statements."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from holdfast.core import codec
from holdfast.memory.backends.sql.items_removing import Place, drop_empty, remove, vectors_went
from holdfast.memory.backends.sql.items_rows import GROUP, ORDINAL, group_key, key_of, lists
from holdfast.memory.backends.sql.items_schema import VERSIONS, ItemTables
from holdfast.memory.backends.sql.items_spaces import NamespaceRow, namespace_rows, select_namespaces
from holdfast.memory.backends.sql.items_words import (
    IndexedText,
    count_terms,
    index_changes,
    indexed_terms,
    mark_after_write,
    select_mark,
)
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, change, many, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.store_requests import ItemPut, WriteRequest

NUMBERS = range(-(2**63), 2**63)


@dataclass(slots=True)
class _Target:
    """An item that a request is about: what is there, and then what will be there."""

    ns: str
    key: str
    row_id: int | None = None  # of the row that is there, expired or not
    version: int = 0
    created_us: int = 0
    put: ItemPut | None = None
    touched: bool = False


_Targets = dict[tuple[str, str], _Target]


def write(t: ItemTables, request: WriteRequest) -> Plan[list[int]]:
    """See :meth:`StoreHooks._write`."""
    targets: _Targets = {}
    for wanted in (*request.require, *request.ops):
        place = key_of(wanted.namespace), encode_id(wanted.key)
        targets.setdefault(place, _Target(*place))
    puts = sum(isinstance(op, ItemPut) for op in request.ops)
    counting = [*take_versions(t, puts), select_mark(t)] if request.ops else []
    spaces = select_namespaces(t, sorted({ns for ns, _ in targets}))
    results = yield [*counting, *spaces, *_select_targets(t, targets)]
    namespaces = namespace_rows(results[len(counting) : len(counting) + len(spaces)])
    _fill(targets, results[len(counting) + len(spaces) :], request.now_us)
    _check(targets, namespaces, request)
    if not request.ops:
        return []
    ((last,),), ((mark,),) = results[1:3]
    answers = _apply(targets, request, last - puts)
    yield from _store(t, [target for target in targets.values() if target.touched], namespaces, request)
    if puts and (marking := mark_after_write(t, mark, first=last == puts)):
        yield marking
    return answers


def take_versions(t: ItemTables, count: int) -> list[Statement]:
    """The next versions; the last of them is the answer to the second. From here on, other writers wait."""
    return [
        change(f"UPDATE {t.counters} SET value = value + ? WHERE name = ?", count, VERSIONS),
        rows(f"SELECT value FROM {t.counters} WHERE name = ?", VERSIONS),
    ]


def _select_targets(t: ItemTables, targets: _Targets) -> list[Statement]:
    keys: dict[str, list[str]] = {}
    for ns, key in targets:
        keys.setdefault(ns, []).append(key)
    return [
        rows(
            f"SELECT ns, item_key, id, version, created_at, expires_at FROM {t.items}"
            f" WHERE ns = ? AND item_key IN {marks}",
            *(ns, *values),
        )
        for ns, wanted in keys.items()
        for marks, values in lists(wanted)
    ]


def _fill(targets: _Targets, results: Iterable[Iterable[Row]], now_us: int) -> None:
    for result in results:
        for ns, key, row_id, version, created_us, expires_us in result:
            target = targets[ns, key]
            target.row_id = row_id
            if expires_us is None or expires_us > now_us:
                target.version, target.created_us = version, created_us


def _check(targets: _Targets, namespaces: dict[str, NamespaceRow], request: WriteRequest) -> None:
    for need in request.require:
        actual = targets[key_of(need.namespace), encode_id(need.key)].version
        if actual != need.version:
            raise need.conflict(actual)
    if request.space is None:
        return
    for op in request.ops:
        row = namespaces.get(key_of(op.namespace))
        if row is not None and isinstance(op, ItemPut) and op.vector is not None:
            request.space.check(row.space, op.namespace)


def _apply(targets: _Targets, request: WriteRequest, last: int) -> list[int]:
    """Do the writes, in order, in memory; returns the answers."""
    answers: list[int] = []
    for op in request.ops:
        target = targets[key_of(op.namespace), encode_id(op.key)]
        target.touched = True
        if isinstance(op, ItemPut):
            last += 1
            if not target.version:
                target.created_us = request.now_us
            target.version, target.put = last, op
            answers.append(last)
        else:
            answers.append(target.version)
            target.version, target.put = 0, None
    return answers


def _store(
    t: ItemTables, targets: list[_Target], namespaces: dict[str, NamespaceRow], request: WriteRequest
) -> Plan[None]:
    gone = [
        Place(target.row_id, namespaces[target.ns].ns_id, target.ns)
        for target in targets
        if target.put is None and target.row_id is not None
    ]
    if gone:
        yield from remove(t, gone)
    written = [target for target in targets if target.put is not None]
    if written:
        yield from _store_puts(t, written, namespaces, request)
    if gone:
        yield [drop_empty(t, {place.ns for place in gone})]


def _store_puts(
    t: ItemTables, written: list[_Target], namespaces: dict[str, NamespaceRow], request: WriteRequest
) -> Plan[None]:
    there = [target.row_id for target in written if target.row_id is not None]
    before = (yield from indexed_terms(t, there)) if there else {}
    statements = _namespace_changes(t, written, namespaces, request)
    texts: list[IndexedText] = []
    new_rows: list[tuple[object, ...]] = []
    changed_rows: list[tuple[object, ...]] = []
    for target in written:
        assert target.put is not None
        terms = count_terms(target.put.text)
        values = (*_values(target, terms.total()), request.now_us)
        if target.row_id is None:
            target.row_id = target.version
            new_rows.append((*values, target.created_us, target.ns, target.key, target.row_id))
        else:
            changed_rows.append((*values, target.created_us, target.row_id))
        ns_id = namespaces[target.ns].ns_id
        texts.append(IndexedText(ns_id, target.row_id, before.get(target.row_id, {}), terms))
    columns = "version, expires_at, length, group_key, ordinal, metadata, value, updated_at, created_at"
    if new_rows:
        sql = f"INSERT INTO {t.items} ({columns}, ns, item_key, id) VALUES ({', '.join('?' * 12)})"
        statements.append(many(sql, new_rows))
    if changed_rows:
        assigned = ", ".join(f"{column} = ?" for column in columns.split(", "))
        statements.append(many(f"UPDATE {t.items} SET {assigned} WHERE id = ?", changed_rows))
    yield [*statements, *index_changes(t, texts), *_vector_changes(t, written, namespaces, there)]


def _values(target: _Target, length: int) -> tuple[object, ...]:
    put = target.put
    assert put is not None
    group, ordinal = _position(put.metadata)
    return target.version, put.expires_us, length, group, ordinal, put.metadata, put.value


def _position(metadata: str) -> tuple[str | None, int | None]:
    """The group and the place in it that `neighbours` asks for, if the metadata has them."""
    if f'"{GROUP}"' not in metadata:
        return None, None
    document = codec.loads(metadata)
    group, ordinal = group_key(document.get(GROUP)), document.get(ORDINAL)
    if group is None or type(ordinal) is not int or ordinal not in NUMBERS:
        return group, None
    return group, ordinal


def _namespace_changes(
    t: ItemTables, written: list[_Target], namespaces: dict[str, NamespaceRow], request: WriteRequest
) -> list[Statement]:
    """Note new namespaces, and vectors that come; ``namespaces`` is brought up to date."""
    new: dict[str, NamespaceRow] = {}
    changed: dict[str, NamespaceRow] = {}
    for target in written:
        row = namespaces.get(target.ns)
        if row is None:
            row = namespaces[target.ns] = new[target.ns] = NamespaceRow(target.version, target.ns)
        if target.put is not None and target.put.vector is not None:
            row = row.with_vector(request.space, target.version)
            namespaces[target.ns] = row
            (new if target.ns in new else changed)[target.ns] = row
    statements: list[Statement] = []
    if new:
        columns = "dimension, metric, embedder, vector_version, ns_id, ns, removals"
        sql = f"INSERT INTO {t.namespaces} ({columns}) VALUES (?, ?, ?, ?, ?, ?, 0)"
        statements.append(many(sql, [(*row.vector_columns(), row.ns_id, row.ns) for row in new.values()]))
    if changed:
        columns = "dimension = ?, metric = ?, embedder = ?, vector_version = ?"
        sql = f"UPDATE {t.namespaces} SET {columns} WHERE ns_id = ?"
        statements.append(many(sql, [(*row.vector_columns(), row.ns_id) for row in changed.values()]))
    return statements


def _vector_changes(
    t: ItemTables, written: list[_Target], namespaces: dict[str, NamespaceRow], there: Collection[int]
) -> Iterator[Statement]:
    there = frozenset(there)
    with_space = [target for target in written if namespaces[target.ns].space is not None]
    replaced = [target for target in with_space if target.row_id in there]
    if replaced:
        numbers = [(target.row_id,) for target in replaced]
        yield many(f"DELETE FROM {t.vectors} WHERE item_id = ?", numbers)
    # One that gets another vector has a newer version: only those that get none must be told of.
    lost = {
        namespaces[target.ns].ns_id
        for target in replaced
        if target.put is not None and target.put.vector is None
    }
    if lost:
        yield vectors_went(t, lost)
    added = [
        (target.row_id, namespaces[target.ns].ns_id, target.version, target.put.vector)
        for target in with_space
        if target.put is not None and target.put.vector is not None
    ]
    if added:
        yield many(f"INSERT INTO {t.vectors} (item_id, ns_id, version, vector) VALUES (?, ?, ?, ?)", added)

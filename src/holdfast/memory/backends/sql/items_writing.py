"""Puts and deletes: all of a request in one transaction, whatever their number, in a handful of statements."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from holdfast.core import codec
from holdfast.memory.backends.sql.items_documents import document
from holdfast.memory.backends.sql.items_removing import Place, drop_empty, items_went, removal
from holdfast.memory.backends.sql.items_rows import GROUP, NUMBERS, ORDINAL, group_key, key_of, lists
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_spaces import NamespaceRow, namespace_rows, select_namespaces
from holdfast.memory.backends.sql.items_words import (
    Counts,
    IndexedText,
    count_terms,
    index_changes,
    indexed_terms,
    mark_after_write,
    select_mark,
    terms_by_item,
)
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, last, many, rows
from holdfast.memory.encoding import encode_id
from holdfast.memory.store_requests import ItemPut, WriteRequest

_COLUMNS = "version, expires_at, length, group_key, ordinal, metadata, value, updated_at, created_at"


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
    names = sorted({ns for ns, _ in targets})
    asked = (
        t.versions.take(t.counters, names, puts) if request.ops else t.versions.lock(t.counters, names),
        [select_mark(t)],
        select_namespaces(t, names),
        _select_targets(t, targets),
        _select_terms(t, targets) if t.versions.shared else [],
    )
    counted, ((((mark,),),)), spaces, found, terms = _parts((yield [*chain(*asked)]), asked)
    namespaces = namespace_rows(spaces)
    _fill(targets, found, request.now_us)
    _check(targets, namespaces, request)
    if not request.ops:
        return []
    versions = t.versions.taken(counted, puts)
    answers = _apply(targets, request, iter(versions))
    touched = [target for target in targets.values() if target.touched]
    there = [target.row_id for target in touched if target.row_id is not None]
    if t.versions.shared:
        before = terms_by_item(terms)
    else:
        before = (yield from indexed_terms(t, there)) if there else {}
    statements = _changes(t, touched, namespaces, request, before)
    if puts:
        statements += mark_after_write(t, mark, first=versions[0] == 1)
    if statements:
        yield last(statements)
    return answers


def _parts(results: list[Any], asked: Iterable[list[Statement]]) -> list[list[Any]]:
    """The answers to each list of statements."""
    answers = iter(results)
    return [list(islice(answers, len(statements))) for statements in asked]


def _select_targets(t: ItemTables, targets: _Targets) -> list[Statement]:
    sql = f"SELECT ns, item_key, id, version, created_at, expires_at FROM {t.items} WHERE ns = ? AND item_key IN "
    return [rows(sql + marks, *values) for marks, values in _key_lists(targets)]


def _select_terms(t: ItemTables, targets: _Targets) -> list[Statement]:
    """What is there is indexed with, asked for together with it: one round trip less than asking for it then."""
    sql = f"SELECT item_id, terms FROM {t.terms} WHERE item_id IN"
    items = f"SELECT id FROM {t.items} WHERE ns = ? AND item_key IN"
    return [rows(f"{sql} ({items} {marks})", *values) for marks, values in _key_lists(targets)]


def _key_lists(targets: _Targets) -> Iterator[tuple[str, list[str]]]:
    """The text of a list of keys, and a namespace with as many keys of it."""
    keys: dict[str, list[str]] = {}
    for ns, key in targets:
        keys.setdefault(ns, []).append(key)
    for ns, wanted in keys.items():
        for marks, values in lists(wanted):
            yield marks, [ns, *values]


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


def _apply(targets: _Targets, request: WriteRequest, versions: Iterator[int]) -> list[int]:
    """Do the writes, in order, in memory; returns the answers."""
    answers: list[int] = []
    for op in request.ops:
        target = targets[key_of(op.namespace), encode_id(op.key)]
        target.touched = True
        if isinstance(op, ItemPut):
            if not target.version:
                target.created_us = request.now_us
            if op.times is not None:
                target.created_us = op.times[0]
            target.version, target.put = next(versions), op
            answers.append(target.version)
        else:
            answers.append(target.version)
            target.version, target.put = 0, None
    return answers


def _changes(
    t: ItemTables,
    targets: list[_Target],
    namespaces: dict[str, NamespaceRow],
    request: WriteRequest,
    before: dict[int, Counts],
) -> list[Statement]:
    """Statements that make of what is there what will be there; ``before``: what it is indexed with."""
    gone = [
        Place(target.row_id, namespaces[target.ns].ns_id, target.ns)
        for target in targets
        if target.put is None and target.row_id is not None
    ]
    statements = removal(t, gone, before) if gone else []
    written = [target for target in targets if target.put is not None]
    if written:
        statements += _put_changes(t, written, namespaces, request, before)
    if gone:
        statements.append(drop_empty(t, {place.ns for place in gone}))
    return statements


def _put_changes(
    t: ItemTables,
    written: list[_Target],
    namespaces: dict[str, NamespaceRow],
    request: WriteRequest,
    before: dict[int, Counts],
) -> list[Statement]:
    there = [target.row_id for target in written if target.row_id is not None]
    statements = _namespace_changes(t, written, namespaces, request)
    texts: list[IndexedText] = []
    new_rows: list[tuple[object, ...]] = []
    changed_rows: list[tuple[object, ...]] = []
    for target in written:
        assert target.put is not None
        terms = count_terms(target.put.text)
        updated_us = request.now_us if target.put.times is None else target.put.times[1]
        values = (*_values(t, target, terms.total()), updated_us)
        if target.row_id is None:
            target.row_id = target.version
            new_rows.append((*values, target.created_us, target.ns, target.key, target.row_id))
        else:
            changed_rows.append((*values, target.created_us, target.row_id))
        ns_id = namespaces[target.ns].ns_id
        texts.append(IndexedText(ns_id, target.row_id, before.get(target.row_id, {}), terms))
    columns = _COLUMNS if t.documents is None else f"document, {_COLUMNS}"
    if new_rows:
        marks = ", ".join("?" * len(new_rows[0]))
        sql = f"INSERT INTO {t.items} ({columns}, ns, item_key, id) VALUES ({marks})"
        statements.append(many(sql, new_rows))
    if changed_rows:
        assigned = ", ".join(f"{column} = ?" for column in columns.split(", "))
        statements.append(many(f"UPDATE {t.items} SET {assigned} WHERE id = ?", changed_rows))
    return [*statements, *index_changes(t, texts), *_vector_changes(t, written, namespaces, there)]


def _values(t: ItemTables, target: _Target, length: int) -> tuple[object, ...]:
    put = target.put
    assert put is not None
    group, ordinal = _position(put.metadata)
    values = target.version, put.expires_us, length, group, ordinal, put.metadata, put.value
    if t.documents is None:
        return values
    found = document(put.metadata)
    return (None if found is None else t.dialect.bind_document(found), *values)


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
        yield items_went(t, lost)
    added = [
        (target.row_id, namespaces[target.ns].ns_id, target.version, target.put.vector)
        for target in with_space
        if target.put is not None and target.put.vector is not None
    ]
    if added:
        yield many(f"INSERT INTO {t.vectors} (item_id, ns_id, version, vector) VALUES (?, ?, ?, ?)", added)

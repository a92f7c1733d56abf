"""Writes to a Chroma collection, each within the lock: read what there is, then one upsert that makes it so.

What is removed is first marked as gone, in that same upsert, then removed: a process that is killed in between leaves
marks that nobody sees, and that the next purge sweeps. The last item of a namespace takes the namespace's record along.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from holdfast.memory.backends import chroma_rows as rows
from holdfast.memory.backends.chroma_client import ChromaCollection
from holdfast.memory.backends.chroma_rows import COUNTER, Head, NamespaceInfo, Record
from holdfast.memory.store_requests import ItemDelete, ItemPut, KeptItem, Namespace, StoredItem, WriteRequest
from holdfast.memory.vectors import VectorSpace


@dataclass(slots=True)
class _Draft:
    """What a write found, and what it changes."""

    found: Mapping[str, Record]
    counter: Head
    changed: dict[str, Record] = field(default_factory=dict)

    def now(self, id: str) -> Record | None:
        """The record as this write has it so far."""
        return self.changed.get(id) or self.found.get(id)

    def next_version(self) -> int:
        self.counter = self.counter._replace(changed=self.counter.changed + 1)
        return self.counter.changed

    def mark_gone(self, record: Record) -> None:
        self.changed[record.id] = rows.gone(record, self.next_version())

    @property
    def gone(self) -> list[str]:
        return [record.id for record in self.changed.values() if record.gone]


def write(collection: ChromaCollection, request: WriteRequest) -> list[int]:
    """See `StoreHooks._write`."""
    places = [(place.namespace, place.key) for place in (*request.require, *request.ops)]
    draft = _begin(collection, places)
    for need in request.require:
        actual = _live_version(draft, need.namespace, need.key, request.now_us)
        if actual != need.version:
            raise need.conflict(actual)
    puts = [op for op in request.ops if isinstance(op, ItemPut) and op.vector is not None]
    if request.space is not None:
        for put in puts:
            info = _info(draft, put.namespace)
            request.space.check(None if info is None else info.space, put.namespace)
    _sweep_old_life(collection, draft, request)
    versions = [_apply(draft, op, request.now_us) for op in request.ops]
    spaces = {} if request.space is None else {put.namespace: request.space for put in puts}
    _finish(collection, draft, {op.namespace for op in request.ops}, spaces)
    return versions


def clear(collection: ChromaCollection, keys: Iterable[str], now_us: int) -> int:
    """Remove everything of the namespaces with these keys; gives how many live items there were."""
    count = 0
    keys = list(keys)
    found = collection.get([COUNTER, *map(rows.namespace_id, keys)])
    draft = _Draft(found, rows.parse_counter(found.get(COUNTER)))
    ids: list[str] = []
    for key in keys:
        record = found.get(rows.namespace_id(key))
        if record is None or record.gone:
            continue
        count += len(collection.ids_at(key, alive_at=now_us))
        ids += collection.ids_at(key)
        draft.mark_gone(record)
    if draft.changed:
        _publish(collection, draft, removed_namespace=True)
        collection.remove([*ids, *draft.gone])
    return count


def purge(collection: ChromaCollection, now_us: int) -> int:
    """Remove expired items, and marks that were left; gives how many items there were."""
    expired = collection.expired(now_us)
    items = [record for record in expired if not record.gone]
    keys = {record.place for record in items}
    found = collection.get([COUNTER, *map(rows.namespace_id, keys)])
    draft = _Draft(found, rows.parse_counter(found.get(COUNTER)))
    for record in items:
        draft.mark_gone(record)
    _finish(collection, draft, {rows.namespace_of(key) for key in keys}, {})
    collection.remove([record.id for record in expired if record.gone])
    return len(items)


def change_space(collection: ChromaCollection, namespace: Namespace, space: VectorSpace) -> int:
    """See `StoreHooks._change_space`. One record is written: what items have by then is no longer a vector."""
    wanted = rows.namespace_id(rows.namespace_key(namespace))
    found = collection.get([COUNTER, wanted])
    draft = _Draft(found, rows.parse_counter(found.get(COUNTER)))
    info = _info(draft, namespace)
    if info is None or info.space is None or info.space == space:
        return 0
    there = [rows.parse_row(record) for record in collection.at(info.key) if not record.gone]
    version = draft.next_version()
    made = rows.namespace_record(NamespaceInfo(info.key, info.head._replace(changed=version), space, version))
    draft.changed[made.id] = made
    _publish(collection, draft, removed_namespace=False)
    return sum(row.vector is not None and row.item.version > info.vectors_since for row in there)


def namespace_info(collection: ChromaCollection, namespace: Namespace) -> NamespaceInfo | None:
    """What is recorded of a namespace; ``None`` if it holds nothing."""
    wanted = rows.namespace_id(rows.namespace_key(namespace))
    record = collection.get([wanted]).get(wanted)
    return None if record is None or record.gone else rows.parse_namespace(record)


def read(
    collection: ChromaCollection, places: Iterable[tuple[Namespace, str]], now_us: int
) -> Iterator[StoredItem | None]:
    """The live item at each place."""
    for kept in read_kept(collection, places, now_us):
        yield None if kept is None else kept.item


def read_kept(
    collection: ChromaCollection, places: Iterable[tuple[Namespace, str]], now_us: int
) -> Iterator[KeptItem | None]:
    """See `StoreHooks._read_kept`. Of a namespace that was cleared a moment ago, items may still be there."""
    wanted = [(rows.namespace_id(rows.namespace_key(ns)), rows.item_id(ns, key)) for ns, key in places]
    found = collection.get(chain.from_iterable(wanted))
    for of_namespace, of_item in wanted:
        info, record = found.get(of_namespace), found.get(of_item)
        if info is None or info.gone or record is None or not record.lives(now_us):
            yield None
            continue
        row = rows.parse_row(record)
        stale = row.item.version <= rows.parse_namespace(info).vectors_since
        yield KeptItem(row.item, row.expires_us, None if stale else row.vector)


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────


def _begin(collection: ChromaCollection, places: Iterable[tuple[Namespace, str]]) -> _Draft:
    """Read all that a write is about."""
    places = list(places)
    ids = [COUNTER, *(rows.item_id(*place) for place in places)]
    ids += {rows.namespace_id(rows.namespace_key(namespace)) for namespace, _ in places}
    found = collection.get(ids)
    # Items of a namespace without a record are of an earlier life of it: they are not there.
    dead = {
        rows.item_id(namespace, key)
        for namespace, key in places
        if _is_gone(found.get(rows.namespace_id(rows.namespace_key(namespace))))
    }
    kept = {name: record for name, record in found.items() if name not in dead}
    return _Draft(kept, rows.parse_counter(found.get(COUNTER)))


def _is_gone(record: Record | None) -> bool:
    return record is None or record.gone


def _info(draft: _Draft, namespace: Namespace) -> NamespaceInfo | None:
    record = draft.now(rows.namespace_id(rows.namespace_key(namespace)))
    return None if record is None or record.gone else rows.parse_namespace(record)


def _live_version(draft: _Draft, namespace: Namespace, key: str, now_us: int) -> int:
    record = draft.now(rows.item_id(namespace, key))
    return record.version if record is not None and record.lives(now_us) else 0


def _sweep_old_life(collection: ChromaCollection, draft: _Draft, request: WriteRequest) -> None:
    """A namespace that begins anew has nothing of its earlier life: a killed `clear` may have left some."""
    for namespace in {op.namespace for op in request.ops if isinstance(op, ItemPut)}:
        if _info(draft, namespace) is None:
            collection.remove(collection.ids_at(rows.namespace_key(namespace)))


def _apply(draft: _Draft, op: ItemPut | ItemDelete, now_us: int) -> int:
    """The version of the put, or the one that went."""
    record = draft.now(rows.item_id(op.namespace, op.key))
    before = record if record is not None and record.lives(now_us) else None
    if isinstance(op, ItemDelete):
        if record is not None:
            draft.mark_gone(record)
        return 0 if before is None else before.version
    created_us, updated_us = op.times or (
        now_us if before is None else rows.parse_item(before).created_us,
        now_us,
    )
    version = draft.next_version()
    item = StoredItem(op.namespace, op.key, op.value, op.metadata, created_us, updated_us, version)
    put = rows.item_record(item, op.expires_us, op.vector)
    draft.changed[put.id] = put
    return version


def _finish(
    collection: ChromaCollection,
    draft: _Draft,
    namespaces: Iterable[Namespace],
    spaces: Mapping[Namespace, VectorSpace],
) -> None:
    """Bring the records of the namespaces up to date, write, and remove what is gone."""
    removed_namespace = False
    by_place: dict[str, list[Record]] = {}
    for record in draft.changed.values():
        by_place.setdefault(record.place, []).append(record)
    for namespace in namespaces:
        key = rows.namespace_key(namespace)
        changed = by_place.get(key, [])
        if not changed:
            continue
        described = draft.now(rows.namespace_id(key))
        info = _info(draft, namespace)
        if described is not None and info is not None and _nothing_left(collection, key, changed):
            draft.mark_gone(described)
            removed_namespace = True
            continue
        if info is None and all(entry.gone for entry in changed):
            continue
        last = draft.counter.changed
        # A new life has seen a removal: who remembers an earlier one must look.
        removed = last if info is None or any(entry.gone for entry in changed) else info.head.removed
        space = (None if info is None else info.space) or spaces.get(namespace)
        since = 0 if info is None else info.vectors_since
        made = rows.namespace_record(NamespaceInfo(key, Head(last, removed), space, since))
        draft.changed[made.id] = made
    if draft.changed:
        _publish(collection, draft, removed_namespace=removed_namespace)
        if draft.gone:
            collection.remove(draft.gone)


def _publish(collection: ChromaCollection, draft: _Draft, *, removed_namespace: bool) -> None:
    """One upsert, after which all of it is visible. The counter and the namespaces are in its last part."""
    if removed_namespace:
        draft.counter = draft.counter._replace(removed=draft.counter.changed)
    items = [record for record in draft.changed.values() if record.place != rows.NAMESPACES]
    others = [record for record in draft.changed.values() if record.place == rows.NAMESPACES]
    counter = rows.counter_record(draft.counter)
    if (
        len(draft.changed) >= collection.batch_size
    ):  # more than one: versions must not repeat if we don't get to the end
        collection.upsert([counter])
    collection.upsert([*items, *others, counter])


def _nothing_left(collection: ChromaCollection, key: str, changed: list[Record]) -> bool:
    """Whether a namespace is empty after these changes, expired items counted as there."""
    if not all(record.gone for record in changed):
        return False
    going = {record.id for record in changed}
    return going.issuperset(collection.ids_at(key, limit=len(going) + 1))

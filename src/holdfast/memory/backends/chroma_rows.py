"""Items of a store as records of a Chroma collection: the format, pure.

Every record has the same four fields: ``place``, the namespace that it belongs to; ``version``; ``expires``, far away
for what stays; and ``data``, JSON text with the rest. A record whose ``data`` is empty is gone, and about to be
removed. Three kinds share the collection: items; one record for each namespace that holds items, at the place
`NAMESPACES`; and the counter that versions come from.

Ids are digests: Chroma keeps the ids of removed records for a while, and a digest says nothing of what it was.
"""

import json
from base64 import b64decode, b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from holdfast.core.errors import Corrupt
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.namespaces import decode_namespace, encode_namespace
from holdfast.memory.store_requests import Namespace, StoredItem
from holdfast.memory.store_rows import Row
from holdfast.memory.vectors import Metric, VectorSpace

NEVER = 2**62
"""When an item without a time to live expires."""
COUNTER = "counter"
"""The counter's id, and its place."""
NAMESPACES = "namespaces"
"""The place of the records of namespaces. No namespace's key is like it: those end in ``/``."""

namespace_key = lru_cache(maxsize=1024)(encode_namespace)
namespace_of = lru_cache(maxsize=1024)(decode_namespace)


class Record(NamedTuple):
    """A record of the collection."""

    id: str
    place: str
    version: int
    expires_us: int
    data: str

    @property
    def gone(self) -> bool:
        return not self.data

    def lives(self, now_us: int) -> bool:
        return not self.gone and self.expires_us > now_us


class Head(NamedTuple):
    """What says whether a place has changed: the version of its last change, and of its last removal."""

    changed: int
    removed: int


class NamespaceInfo(NamedTuple):
    """What is recorded of a namespace that holds items. Vectors of items up to ``vectors_since`` don't count: they
    are of another space."""

    key: str
    head: Head
    space: VectorSpace | None
    vectors_since: int = 0

    @property
    def namespace(self) -> Namespace:
        return namespace_of(self.key)


def item_id(namespace: Namespace, key: str) -> str:
    return "i" + _digest(namespace_key(namespace) + "\x00" + encode_id(key))


def namespace_id(key: str) -> str:
    """The id of the record of the namespace with that key."""
    return "n" + _digest(key)


def gone(record: Record, version: int) -> Record:
    """The record as one that is gone since that version: it has expired for ever, and holds nothing."""
    return record._replace(version=version, expires_us=0, data="")


# ── items ─────────────────────────────────────────────────────────────────────────────────────────────


def item_record(item: StoredItem, expires_us: int | None, vector: bytes | None) -> Record:
    fields = (
        encode_id(item.key),
        item.value,
        item.metadata,
        item.created_us,
        item.updated_us,
        None if vector is None else b64encode(vector).decode(),
    )
    return Record(
        id=item_id(item.namespace, item.key),
        place=namespace_key(item.namespace),
        version=item.version,
        expires_us=NEVER if expires_us is None else expires_us,
        data=json.dumps(fields, ensure_ascii=False),
    )


def parse_item(record: Record) -> StoredItem:
    return parse_row(record).item


def parse_row(record: Record) -> Row:
    fields = _fields(record, 6)
    try:
        key, value, metadata, created_us, updated_us, vector = fields
        item = StoredItem(
            namespace=namespace_of(record.place),
            key=decode_id(key),
            value=str(value),
            metadata=str(metadata),
            created_us=int(created_us),
            updated_us=int(updated_us),
            version=record.version,
        )
        packed = None if vector is None else b64decode(vector, validate=True)
    except (TypeError, ValueError) as error:
        raise _damaged(record) from error
    return Row(
        item, expires_us=None if record.expires_us == NEVER else record.expires_us, vector=packed, text=None
    )


# ── namespaces and the counter ────────────────────────────────────────────────────────────────────────


def namespace_record(info: NamespaceInfo) -> Record:
    space = info.space
    described = (
        None if space is None else [space.dimension, space.metric.value, space.embedder, info.vectors_since]
    )
    data = json.dumps([info.key, info.head.removed, described])  # ASCII: an embedder's name may hold anything
    return Record(namespace_id(info.key), NAMESPACES, info.head.changed, NEVER, data)


def parse_namespace(record: Record) -> NamespaceInfo:
    fields = _fields(record, 3)
    try:
        key, removed, described = fields
        head = Head(record.version, int(removed))
        if described is None:
            return NamespaceInfo(str(key), head, None)
        dimension, metric, embedder, since = described
        return NamespaceInfo(
            str(key), head, VectorSpace(int(dimension), Metric(metric), embedder), int(since)
        )
    except (TypeError, ValueError) as error:
        raise _damaged(record) from error


def counter_record(head: Head) -> Record:
    return Record(COUNTER, COUNTER, head.changed, NEVER, json.dumps([head.removed]))


def parse_counter(record: Record | None) -> Head:
    """The last version given, and the last with which the record of a namespace was removed."""
    if record is None:
        return Head(0, 0)
    (removed,) = _fields(record, 1)
    return Head(record.version, int(removed))


def _fields(record: Record, count: int) -> list[Any]:
    try:
        fields = json.loads(record.data)
    except ValueError as error:
        raise _damaged(record) from error
    if not isinstance(fields, list) or len(fields) != count:
        raise _damaged(record)
    return fields


def _damaged(record: Record) -> Corrupt:
    place = f"record {record.id} at {record.place!r}"
    return Corrupt(f"{place} of the Chroma collection is damaged", place=place)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()

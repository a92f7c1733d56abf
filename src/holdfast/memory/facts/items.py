"""Changes as items of a store: where they lie, under which key, and what is written there."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

from holdfast.core import codec
from holdfast.core.clock import from_us, to_us
from holdfast.memory.buckets import bucket_of
from holdfast.memory.facts.fold import is_naming
from holdfast.memory.facts.records import Change
from holdfast.memory.facts.words import plain, subject_of
from holdfast.memory.records import StoreItem

Namespace = tuple[str, ...]

NAMING = "names"
"""The group of all that can link two names: it is read before anything else."""
DECLARED = "declared"
"""The group of declarations, which belong to no user."""

_LONGEST_GROUP = 200
_OPTIONAL = ("targets", "sources", "author", "checkpoint", "reason")


PORTIONS = tuple((first + 8_192, 8_192) for first in range(0, 65_536, 16_384))
"""Middles and windows that cover all ordinals of a group, so that none of its readings is very long."""


class Place(NamedTuple):
    """Where a change lies within a user's facts: by subject and predicate, so that one index finds either.

    They are the ``group`` and the ``ordinal`` of `BaseStore.neighbours`. Predicates that share a number are told apart
    when they are read.
    """

    group: str
    ordinal: int
    predicate: str


def namespace_of(space: str, user_id: str | None) -> Namespace:
    """The facts of one user, ``None`` for those of nobody in particular."""
    return *bucket_of(space, user_id), "facts"


def shared_namespace(space: str) -> Namespace:
    """What holds for all users: the declarations."""
    return "memory", space, "shared", "facts"


def group_of(subject: str) -> str:
    """The group of a subject's facts."""
    name = subject_of(subject)
    return "s:" + (name if len(name) <= _LONGEST_GROUP else _digest(name))


def number_of(predicate: str) -> int:
    """The ordinal of a predicate: 16 bits."""
    return crc32(_bytes(predicate)) % 65_536


def place_of(change: Change) -> Place:
    """Where a stated fact or a declaration lies. What names other changes lies where they do."""
    if is_naming(change.predicate) and change.kind != "declare":
        return Place(NAMING, 0, change.predicate)
    group = DECLARED if change.kind == "declare" else group_of(change.subject)
    return Place(group, number_of(change.predicate), change.predicate)


def key_of_fact(change: Change) -> str:
    """The same statement from the same sources has the same key, whenever and however often it is written."""
    moments = (change.valid_from, change.valid_until, change.recorded_at if change.dated else None)
    when = [None if moment is None else to_us(moment) for moment in moments]
    occasion = [list(change.sources) or to_us(change.recorded_at), change.checkpoint]
    said = [subject_of(change.subject), change.predicate, plain(change.object), change.confidence]
    return _digest([said, when, occasion])


def key_of_mark(change: Change, before: Sequence[str]) -> str:
    """The same for two writers who see the same: ``before`` are the ids of those like it that are there already."""
    return _digest([change.kind, change.predicate, change.object, sorted(change.targets), sorted(before)])


def metadata_of(change: Change, places: Sequence[Place], index: int) -> dict[str, Any]:
    """What is written beside a change at one of its places; that at the first has them all."""
    group, ordinal, predicate = places[index]
    found: dict[str, Any] = {"group": group, "ordinal": ordinal, "predicate": predicate, "kind": change.kind}
    found["at"] = to_us(change.recorded_at)
    if change.kind == "add":
        found["confidence"] = change.confidence
        for name, moment in (("from", change.valid_from), ("until", change.valid_until)):
            found[name] = None if moment is None else to_us(moment)
    if change.dated:
        found["dated"] = True
    for name in _OPTIONAL:
        value = getattr(change, name)
        if value:
            found[name] = list(value) if isinstance(value, tuple) else value
    if index:
        found["copy_of"] = change.id
    elif len(places) > 1:
        found["places"] = [list(place) for place in places]
    return found


def value_of(change: Change) -> dict[str, str]:
    """What text search finds."""
    if change.kind == "add":
        return {"subject": change.subject, "predicate": change.predicate, "object": change.object}
    return {"object": change.object} if change.kind == "declare" else {}


def change_of(item: StoreItem) -> Change:
    """The change that an item holds."""
    data, value = item.metadata, item.value
    start, end = data.get("from"), data.get("until")
    named = data["kind"] in ("add", "declare")
    return Change(
        id=data.get("copy_of", item.key),
        kind=data["kind"],
        recorded_at=from_us(data["at"]),
        subject=value.get("subject", ""),
        predicate=data["predicate"] if named else "",
        object=value.get("object", ""),
        confidence=data.get("confidence", 0.0),
        valid_from=None if start is None else from_us(start),
        valid_until=None if end is None else from_us(end),
        dated=data.get("dated", False),
        targets=tuple(data.get("targets", ())),
        sources=tuple(data.get("sources", ())),
        author=data.get("author"),
        checkpoint=data.get("checkpoint"),
        reason=data.get("reason"),
    )


def places_of(item: StoreItem) -> list[Place]:
    """All places of a change, from the item at its first."""
    data = item.metadata
    given = data.get("places") or [[data["group"], data["ordinal"], data["predicate"]]]
    return [Place(*place) for place in given]


def _digest(content: Any) -> str:
    return hashlib.sha256(_bytes(codec.dumps(content))).hexdigest()[:32]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

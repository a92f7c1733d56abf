"""What recall reads of a memory beside its words, once for each item that is kept."""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.core import codec
from holdfast.memory.records import StoreItem
from holdfast.memory.store_requests import StoredItem, decode_items, decode_together
from holdfast.memory.text import value_text

Place = tuple[str, int]
"""A group and an ordinal in it."""

_TEXT_FIRST = '{"text":"'


class Note:
    """Where an item stands, who said it and when, as its metadata says; a field of another type is not given."""

    __slots__ = ("_words", "at", "confidence", "flat", "group", "item", "place", "speaker")

    def __init__(self, item: StoredItem, metadata: Any) -> None:
        self.item = item
        self._words: frozenset[str] | None = None
        self.flat: StoreItem | None = None
        given = metadata.get if type(metadata) is dict else {}.get
        group, ordinal, at = given("group"), given("ordinal"), given("at")
        speaker, confidence = given("speaker") or given("role"), given("confidence")
        self.group: str | None = group if type(group) is str else None
        self.place: Place | None = (group, ordinal) if type(group) is str and type(ordinal) is int else None
        self.speaker: str | None = speaker if type(speaker) is str else None
        self.at: int | None = at if type(at) is int else None
        self.confidence: float | None = (
            float(confidence) if isinstance(confidence, int | float) and 0 <= confidence <= 1 else None
        )

    @property
    def words(self) -> frozenset[str]:
        """The words of its text as they are written, but for their case."""
        if self._words is None:
            self._words = frozenset(_text(self.item.value).casefold().split())
        return self._words


def notes_of(items: Sequence[StoredItem]) -> list[Note]:
    """What is noted of each item; of those that have no note yet, their metadata is read."""
    try:
        return [item.note for item in items]
    except AttributeError:
        new = [item for item in items if not hasattr(item, "note")]
    for item, metadata in zip(new, decode_together([item.metadata for item in new]), strict=True):
        item.note = Note(item, metadata)
    return [item.note for item in items]


def decoded(items: Sequence[StoredItem]) -> list[StoreItem]:
    """The items as they are handed out, which is for their receiver to change: each time new ones.

    Most values and metadata hold nothing that could be changed inside: these are copied, sooner than they are read.
    """
    flat = [note.flat for note in notes_of(items)]
    new = [item for item, known in zip(items, flat, strict=True) if known is None]
    read = iter(decode_items(new) if new else ())
    found: list[StoreItem] = []
    for item, known in zip(items, flat, strict=True):
        if known is None:
            one = next(read)
            if _is_flat(one.value) and _is_flat(one.metadata):
                item.note.flat = _copied(one)
        else:
            one = _copied(known)
        found.append(one)
    return found


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def _is_flat(value: Any) -> bool:
    return type(value) is dict and _SCALARS.issuperset(map(type, value.values()))


def _copied(item: StoreItem) -> StoreItem:
    return StoreItem(
        item.namespace,
        item.key,
        dict(item.value),
        dict(item.metadata),
        item.created_at,
        item.updated_at,
        item.version,
    )


def _text(stored: str) -> str:
    # Most are as they are written.
    if stored.startswith(_TEXT_FIRST) and "\\" not in stored and "$" not in stored:
        return stored[len(_TEXT_FIRST) : stored.index('"', len(_TEXT_FIRST))]
    value = codec.loads(stored)
    text = value.get("text") if isinstance(value, dict) else None
    return text if isinstance(text, str) else value_text(value)

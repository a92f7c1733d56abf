"""What a validated store call asks of a backend, and what the backend answers.

Values and metadata are text of the codec here: encoded once on the way in, decoded on the way out, so that
what a caller holds is always a copy. Times are microseconds; an item has expired if ``expires_us <= now_us``.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from holdfast.core import codec
from holdfast.core.clock import from_us
from holdfast.core.errors import Conflict, Corrupt, HoldfastError
from holdfast.memory.filters import Filter
from holdfast.memory.records import SearchHit, StoreItem, TextCandidate, TextCandidates
from holdfast.memory.vectors import VectorSpace

T = TypeVar("T")

Namespace = tuple[str, ...]


class Noted:
    """Room for what a reader makes of an item: one that is kept between two searches need not be read again."""

    __slots__ = ("note",)
    note: Any


# Searches make many of these two: frozen ones would take six times as long to make. Nobody changes them.
@dataclass(slots=True)
class StoredItem(Noted):
    """An item as it is stored."""

    namespace: Namespace
    key: str
    value: str
    metadata: str
    created_us: int
    updated_us: int
    version: int

    def decode(self) -> StoreItem:
        metadata = self._loads("metadata", self.metadata)
        return self.made_of(self._loads("value", self.value), metadata)

    def made_of(self, value: Any, metadata: Any) -> StoreItem:
        """The item, where its parts have been read already, by the codec and for nobody else."""
        if not isinstance(metadata, dict):
            place = f"metadata of {self.namespace!r} {self.key!r}"
            raise Corrupt(f"{place} is not an object", place=place)
        created = from_us(self.created_us)
        updated = created if self.updated_us == self.created_us else from_us(self.updated_us)
        return StoreItem(self.namespace, self.key, value, metadata, created, updated, self.version)

    def _loads(self, part: str, text: str) -> Any:
        try:
            return codec.loads(text)
        except HoldfastError:  # its place is put into words only for the one that is damaged
            return codec.loads(text, place=f"{part} of {self.namespace!r} {self.key!r}")


def decode_items(items: Sequence[StoredItem]) -> list[StoreItem]:
    """The items, all of them read as one text: that takes half the time."""
    texts = [text for item in items for text in (item.value, item.metadata)]
    read = _loads_together(texts)
    if read is None:
        return [item.decode() for item in items]
    return [
        item.made_of(value, metadata)
        for item, value, metadata in zip(items, read[::2], read[1::2], strict=True)
    ]


def decode_together(texts: Sequence[str]) -> list[Any]:
    """What each of the texts says. If one is damaged, the error is its own."""
    read = _loads_together(texts)
    return [codec.loads(text) for text in texts] if read is None else read


def _loads_together(texts: Sequence[str]) -> list[Any] | None:
    with suppress(HoldfastError, TypeError):
        read = codec.loads(f"[{','.join(texts)}]")
        if type(read) is list and len(read) == len(texts):
            return read
    return None


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item with what belongs to it but isn't handed out with it: for moving it elsewhere as it is."""

    item: StoredItem
    expires_us: int | None = None
    vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class ItemPut:
    """Write an item. ``text`` is what text search looks into. Without ``vector`` it loses the one it had.

    ``times``: when it was created and last written, for one that comes from elsewhere.
    """

    namespace: Namespace
    key: str
    value: str
    metadata: str
    text: str
    expires_us: int | None = None
    vector: bytes | None = None
    times: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ItemDelete:
    """Delete an item."""

    namespace: Namespace
    key: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """An item must have this version, 0 if it must not exist. An expired item doesn't."""

    namespace: Namespace
    key: str
    version: int

    def conflict(self, actual: int) -> Conflict:
        """The error to raise when it has another."""
        return Conflict(
            f"item {self.key!r} in {self.namespace!r} has version {actual}, not {self.version} (0: absent)",
            expected=self.version,
            actual=actual,
        )


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """All or nothing: first every requirement is checked, then every write is done, in order.

    All places share the first part of their namespace. ``space`` is the store's, for puts with a vector.
    """

    ops: Sequence[ItemPut | ItemDelete]
    require: Sequence[Requirement]
    space: VectorSpace | None
    now_us: int


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """Unexpired items of a namespace (``prefix``: and of all below it) that pass the filter.

    ``order`` is ``"key"``: by encoded namespace, then key, after the place ``after`` if given; ``"newest"``:
    descending by version, below ``version`` if given; or ``"oldest"``: ascending, above ``version``. The
    limit counts items that pass. With ``keys_only`` value and metadata of the answer may be left empty.
    """

    namespace: Namespace
    prefix: bool
    filter: Filter
    limit: int
    now_us: int
    order: Literal["key", "newest", "oldest"] = "key"
    after: tuple[Namespace, str] | None = None
    version: int | None = None
    keys_only: bool = False


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Unexpired items that have at least one of the terms and pass the filter: the ``limit`` best by BM25."""

    namespace: Namespace
    prefix: bool
    terms: Sequence[str]
    filter: Filter
    limit: int
    now_us: int


@dataclass(slots=True)
class StoredCandidate:
    item: StoredItem
    frequencies: Mapping[str, int]
    length: int


@dataclass(frozen=True, slots=True)
class StoredCandidates:
    """Candidates in any order. The statistics are of all unexpired items looked through that have any term at
    all, whatever the filter; ``document_frequencies`` has every asked term, in the order asked."""

    candidates: Sequence[StoredCandidate]
    document_frequencies: Mapping[str, int]
    documents: int
    average_length: float

    def decode(self) -> TextCandidates:
        return TextCandidates(
            tuple(TextCandidate(c.item.decode(), c.frequencies, c.length) for c in self.candidates),
            self.document_frequencies,
            self.documents,
            self.average_length,
        )


class Stretch(NamedTuple):
    """The places of a group that are at most ``window`` away from ``ordinal``."""

    group: str
    ordinal: int
    window: int


Reading = Generator[Sequence[Stretch], Sequence[StoredItem], T]
"""Arithmetic on candidates: asks for the items of more places, receives them, and returns a value. It does no I/O."""
Reader = Callable[[StoredCandidates], Reading[T]]


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """Unexpired items of a namespace with an embedding that pass the filter: the ``limit`` nearest.

    Best first, of equally near ones the newest first; with ``threshold`` (already rounded to float32) only
    those with at least that score.
    """

    namespace: Namespace
    vector: bytes
    space: VectorSpace
    filter: Filter
    limit: int
    threshold: float | None
    now_us: int


@dataclass(frozen=True, slots=True)
class StoredHit:
    item: StoredItem
    score: float
    distance: float

    def decode(self) -> SearchHit:
        return SearchHit(self.item.decode(), self.score, self.distance)

"""States as a small head and append-only logs: pure.

The lists of a state (its messages, above all) grow at their end. Each list is kept in a *log*; a checkpoint knows a
list by its *path*: which logs to read, each up to which position. A save that appended writes what is new as one
*entry*, a line of JSON for each element; an edit starts a new log where the lists part, and the old path stays as it
was. A path may end inside an entry: what comes after is another checkpoint's.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple
from zlib import crc32

from holdfast.core.errors import Corrupt
from holdfast.core.messages import Message, encode_message
from holdfast.core.sequences import LazySequence
from holdfast.core.state import LOGGED_FIELDS, AgentState, encode_element, encode_head

MAX_SEGMENTS = 32
MAX_LINES = 256
LOGS_A_SAVE = 1024


class Segment(NamedTuple):
    """A list's positions up to ``end`` (from the end of the segment before) are in this log of this life."""

    life: bytes
    log: int
    end: int


Path = tuple[Segment, ...]


class Entry(NamedTuple):
    """New elements of a list, ready to be stored: ``size`` lines from ``position`` on."""

    life: bytes
    log: int
    position: int
    size: int
    searchable: int
    seal: int
    body: str


class KnownList(NamedTuple):
    """A stored list whose elements are at hand. ``at_end``: its last log ends there too, with that ``seal``."""

    path: Path
    elements: Sequence[Any]
    at_end: bool
    seal: int | None = None


class Parts(NamedTuple):
    """A state taken apart. ``encoders`` has for each list what gives the text of an element."""

    head: str
    lists: Mapping[str, Sequence[Any]]
    encoders: Mapping[str, Callable[[Any], str]]
    searchable: str | None = None


EMPTY = KnownList((), (), True)

_STATE_ENCODERS: Mapping[str, Callable[[Any], str]] = {
    name: encode_message if name == "messages" else partial(encode_element, name) for name in LOGGED_FIELDS
}


def split_state(state: AgentState) -> Parts:
    """An agent's state: its head, and the fields that grow."""
    values = state.__dict__
    lists = {}
    for name in LOGGED_FIELDS:
        if elements := values[name]:
            lists[name] = elements
    return _new(Parts, (encode_head(state), lists, _STATE_ENCODERS, "messages"))


# Named tuples on the way of every save are made like this: their own constructors take three times as long.
_new = tuple.__new__


def grow(known: KnownList, elements: Sequence[Any], place: "Place") -> tuple[KnownList, list[Entry]]:
    """The list after it became ``elements``, and the entries that must be written for it."""
    path, old, at_end, running = known
    shared, length = len(old), len(elements)
    if not begins_with(elements, old):
        shared = _common(old, elements)
        path, at_end = _cut(path, shared), False
    elif length == shared:
        return known, []
    if length == shared:
        return KnownList(path, elements, False), []
    life, log, encode, searchable = place
    if path and at_end and path[-1].life == life:
        log = path[-1].log
        path = path[:-1]
    else:
        running = None
    if len(path) >= MAX_SEGMENTS:
        log, path, shared, running = place.log, (), 0, None
    entries: list[Entry] = []
    for start in range(shared, length, MAX_LINES):
        added = elements[start : start + MAX_LINES]
        body = "\n".join(map(encode, added))
        running = seal_entry(running, start, body.encode())
        entries.append(_new(Entry, (life, log, start, len(added), searchable, running, body)))
    path = (*path, _new(Segment, (life, log, length)))
    return _new(KnownList, (path, elements, True, running)), entries


def begins_with(elements: Sequence[Any], start: Sequence[Any]) -> bool:
    """Whether the list is ``start``, or goes on after it."""
    length = len(start)
    if not length:
        return True
    if not (type(elements) is type(start) is tuple):
        known = elements.begins_with(start) if isinstance(elements, LazySequence) else None
        return tuple(elements[:length]) == tuple(start) if known is None else known
    if len(elements) < length or elements[length - 1] is not start[-1]:
        return elements[:length] == start
    if type(start[0]) is not Message:
        return elements[:length] == start
    # As below without a copy. Messages have no order, so tuples of them compare only where one begins the other;
    # elements that are the same object, which is nearly always all of them, are not even looked into.
    try:
        return start <= elements
    except TypeError:
        return False


class Place(NamedTuple):
    """Where a save writes new entries of one list: in this life, and in this log if it must open one."""

    life: bytes
    log: int
    encode: Callable[[Any], str]
    searchable: int


def seal_entry(before: int | None, start: int, body: bytes) -> int:
    """A checksum over a log up to and with this entry: one that was damaged, or is not in its place, is found out.

    ``before``: the seal of the entry before, ``None`` for the first one, which begins the log at ``start``. So a log
    can be checked as a whole: its seal is that of all bodies with line breaks between.
    """
    return crc32(body, start & 0xFFFFFFFF if before is None else crc32(b"\n", before))


def read_entries(rows: Sequence[tuple[int, int, int, str]], start: int, end: int, place: str) -> list[str]:
    """The lines of a log from ``start`` to ``end``, out of its rows ``(position, size, seal, body)``, in order.

    :class:`Corrupt` if they are not just what was stored.
    """
    lines: list[str] = []
    running: int | None = None
    for position, size, stored, body in rows:
        if position != start + len(lines):
            raise Corrupt(f"{place}: the entry at position {start + len(lines)} is missing", place=place)
        running = None if type(body) is not str else seal_entry(running, start, body.encode())
        if running is None or running != stored or body.count("\n") != size - 1:
            raise Corrupt(f"{place}: the entry at position {position} is not what was stored", place=place)
        lines += body.split("\n")
    if len(lines) < end - start:
        raise Corrupt(f"{place} has {start + len(lines)} of {end} entries", place=place)
    return lines[: end - start]


def read_joined(
    pieces: Sequence[tuple[bytes, int, int]], start: int, end: int
) -> list[tuple[bytes, int]] | None:
    """The same out of a few pieces of the log: all bodies with a line break between, the last seal, and its end.

    Texts with the number of their lines, or ``None`` if they are not just what was stored.
    """
    texts: list[tuple[bytes, int]] = []
    at, running = start, None
    for text, stored, after in pieces:
        if type(text) is not bytes:
            return None
        running = seal_entry(running, start, text)
        if running != stored or at + text.count(b"\n") + 1 != after:
            return None
        texts.append((text, min(after, end) - at))
        at = after
    return texts if at >= end else None


def seal(
    seq: int, checkpoint_id: str, parent_id: str | None, created_at: int, metadata: str, head: str, lists: str
) -> int:
    """A checksum over a checkpoint's row: one that was damaged is found out even where it still makes sense."""
    return crc32(f"{seq}\n{checkpoint_id}\n{parent_id}\n{created_at}\n{metadata}\n{head}\n{lists}".encode())


# ── what a checkpoint row says about its lists ────────────────────────────────────────────────────


def dump_lists(lists: Mapping[str, KnownList], life: bytes) -> str:
    """As JSON; logs of the checkpoint's own life are written without it, so that the common case stays short."""
    text = ""
    for name, (path, *_) in lists.items():
        segments = ""
        for owner, log, end in path:
            segments += f",[{log},{end}]" if owner == life else f',["{owner.hex()}",{log},{end}]'
        if segments:
            text += f",{encode_basestring_ascii(name)}:[{segments[1:]}]"
    return "{" + text[1:] + "}"


def load_lists(text: str, life: bytes, place: str) -> dict[str, Path]:
    """The reverse of :func:`dump_lists`."""
    try:
        return {name: tuple(_segment(part, life) for part in path) for name, path in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise Corrupt(f"{place}: its list of logs can't be read", place=place) from error


def _segment(part: list[Any], life: bytes) -> Segment:
    *owner, log, end = part
    if not (0 <= log < 2**63 and 0 <= end < 2**63):
        raise ValueError(f"a log's number or end is {log!r}, {end!r}")
    return Segment(bytes.fromhex(owner[0]) if owner else life, log, end)


def path_spans(path: Path) -> list[tuple[bytes, int, int, int]]:
    """What a path reads: life, log, first position, end."""
    spans: list[tuple[bytes, int, int, int]] = []
    start = 0
    for life, log, end in path:
        spans.append((life, log, start, end))
        start = end
    return spans


def _cut(path: Path, length: int) -> Path:
    """The path of the first ``length`` elements."""
    kept: list[Segment] = []
    start = 0
    for segment in path:
        if start >= length:
            break
        kept.append(segment._replace(end=min(segment.end, length)))
        start = segment.end
    return tuple(kept)


def _common(first: Sequence[Any], second: Sequence[Any]) -> int:
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one != other:
            return index
    return min(len(first), len(second))


def shared_length(first: Path, second: Path) -> int:
    """How many leading positions two paths read from the same place."""
    start = 0
    for one, other in zip(first, second, strict=False):
        if (one.life, one.log) != (other.life, other.log):
            break
        end = min(one.end, other.end)
        if one.end != other.end:
            return end
        start = end
    return start

"""A long list that was stored is decoded where somebody looks at it.

To load a thread of a thousand turns costs little then: an agent looks at the newest few messages. Whoever goes
through all of them has them all decoded, once.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from threading import Lock
from typing import Any, Final, Generic, TypeVar, cast, overload

__all__ = ["BLOCK", "LazySequence", "Lines", "joined"]

BLOCK: Final = 64
"""So many elements are decoded together. Lists that are not longer than two of these are not worth the trouble."""

T = TypeVar("T")


class Lines(Sequence[str]):
    """The lines of a few long texts, in a row. A text is split where somebody looks at one of its lines."""

    __slots__ = ("_pieces", "_starts")

    def __init__(self, pieces: Iterable[tuple[bytes, int]]) -> None:
        """Texts in UTF-8, each with the number of its lines that count."""
        self._pieces: list[bytes | list[str]] = []
        self._starts = [0]
        for text, count in pieces:
            self._pieces.append(text)
            self._starts.append(self._starts[-1] + count)

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return (
                self._run(start, stop) if step == 1 else [self[place] for place in range(start, stop, step)]
            )
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError("there is no line at that place")
        return self._run(place, place + 1)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._run(0, len(self)))

    def _run(self, start: int, stop: int) -> list[str]:
        lines: list[str] = []
        piece = bisect_right(self._starts, start) - 1
        while start < stop:
            first, end = self._starts[piece], self._starts[piece + 1]
            found = self._pieces[piece]
            if isinstance(found, bytes):
                found = self._pieces[piece] = found.decode().split("\n")
            lines += found[start - first : min(stop, end) - first]
            start, piece = end, piece + 1
        return lines


class _Stored(Generic[T]):
    """The stored elements, as far as they are decoded. Shared by all sequences that have a part of them."""

    __slots__ = ("_decode", "_items", "_left", "_lock", "_texts")

    def __init__(self, texts: Sequence[str], decode: Callable[[Sequence[str], int], Sequence[T]]) -> None:
        self._texts = texts
        self._items: list[Any] = [_TEXT] * len(texts)
        self._left = len(texts)
        self._decode = decode
        self._lock = Lock()  # else two threads that look at an element might get two objects

    def at(self, place: int) -> T:
        item = self._items[place]
        if item is _TEXT:
            start = place - place % BLOCK
            self._ready(start, min(start + BLOCK, len(self._items)))
            item = self._items[place]
        return cast(T, item)

    def run(self, start: int, end: int) -> list[T]:
        self._ready(start, end)
        return self._items[start:end]

    def _ready(self, start: int, end: int) -> None:
        if not self._left:
            return
        with self._lock:
            while start < end:
                if self._items[start] is not _TEXT:
                    start += 1
                    continue
                stop = start + 1
                while stop < end and self._items[stop] is _TEXT:
                    stop += 1
                self._items[start:stop] = self._decode(self._texts[start:stop], start)
                self._left -= stop - start
                start = stop
            if not self._left:
                self._texts = ()


_TEXT: Final = object()


class LazySequence(Sequence[T]):
    """An immutable sequence, equal to a tuple of the same elements: stored ones, between others that are at hand.

    ``decode(texts, start)`` gives the elements of a run of texts, which begins at that place. What it raises, the one
    who looks at the element gets.
    """

    __slots__ = ("_after", "_before", "_end", "_first", "_stored")

    _stored: _Stored[T]
    _before: tuple[T, ...]
    _first: int
    _end: int
    _after: tuple[T, ...]

    def __init__(self, texts: Sequence[str], decode: Callable[[Sequence[str], int], Sequence[T]]) -> None:
        self._stored = _Stored(texts, decode)
        self._before = self._after = ()
        self._first, self._end = 0, len(texts)

    def _part(self, before: tuple[T, ...], first: int, end: int, after: tuple[T, ...]) -> LazySequence[T]:
        part: LazySequence[T] = LazySequence.__new__(LazySequence)
        part._stored, part._before, part._after = self._stored, before, after
        part._first, part._end = first, end
        return part

    def __len__(self) -> int:
        return len(self._before) + (self._end - self._first) + len(self._after)

    def __iter__(self) -> Iterator[T]:
        return chain(self._before, self._stored.run(self._first, self._end), self._after)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return self._slice(index)
        place, length = index, len(self)
        if place < 0:
            place += length
        if not 0 <= place < length:
            raise IndexError("there is no element at that place")
        if place < len(self._before):
            return self._before[place]
        place += self._first - len(self._before)
        return self._stored.at(place) if place < self._end else self._after[place - self._end]

    def _slice(self, index: slice) -> Sequence[T]:
        start, stop, step = index.indices(len(self))
        if step != 1 or stop - start <= BLOCK:
            return tuple([self[place] for place in range(start, stop, step)])
        ahead, size = len(self._before), self._end - self._first
        first, end = (min(max(place - ahead, 0), size) for place in (start, stop))
        after = self._after[max(start - ahead - size, 0) : max(stop - ahead - size, 0)]
        return self._part(self._before[start:stop], self._first + first, self._first + end, after)

    def __add__(self, other: Sequence[T]) -> Sequence[T]:
        if isinstance(other, tuple):
            return self._part(self._before, self._first, self._end, self._after + other)
        return tuple(self) + tuple(other) if isinstance(other, LazySequence) else NotImplemented

    def __radd__(self, other: Sequence[T]) -> Sequence[T]:
        if isinstance(other, tuple):
            return self._part(other + self._before, self._first, self._end, self._after)
        return NotImplemented

    def begins_with(self, start: Sequence[T]) -> bool | None:
        """Whether it is ``start`` or goes on after it; ``None`` if that can't be told without decoding."""
        if type(start) is not LazySequence or self._stored is not start._stored:
            return None
        if (self._before, self._first, self._end) != (start._before, start._first, start._end):
            return None
        return self._after[: len(start._after)] == start._after

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, LazySequence):
            if len(self) != len(other):
                return False
            return self.begins_with(other) or tuple(self) == tuple(other)
        if isinstance(other, tuple):
            return len(self) == len(other) and tuple(self) == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __copy__(self) -> LazySequence[T]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[T, ...]:
        return copy.deepcopy(tuple(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return (tuple, (tuple(self),))


def joined(*parts: Sequence[T]) -> Sequence[T]:
    """All parts in a row, with nothing decoded for it."""
    whole: Any = ()
    for part in parts:
        whole = whole + (part if isinstance(part, tuple | LazySequence) else tuple(part))
    return cast(Sequence[T], whole)

"""Time-sortable ids: 26 lower-case hexadecimal characters, 12 of milliseconds and 14 of randomness.

Within a process ids strictly increase, also when the clock stands still or runs backwards. The last six characters may
be made to tell a sequence number instead: what comes before them increases by itself.
"""

import os
import threading
import time
from random import Random

_RANDOM_BITS = 56
_SEQUENCE_BITS = 24
_SEQUENCE_CHARACTERS = 6
_CHARACTERS = 26
MAX_TOLD_SEQUENCE = (1 << _SEQUENCE_BITS) - 1
"""Beyond it an id has only the end of its sequence number."""


class _Series:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._random = Random(os.urandom(32))  # noqa: S311 (ids must be different, not secret)

    def next(self) -> int:
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | self._random.getrandbits(_RANDOM_BITS)
        with self._lock:
            if fresh >> _SEQUENCE_BITS <= self._last >> _SEQUENCE_BITS:
                fresh = self._last + ((1 + self._random.getrandbits(16)) << _SEQUENCE_BITS)
            self._last = fresh
        return fresh


_series = [_Series()]


def _after_fork() -> None:
    """A child must neither share its parent's lock nor continue its series."""
    _series[0] = _Series()


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork)


def new_id() -> str:
    """A new id. Sorts after every id made before it in this process."""
    return f"{_series[0].next():026x}"


def new_id_with(sequence: int) -> str:
    """A new id that has a sequence number at its end, as far as there is room for it."""
    return f"{_series[0].next() & ~MAX_TOLD_SEQUENCE | sequence & MAX_TOLD_SEQUENCE:026x}"


def told_sequence(text: str) -> int | None:
    """The sequence number that an id tells, ``None`` if it tells none. A hint: any text may look like an id."""
    if len(text) != _CHARACTERS:
        return None
    try:
        return int(text[-_SEQUENCE_CHARACTERS:], 16)
    except ValueError:
        return None


def new_key(prefix: bytes) -> bytes:
    """A 16-byte key: ``prefix`` (6 bytes), 4 bytes of time and 6 of randomness: new keys are neighbours."""
    seconds = (time.time_ns() // 1_000_000_000) & 0xFFFFFFFF
    return prefix + seconds.to_bytes(4) + os.urandom(6)

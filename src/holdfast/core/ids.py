"""Time-sortable ids: 26 lower-case hexadecimal characters, 12 of milliseconds and 14 of randomness.

Within a process ids strictly increase, also when the clock stands still or runs backwards.
"""

import os
import threading
import time
from random import Random

_RANDOM_BITS = 56


class _Series:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._random = Random(os.urandom(32))  # noqa: S311 (ids must be different, not secret)

    def next(self) -> int:
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | self._random.getrandbits(_RANDOM_BITS)
        with self._lock:
            if fresh <= self._last:
                fresh = self._last + 1 + self._random.getrandbits(32)
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


def new_key(prefix: bytes) -> bytes:
    """A 16-byte key: ``prefix`` (6 bytes), 4 bytes of time and 6 of randomness: new keys are neighbours."""
    seconds = (time.time_ns() // 1_000_000_000) & 0xFFFFFFFF
    return prefix + seconds.to_bytes(4) + os.urandom(6)

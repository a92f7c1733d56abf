"""What this process knows about the heads of threads, so that a save need not read before it writes.

It is only ever a guess: a save that relies on it is guarded by the life and the next sequence of the thread.
"""

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from holdfast.memory.log import KnownList

_MOST = 256


class KnownHead(NamedTuple):
    """A thread's head as this process last saw it, with the elements of its lists."""

    life: bytes
    seq: int
    next_seq: int
    checkpoint_id: str | None
    lists: Mapping[str, KnownList]


ThreadKey = tuple[str, str, str]


class Heads:
    """The most recently used heads. No lock: each step is atomic by itself, and a lost one costs only time."""

    def __init__(self) -> None:
        self._known: OrderedDict[ThreadKey, KnownHead] = OrderedDict()
        self._newest: dict[tuple[str, str], ThreadKey] = {}

    def get(self, key: ThreadKey) -> KnownHead | None:
        return self._known.get(key)

    def remember(self, key: ThreadKey, head: KnownHead) -> None:
        known = self._known
        known[key] = head
        with suppress(KeyError):  # another thread may have forgotten it, or the oldest one
            known.move_to_end(key)
            if len(known) > _MOST:
                known.popitem(last=False)

    def note_saved(self, key: ThreadKey) -> None:
        """This process saved that thread last in its scope."""
        self._newest[key[0], key[1]] = key
        if len(self._newest) > _MOST:
            self._newest.clear()

    def likely_newest(self, key: ThreadKey) -> bool:
        """Whether the thread is, for all that this process knows, the one of its scope that was saved last."""
        return self._newest.get((key[0], key[1])) == key

    def forget(self, key: ThreadKey) -> None:
        self._known.pop(key, None)

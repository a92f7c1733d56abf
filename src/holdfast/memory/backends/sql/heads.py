"""What this process knows about the heads of threads, so that a save need not read before it writes.

It is only ever a guess: a save that relies on it is guarded by the life and the next sequence of the thread.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.memory.log import KnownList

_MOST = 256
_MOST_ELEMENTS = 8_192
"""Of all lists of all known heads: a process that serves many long threads must not keep them all in memory."""


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
        self._known: OrderedDict[ThreadKey, tuple[KnownHead, int]] = (
            OrderedDict()
        )  # with their elements' number
        self._elements = 0
        self._newest: dict[tuple[str, str], ThreadKey] = {}

    def get(self, key: ThreadKey) -> KnownHead | None:
        found = self._known.get(key)
        return None if found is None else found[0]

    def remember(self, key: ThreadKey, head: KnownHead, *, saved: bool = False) -> None:
        """``saved``: this process has just saved that thread, the last one in its scope."""
        if saved:
            self._newest[key[0], key[1]] = key
            if len(self._newest) > _MOST:
                self._newest.clear()
        known, before = self._known, self._known.get(key)
        elements = 0
        for each in head.lists.values():
            elements += len(each.elements)
        known[key] = (head, elements)
        self._elements += elements if before is None else elements - before[1]
        try:
            known.move_to_end(key)
            while len(known) > 1 and (len(known) > _MOST or self._elements > _MOST_ELEMENTS):
                self._elements -= known.popitem(last=False)[1][1]
            if len(known) == 1:  # what threads that counted at the same moment lost is made good
                self._elements = elements
        except KeyError:
            pass  # another thread has forgotten it, or the oldest one

    def likely_newest(self, key: ThreadKey) -> bool:
        """Whether the thread is, for all that this process knows, the one of its scope that was saved last."""
        return self._newest.get((key[0], key[1])) == key

    def forget(self, key: ThreadKey) -> None:
        gone = self._known.pop(key, None)
        self._elements -= 0 if gone is None else gone[1]

"""The states of the threads that were used last, so that a turn on a long thread need not load it again."""

from collections import OrderedDict
from threading import Lock

from holdfast.core.state import AgentState

__all__ = ["ThreadCache"]


class ThreadCache:
    """Heads with their states, the most recently used ones; never more than so many messages in all.

    What it says is only used after the thread's head was seen to be still the same.
    """

    def __init__(self, max_messages: int = 4_096) -> None:
        self._max = max_messages
        self._size = 0
        self._lock = Lock()  # a model's loop and those of blocking calls share it
        self._threads: OrderedDict[tuple[str | None, str], tuple[str, AgentState, bool]] = OrderedDict()

    def get(self, scope: str | None, thread_id: str) -> tuple[str, AgentState, bool] | None:
        """Its head and state when this agent last saved it, and whether the memory has heard of all in it."""
        with self._lock:
            known = self._threads.get((scope, thread_id))
            if known is not None:
                self._threads.move_to_end((scope, thread_id))
            return known

    def put(self, scope: str | None, thread_id: str, checkpoint_id: str, state: AgentState) -> None:
        key = (scope, thread_id)
        with self._lock:
            before = self._threads.pop(key, None)
            if before is not None:
                self._size -= len(before[1].messages)
            self._threads[key] = (checkpoint_id, state, False)
            self._size += len(state.messages)
            while self._size > self._max and len(self._threads) > 1:  # the last one is in use anyway
                _, (_, dropped, _) = self._threads.popitem(last=False)
                self._size -= len(dropped.messages)

    def settle(self, scope: str | None, thread_id: str, checkpoint_id: str) -> None:
        """The memory has heard of all that is in the thread at this head."""
        key = (scope, thread_id)
        with self._lock:
            known = self._threads.get(key)
            if known is not None and known[0] == checkpoint_id:
                self._threads[key] = (*known[:2], True)

    def clear(self) -> None:
        with self._lock:
            self._threads.clear()
            self._size = 0

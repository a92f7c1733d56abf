"""Where working memory is kept: in this process, or in any store."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.memory import validate
from holdfast.memory.store import BaseStore

__all__ = ["EXPECTED_VERSION", "InMemoryManager", "MemoryManager", "MemoryRecord", "StoreMemoryManager"]

EXPECTED_VERSION: Final = "expected_version"
"""The key of `store`'s dict that makes it a compare-and-set, where a manager compares versions."""


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """What is kept of a conversation. ``version`` is that of the store's item, 0 where there are none."""

    working_memory: str
    version: int = 0


class MemoryManager:
    """The base of our own managers. Any other object with `store` and `retrieve` serves as well."""

    @property
    def turn_scope(self) -> tuple[Hashable, ...]:
        """Managers with equal scopes keep the same memories: turns of one conversation wait for each other."""
        return ("manager", id(self))

    @property
    def compares_versions(self) -> bool:
        """Whether `store` obeys `EXPECTED_VERSION`."""
        return False

    async def store(self, data: Mapping[str, Any]) -> None:
        """Keep ``working_memory`` for ``conversation_id``. Without an id nothing is kept."""
        raise NotImplementedError

    async def retrieve(self, query: Mapping[str, Any]) -> list[MemoryRecord] | None:
        """What is kept for ``conversation_id``, in a list of one; ``None`` if there is nothing."""
        raise NotImplementedError


class InMemoryManager(MemoryManager):
    """Keeps memories in a dict, for development and tests. They end with the process."""

    def __init__(self) -> None:
        self.memories: dict[str, str] = {}
        self.access_count: dict[str, int] = {}
        """How often each conversation's memory was stored."""

    async def store(self, data: Mapping[str, Any]) -> None:
        conversation_id = conversation_of(data)
        if conversation_id:
            self.memories[conversation_id] = memory_of(data)
            self.access_count[conversation_id] = self.access_count.get(conversation_id, 0) + 1

    async def retrieve(self, query: Mapping[str, Any]) -> list[MemoryRecord] | None:
        conversation_id = conversation_of(query)
        if conversation_id not in self.memories:
            return None
        return [MemoryRecord(self.memories[conversation_id])]

    def show_memory(self, conversation_id: str) -> str | None:
        """Print what is kept of a conversation, and return it."""
        memory = self.memories.get(conversation_id)
        times = self.access_count.get(conversation_id, 0)
        kept = (
            "no memory yet" if memory is None else f"stored {times} time{'' if times == 1 else 's'}\n{memory}"
        )
        print(f"[{conversation_id}] {kept}")  # noqa: T201 - showing is what it is for
        return memory


class StoreMemoryManager(MemoryManager):
    """Keeps memories in a store, so in any database: one item for each conversation, its id the key.

    `ttl` (seconds) lets a memory expire that long after its last turn. With `compare_and_set`, which our stores have,
    processes that work on one conversation at once don't overwrite each other.
    """

    def __init__(
        self,
        store: BaseStore,
        *,
        namespace: Sequence[str] = ("working_memory",),
        ttl: float | None = None,
    ) -> None:
        if not isinstance(store, BaseStore):
            raise InvalidInput(f"store must be a Holdfast store, got {type(store).__name__}")
        self._store = store
        self._namespace = validate.namespace(namespace)
        self._ttl = None if ttl is None else validate.positive_number(ttl, "ttl")

    @property
    def turn_scope(self) -> tuple[Hashable, ...]:
        return ("store", id(self._store), self._namespace)

    @property
    def compares_versions(self) -> bool:
        return self._store.capabilities.compare_and_set

    async def store(self, data: Mapping[str, Any]) -> None:
        """Keep it. With ``expected_version`` only if the stored one has that version (0: there is none)."""
        conversation_id = conversation_of(data)
        if conversation_id:
            await self._store.put(
                self._namespace,
                conversation_id,
                {"working_memory": memory_of(data)},
                ttl=self._ttl,
                expected_version=data.get(EXPECTED_VERSION),
            )

    async def retrieve(self, query: Mapping[str, Any]) -> list[MemoryRecord] | None:
        conversation_id = conversation_of(query)
        item = await self._store.get_item(self._namespace, conversation_id) if conversation_id else None
        if item is None:
            return None
        text = item.value.get("working_memory") if isinstance(item.value, Mapping) else None
        if not isinstance(text, str):
            place = f"{'/'.join(self._namespace)}: {conversation_id}"
            raise Corrupt(f"the item at {place} is no working memory", place=place)
        return [MemoryRecord(text, item.version)]


def conversation_of(data: Mapping[str, Any]) -> str | None:
    """The ``conversation_id`` of a manager's argument."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"a memory manager takes a dict, got {type(data).__name__}")
    found = data.get("conversation_id")
    if found is not None and not isinstance(found, str):
        raise InvalidInput(
            f"conversation_id must be a string, got {type(found).__name__}: pass str(conversation_id)"
        )
    return found or None


def memory_of(data: Mapping[str, Any]) -> str:
    """The ``working_memory`` of `store`'s argument."""
    found = data.get("working_memory", "")
    if not isinstance(found, str):
        raise InvalidInput(f"working_memory must be a string, got {type(found).__name__}")
    return found

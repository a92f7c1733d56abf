"""`LLMMemoryManager`: memories as items of a store, found by a model, by a function of yours, or by rules."""

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role
from holdfast.memory import validate
from holdfast.memory.extract.gate import has_secret, is_junk
from holdfast.memory.extract.rules import statements
from holdfast.memory.fence import unfenced
from holdfast.memory.manager.asking import ask_for_changes
from holdfast.memory.manager.base import BaseMemoryManager
from holdfast.memory.manager.ranking import rank
from holdfast.memory.manager.records import Memory, MemoryType
from holdfast.memory.manager.slots import slot_of
from holdfast.memory.records import StoreItem
from holdfast.memory.store import BaseStore
from holdfast.memory.text import analyse

if TYPE_CHECKING:
    from holdfast.models.base import Model

__all__ = ["LLMMemoryManager"]

ExtractFunction = Callable[[list[Message]], Sequence[Memory] | Awaitable[Sequence[Memory]]]

HISTORY = "history"
_ATTEMPTS = 32


@dataclass(frozen=True, slots=True)
class _Known:
    """A memory as it is stored."""

    memory: Memory
    item: StoreItem


class LLMMemoryManager(BaseMemoryManager):
    """A memory is the item at ``namespace_prefix + (type,)`` with its ``content`` in the value.

    With ``extract_fn``, that finds what is worth keeping; else ``model`` does, which is shown what is known, so that it
    adds, updates or drops; with neither, careful rules. The same thing under a new key is one memory, not two, and what
    says otherwise about a thing of which there is one takes its place. What is replaced, dropped or, beyond
    ``max_memories``, too old is kept at ``namespace_prefix + ("history",)``.
    """

    def __init__(
        self,
        store: BaseStore,
        *,
        model: "Model | None" = None,
        extract_fn: ExtractFunction | None = None,
        namespace_prefix: Sequence[str] = ("memory",),
        max_memories: int = 50,
        retrieve_limit: int = 20,
    ) -> None:
        if not isinstance(store, BaseStore):
            raise InvalidInput(f"store must be a BaseStore, got {type(store).__name__}")
        if extract_fn is not None and not callable(extract_fn):
            raise InvalidInput(f"extract_fn must be a function of messages, got {type(extract_fn).__name__}")
        if validate.limit(max_memories, "max_memories") < 1:
            raise InvalidInput(f"max_memories must be 1 or more, got {max_memories}")
        self._store = store
        self._model = model
        self._extract_fn = extract_fn
        self._prefix = validate.namespace(namespace_prefix)
        self._max = max_memories
        self._retrieve_limit = validate.limit(retrieve_limit, "retrieve_limit")

    @property
    def namespace_prefix(self) -> tuple[str, ...]:
        return self._prefix

    def for_user(self, user_id: str) -> Self:
        """A view of what is remembered of that user alone, below ``namespace_prefix``."""
        return type(self)(
            self._store,
            model=self._model,
            extract_fn=self._extract_fn,
            namespace_prefix=(*self._prefix, f"u:{validate.identifier(user_id, 'user_id')}"),
            max_memories=self._max,
            retrieve_limit=self._retrieve_limit,
        )

    async def retrieve(self, query: str | None = None, limit: int | None = None) -> list[Memory]:
        """The memories that have most to do with the query, then the newest ones, up to ``limit``."""
        most = self._retrieve_limit if limit is None else validate.limit(limit)
        known = await self._known()
        if query is not None:
            known = rank(validate.text(query, "query"), known, lambda each: each.memory.content)
        return [each.memory for each in known[:most]]

    async def extract(self, messages: Sequence[Message]) -> list[Memory]:
        """What is worth keeping. One that is to be dropped has ``{"drop": True}`` in its metadata."""
        given = list(messages)
        if self._extract_fn is not None:
            answer = self._extract_fn(given)
            found = list(await answer if inspect.isawaitable(answer) else answer)
            for index, memory in enumerate(found):
                if not isinstance(memory, Memory):
                    raise InvalidInput(f"extract_fn()[{index}] must be a Memory, got {type(memory).__name__}")
            return found
        texts = unfenced([message.content or "" for message in given if message.role is Role.USER])
        if self._model is None:
            return [memory for text in texts for memory in _by_rules(text)]
        if all(is_junk(text) for text in texts):  # nothing was said that a model could find something in
            return []
        known = [each.memory for each in await self._known()]
        return await ask_for_changes(self._model, texts, known)

    async def save(self, memories: Sequence[Memory]) -> list[Memory]:
        """Keep them. One with a secret in it is left out, one that says what is known changes nothing."""
        changed: list[Memory] = []
        known = await self._known()
        for memory in memories:
            if not isinstance(memory, Memory):
                raise InvalidInput(f"memories must be Memory objects, got {type(memory).__name__}")
            validate.identifier(memory.key, "memory.key")
            if not has_secret(memory.content) and memory.content.strip() and await self._keep(memory, known):
                changed.append(memory)
        if changed:
            await self._retire(await self._known())
        return changed

    async def forget(
        self, key: str | None = None, *, type: MemoryType | str | None = None, everything: bool = False
    ) -> int:
        """Remove memories with their history: those under a key, of a type, or all of them. Returns how many."""
        if key is None and type is None and not everything:
            raise InvalidInput(
                "forget() needs a key, a type, or everything=True: with none of them nothing says what"
            )
        kind = None if type is None else MemoryType(type)
        gone = 0
        for name in [each.value for each in MemoryType if kind in (None, each)] + [HISTORY]:
            async for item in self._store.iterate((*self._prefix, name)):
                value = item.value if isinstance(item.value, Mapping) else {}
                same_key = key is None or item.key == key or value.get("key") == key
                same_type = kind is None or name == kind.value or value.get("type") == kind.value
                if same_key and same_type and await self._store.delete(item.namespace, item.key):
                    gone += name != HISTORY
        return gone

    async def history(self, key: str | None = None) -> list[StoreItem]:
        """What was replaced, dropped or retired, newest first: of all memories, or under one key."""
        only = None if key is None else {"value.key": validate.identifier(key, "key")}
        return list(await self._store.search((*self._prefix, HISTORY), None, 1_000, filter=only))

    # ── how they are kept ─────────────────────────────────────────────────────────────────────────

    async def _known(self) -> list[_Known]:
        """All memories, newest first."""
        pages = await asyncio.gather(
            *(self._store.search((*self._prefix, kind.value), None, self._max + 1) for kind in MemoryType)
        )
        items = sorted(
            (item for page in pages for item in page), key=lambda item: item.updated_at, reverse=True
        )
        found: dict[tuple[str, ...], _Known] = {}
        for item in items:
            memory = _as_memory(item)
            if memory is not None:  # two writers may have learned the same thing at the same moment
                found.setdefault((memory.type.value, *_says(memory.content)), _Known(memory, item))
        return list(found.values())

    async def _keep(self, memory: Memory, known: list[_Known]) -> bool:
        """Add it, or let it take the place of what it replaces. Whether anything changed."""
        same = _same(memory, known)
        if memory.metadata.get("drop"):
            return same is not None and await self._drop(same, known)
        if same is not None and _adds_nothing(memory, same.memory):
            return False
        for attempt in range(_ATTEMPTS):
            namespace = (*self._prefix, memory.type.value)
            key = memory.key if same is None else same.memory.key
            value = {"type": memory.type.value, "key": key, "content": memory.content.strip()}
            try:
                if same is not None:
                    await self._remember(same, "replaced")
                await self._store.put(
                    namespace,
                    key,
                    value,
                    thaw(dict(memory.metadata)),
                    expected_version=0 if same is None else same.item.version,
                )
                known[:] = await self._known()
                for other in _contradicted(memory, key, known):
                    await self._drop(other, known, "replaced")
                return True
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
                known[:] = await self._known()
                same = _same(memory, known)
                if same is not None and _adds_nothing(memory, same.memory):
                    return False
        raise AssertionError("the last attempt returns or raises")

    async def _drop(self, each: _Known, known: list[_Known], why: str = "dropped") -> bool:
        await self._remember(each, why)
        known.remove(each)
        return await self._store.delete(each.item.namespace, each.item.key)

    async def _retire(self, known: list[_Known]) -> None:
        for each in known[self._max :]:
            await self._remember(each, "retired")
            await self._store.delete(each.item.namespace, each.item.key)

    async def _remember(self, each: _Known, why: str) -> None:
        """Keep what is about to go. The key tells the version, so that a repeat changes nothing."""
        key = hashlib.sha256(
            f"{each.memory.type.value}\0{each.memory.key}\0{each.item.version}".encode()
        ).hexdigest()
        value = {
            "type": each.memory.type.value,
            "key": each.memory.key,
            "content": each.memory.content,
            "why": why,
            "until": datetime.now(UTC).isoformat(),
        }
        await self._store.put((*self._prefix, HISTORY), key, value, thaw(dict(each.memory.metadata)))


def _as_memory(item: StoreItem) -> Memory | None:
    """The memory of an item; ``None`` for what somebody else put there."""
    value = item.value
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), str):
        return None
    return Memory(
        type=MemoryType(item.namespace[-1]), key=item.key, content=value["content"], metadata=item.metadata
    )


def _says(content: str) -> tuple[str, ...]:
    """Equal for texts that say the same in other spelling, case or punctuation."""
    return tuple(analyse(content)) or (content.strip().casefold(),)


def _same(memory: Memory, known: Sequence[_Known]) -> _Known | None:
    """What the memory replaces or repeats: the one under its key, one of its type that says the same, or the newest
    one of its type that says otherwise about what there is one of."""
    mine = [each for each in known if each.memory.type is memory.type]
    by_key = next((each for each in mine if each.memory.key == memory.key), None)
    said = _says(memory.content)
    found = by_key or next((each for each in mine if _says(each.memory.content) == said), None)
    if found is not None or memory.metadata.get("drop"):
        return found
    return next(iter(_contradicted(memory, memory.key, known)), None)


def _contradicted(memory: Memory, key: str, known: Sequence[_Known]) -> list[_Known]:
    """Those of its type, under other keys, that are about the very thing of which it says something: one lives in one
    place, and likes many things."""
    slot = slot_of(memory.content)
    if slot is None:
        return []
    others = [each for each in known if each.memory.type is memory.type and each.memory.key != key]
    return [each for each in others if slot.same_as(slot_of(each.memory.content))]


def _adds_nothing(memory: Memory, known: Memory) -> bool:
    """Whether it says what is known, or, in fewer words, less."""
    if _says(memory.content) == _says(known.content):
        return True
    new, old = slot_of(memory.content), slot_of(known.content)
    return new is not None and old is not None and new.same_as(old) and new.value < old.value


def _by_rules(text: str) -> list[Memory]:
    found = []
    for said in statements(text):
        slot = said.predicate if said.single else f"{said.predicate}:{'-'.join(analyse(said.object))}"[:200]
        found.append(
            Memory(type=MemoryType.USER, key=slot, content=said.sentence, metadata={"source": "rules"})
        )
    return found

"""Working blocks: a few named texts about a user that are always at hand."""

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.memory import validate
from holdfast.memory.buckets import bucket_of
from holdfast.memory.store import BaseStore

__all__ = ["Blocks"]

_ATTEMPTS = 64


class Blocks:
    """Each is an item of its own; a change of one is a compare-and-set, so that no writer loses another's."""

    def __init__(self, store: BaseStore, space: str) -> None:
        self._store = store
        self._space = space

    def at(self, user_id: str | None) -> tuple[str, ...]:
        return (*bucket_of(self._space, user_id), "blocks")

    async def all(self, user_id: str | None) -> dict[str, str]:
        """Every block by its name."""
        return {item.key: item.value["text"] async for item in self._store.iterate(self.at(user_id))}

    async def update(self, name: str, text: str, user_id: str | None) -> None:
        """Write a block anew; an empty text removes it."""
        name = validate.identifier(name, "name")
        if validate.text(text, "text"):
            await self._store.put(self.at(user_id), name, {"text": text})
        else:
            await self._store.delete(self.at(user_id), name)

    async def append(self, name: str, text: str, user_id: str | None) -> str:
        """Add a line to a block; returns the whole of it. No line of another writer is lost."""
        name = validate.identifier(name, "name")
        if not validate.text(text, "text").strip():
            raise InvalidInput("text must not be blank: there is nothing to append")
        for attempt in range(_ATTEMPTS):
            item = await self._store.get_item(self.at(user_id), name)
            whole = text if item is None else f"{item.value['text']}\n{text}"
            try:
                await self._store.put(
                    self.at(user_id),
                    name,
                    {"text": whole},
                    expected_version=0 if item is None else item.version,
                )
                return whole
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

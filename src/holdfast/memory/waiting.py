"""Which users have episodes that facts are still to be found in: one item each, so that nobody else is looked at."""

import contextlib
from collections.abc import AsyncIterator

from holdfast.core.errors import Conflict
from holdfast.memory.buckets import bucket_of, user_of
from holdfast.memory.store import BaseStore

__all__ = ["Waiting"]


class Waiting:
    """A list of users. One who is on it may have such episodes; one who is not has none."""

    def __init__(self, store: BaseStore, space: str) -> None:
        self._store = store
        self._space = space
        self._at = ("memory", space, "shared", "waiting")

    async def add(self, user_id: str | None) -> None:
        key = bucket_of(self._space, user_id)[-1]
        if not await self._store.exists(self._at, key):  # mostly it is there
            with contextlib.suppress(Conflict):
                await self._store.put(self._at, key, {}, expected_version=0)

    async def remove(self, user_id: str | None) -> None:
        await self._store.delete(self._at, bucket_of(self._space, user_id)[-1])

    async def users(self) -> AsyncIterator[str | None]:
        async for item in self._store.iterate(self._at):
            yield user_of(item.key)

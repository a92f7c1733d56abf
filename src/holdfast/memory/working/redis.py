"""Working memory in Redis: a key for each conversation, which expires."""

from collections.abc import Awaitable, Hashable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from holdfast.core.errors import InvalidInput, MissingExtra, Unavailable
from holdfast.memory import validate
from holdfast.memory.working.managers import MemoryManager, MemoryRecord, conversation_of, memory_of
from holdfast.models.clients import PerLoop

__all__ = ["DAY", "RedisMemoryManager"]

DAY: Final = 24 * 60 * 60
_SCHEMES: Final = ("redis://", "rediss://", "unix://")


class RedisMemoryManager(MemoryManager):
    """Keeps memories under ``memory:<conversation_id>`` for `ttl_seconds` after their last turn, a day by default.

    It connects when it is first used, once for each event loop. Turns of several *processes* are not ordered: for
    that, give a `StoreMemoryManager` a Redis store.
    """

    def __init__(self, redis_url: str, *, ttl_seconds: int = DAY) -> None:
        if not validate.text(redis_url, "redis_url").startswith(_SCHEMES):
            raise InvalidInput("redis_url must begin with 'redis://', 'rediss://' or 'unix://'")
        if isinstance(ttl_seconds, bool) or not isinstance(ttl_seconds, int):
            raise InvalidInput(f"ttl_seconds must be a whole number, got {type(ttl_seconds).__name__}")
        validate.positive_number(ttl_seconds, "ttl_seconds")
        self._redis, self._errors = _load()
        self._url = redis_url
        self._ttl = ttl_seconds
        self._clients: PerLoop[Any] = PerLoop(lambda client: client.aclose())

    @property
    def turn_scope(self) -> tuple[Hashable, ...]:
        return ("redis", self._url)

    async def store(self, data: Mapping[str, Any]) -> None:
        conversation_id = conversation_of(data)
        if conversation_id:
            memory = memory_of(data)
            await self._call(self._client().set(f"memory:{conversation_id}", memory, ex=self._ttl))

    async def retrieve(self, query: Mapping[str, Any]) -> list[MemoryRecord] | None:
        conversation_id = conversation_of(query)
        if not conversation_id:
            return None
        memory = await self._call(self._client().get(f"memory:{conversation_id}"))
        if memory is None:
            return None
        return [MemoryRecord(memory.decode() if isinstance(memory, bytes) else memory)]

    async def aclose(self) -> None:
        """Close the connections of the running event loop. It opens new ones when it is used again."""
        await self._clients.aclose()

    def _client(self) -> Any:
        return self._clients.get(lambda: self._redis.from_url(self._url))

    async def _call(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (self._errors.RedisError, OSError) as error:
            raise Unavailable(f"Redis did not answer: {error}") from error


def _load() -> tuple[Any, Any]:
    with suppress(ImportError):
        return import_module("redis.asyncio"), import_module("redis.exceptions")
    raise MissingExtra("RedisMemoryManager", "redis")

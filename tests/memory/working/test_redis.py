"""Working memory in Redis.

The package and the server are not part of this environment: `FakeRedis` is a double of the two calls that are used,
with the arguments and answers of ``redis.asyncio``.
"""

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput, MissingExtra, Unavailable
from holdfast.memory.working import MemoryRecord, RedisMemoryManager, WorkingMemoryAgent
from tests.memory.working.support import Appender, message


class RedisError(Exception):
    """Stands for ``redis.exceptions.RedisError``."""


class FakeRedis:
    """The double. Connections belong to one event loop, values come back as bytes, unknown arguments are refused."""

    kept: dict[str, tuple[bytes, int]]
    made: list["FakeRedis"]
    down = False

    def __init__(self, url: str) -> None:
        self.url, self.loop, self.closed = url, asyncio.get_running_loop(), False
        self.made.append(self)

    def _check(self) -> None:
        assert not self.closed
        assert asyncio.get_running_loop() is self.loop
        if self.down:
            raise RedisError("Error 111 connecting to localhost:6379. Connection refused.")

    async def set(self, name: str, value: str, *, ex: int) -> bool:
        self._check()
        self.kept[name] = value.encode(), ex
        return True

    async def get(self, name: str) -> bytes | None:
        self._check()
        return self.kept[name][0] if name in self.kept else None

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> type[FakeRedis]:
    class Fresh(FakeRedis):
        kept, made = {}, []

    package, client, errors = ModuleType("redis"), ModuleType("redis.asyncio"), ModuleType("redis.exceptions")
    vars(client)["from_url"] = Fresh
    vars(errors)["RedisError"] = RedisError
    for module in (package, client, errors):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return Fresh


def test_memories_are_kept_for_a_day_under_their_conversation(redis: type[FakeRedis]) -> None:
    manager = RedisMemoryManager("redis://localhost:6379/0")
    agent = WorkingMemoryAgent(Appender(), manager)

    async def work() -> list[str]:
        return [await agent.process(message(text)) for text in ("Zoë", "two")]

    assert asyncio.run(work()) == ["success"] * 2
    assert redis.kept == {"memory:c1": ("Zoë\ntwo".encode(), 86400)}
    assert [client.url for client in redis.made] == ["redis://localhost:6379/0"]


def test_a_connection_is_made_when_needed_for_each_event_loop_and_closed_with_it(
    redis: type[FakeRedis],
) -> None:
    manager = RedisMemoryManager("redis://localhost", ttl_seconds=60)
    assert redis.made == []

    async def work() -> None:
        await manager.store({"conversation_id": "c1", "working_memory": "x"})
        (found,) = await manager.retrieve({"conversation_id": "c1"}) or [MemoryRecord("missing")]
        assert found.working_memory == "x"

    for _ in range(2):
        asyncio.run(work())
    assert [client.closed for client in redis.made] == [True, True]
    assert redis.kept["memory:c1"][1] == 60


def test_an_outage_is_an_error_and_never_an_empty_memory(
    redis: type[FakeRedis], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = RedisMemoryManager("redis://:secret@localhost")
    monkeypatch.setattr(redis, "down", True)
    with pytest.raises(Unavailable, match="Connection refused"):
        asyncio.run(manager.retrieve({"conversation_id": "c1"}))
    client = Appender()
    status = asyncio.run(WorkingMemoryAgent(client, manager).process(message("x")))
    assert status.startswith("error: reading failed - Redis did not answer: Error 111")
    assert "secret" not in status + repr(manager)
    assert client.inputs == []


def test_agents_with_managers_of_their_own_on_one_server_wait_for_each_other(redis: type[FakeRedis]) -> None:
    async def work() -> None:
        agents = [WorkingMemoryAgent(Appender(), RedisMemoryManager("redis://localhost")) for _ in range(8)]
        await asyncio.gather(*[agent.process(message(str(turn))) for turn, agent in enumerate(agents)])

    asyncio.run(work())
    assert redis.kept["memory:c1"][0].split() == [b"%d" % turn for turn in range(8)]


def test_what_has_no_conversation_is_not_kept(redis: type[FakeRedis]) -> None:
    manager = RedisMemoryManager("redis://localhost")
    asyncio.run(manager.store({"working_memory": "x"}))
    assert asyncio.run(manager.retrieve({})) is None
    assert redis.kept == {}


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match=r"RedisMemoryManager needs the extra 'redis'"):
        RedisMemoryManager("redis://localhost")


@pytest.mark.usefixtures("redis")
@pytest.mark.parametrize("url", ["localhost:6379", "http://:secret@localhost", 7])
def test_a_url_of_something_else_is_refused_and_not_shown(url: Any) -> None:
    with pytest.raises(InvalidInput, match="redis_url") as caught:
        RedisMemoryManager(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput, match="ttl_seconds"):
        RedisMemoryManager("redis://localhost", ttl_seconds=0)

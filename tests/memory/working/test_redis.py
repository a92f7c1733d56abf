"""Working memory in Redis, on a real server."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput, MissingExtra, Unavailable
from holdfast.memory.working import MemoryRecord, RedisMemoryManager, WorkingMemoryAgent
from tests.memory.working.support import Appender, message
from tests.servers.redis import RedisServer, own_server

pytestmark = pytest.mark.requires("redis")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with own_server(tmp_path) as running:
        yield running


def kept(server: RedisServer) -> dict[str, tuple[str, int]]:
    """All keys, with their text and how many seconds they stay."""
    from redis import Redis

    with Redis(unix_socket_path=str(server.socket), decode_responses=True) as client:
        return {key: (str(client.get(key)), int(client.ttl(key))) for key in client.scan_iter()}


def connections(server: RedisServer) -> int:
    from redis import Redis

    with Redis(unix_socket_path=str(server.socket)) as client:
        return len(client.client_list()) - 1


def test_memories_are_kept_for_a_day_under_their_conversation(server: RedisServer) -> None:
    agent = WorkingMemoryAgent(Appender(), RedisMemoryManager(server.url))

    async def work() -> list[str]:
        return [await agent.process(message(text)) for text in ("Zoë", "two")]

    assert asyncio.run(work()) == ["success"] * 2
    ((key, (text, seconds)),) = kept(server).items()
    assert (key, text) == ("memory:c1", "Zoë\ntwo")
    assert 86_000 < seconds <= 86_400


def test_a_connection_is_made_when_needed_for_each_event_loop_and_closed_with_it(server: RedisServer) -> None:
    manager = RedisMemoryManager(server.url, ttl_seconds=60)
    assert connections(server) == 0

    async def work() -> int:
        await manager.store({"conversation_id": "c1", "working_memory": "x"})
        (found,) = await manager.retrieve({"conversation_id": "c1"}) or [MemoryRecord("missing")]
        assert found.working_memory == "x"
        open_now = connections(server)
        await manager.aclose()
        return open_now

    assert [asyncio.run(work()) for _ in range(2)] == [1, 1]
    assert connections(server) == 0
    assert 0 < kept(server)["memory:c1"][1] <= 60


def test_an_outage_is_an_error_and_never_an_empty_memory_and_is_over_when_the_server_is_back(
    server: RedisServer,
) -> None:
    manager = RedisMemoryManager(server.url)
    client = Appender()
    agent = WorkingMemoryAgent(client, manager)

    async def work() -> None:
        assert await agent.process(message("one")) == "success"
        server.stop()
        with pytest.raises(Unavailable, match="Redis did not answer"):
            await manager.retrieve({"conversation_id": "c1"})
        asked = len(client.inputs)
        status = await agent.process(message("x"))
        assert status.startswith("error: reading failed - Redis did not answer")
        assert len(client.inputs) == asked
        server.start()
        assert await manager.retrieve({"conversation_id": "c1"}) is None
        assert await agent.process(message("again")) == "success"
        await manager.aclose()

    asyncio.run(work())


def test_a_password_is_not_shown(server: RedisServer) -> None:
    manager = RedisMemoryManager(f"unix://:secret@{server.socket}-elsewhere")
    status = asyncio.run(WorkingMemoryAgent(Appender(), manager).process(message("x")))
    assert status.startswith("error: reading failed - Redis did not answer")
    assert "secret" not in status + repr(manager)


def test_agents_with_managers_of_their_own_on_one_server_wait_for_each_other(server: RedisServer) -> None:
    async def work() -> None:
        managers = [RedisMemoryManager(server.url) for _ in range(8)]
        agents = [WorkingMemoryAgent(Appender(), manager) for manager in managers]
        await asyncio.gather(*[agent.process(message(str(turn))) for turn, agent in enumerate(agents)])
        for manager in managers:
            await manager.aclose()

    asyncio.run(work())
    assert kept(server)["memory:c1"][0].split() == [str(turn) for turn in range(8)]


def test_what_has_no_conversation_is_not_kept(server: RedisServer) -> None:
    manager = RedisMemoryManager(server.url)
    asyncio.run(manager.store({"working_memory": "x"}))
    assert asyncio.run(manager.retrieve({})) is None
    assert kept(server) == {}


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "redis"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match=r"RedisMemoryManager needs the extra 'redis'"):
        RedisMemoryManager("redis://localhost")


@pytest.mark.parametrize("url", ["localhost:6379", "http://:secret@localhost", 7])
def test_a_url_of_something_else_is_refused_and_not_shown(url: Any) -> None:
    with pytest.raises(InvalidInput, match="redis_url") as caught:
        RedisMemoryManager(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput, match="ttl_seconds"):
        RedisMemoryManager("redis://localhost", ttl_seconds=0)

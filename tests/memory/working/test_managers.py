"""Where working memory is kept: a dict, a store, and that processes don't overwrite each other there."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Corrupt, InvalidInput
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.working import InMemoryManager, MemoryRecord, StoreMemoryManager, WorkingMemoryAgent
from holdfast.testing.clock import FrozenClock
from tests import forking
from tests.memory.working.support import Appender, message, take_turns

HELLO = {"conversation_id": "c1", "working_memory": "hello"}


@pytest.mark.parametrize("manager", [InMemoryManager(), StoreMemoryManager(InMemoryStore())])
def test_a_manager_gives_back_what_it_was_given_and_ignores_what_has_no_conversation(manager: Any) -> None:
    async def work() -> None:
        await manager.store({"working_memory": "lost"})
        assert await manager.retrieve({}) is None
        assert await manager.retrieve({"conversation_id": "c1"}) is None
        await manager.store(HELLO)
        (found,) = await manager.retrieve({"conversation_id": "c1"})
        assert found.working_memory == "hello"
        await manager.store({"conversation_id": "c1"})
        (found,) = await manager.retrieve({"conversation_id": "c1"})
        assert found.working_memory == ""

    asyncio.run(work())


@pytest.mark.parametrize("manager", [InMemoryManager(), StoreMemoryManager(InMemoryStore())])
@pytest.mark.parametrize(
    "data", ["c1", {"conversation_id": 7}, {"conversation_id": "c1", "working_memory": 7}]
)
def test_a_manager_refuses_what_it_can_not_keep(manager: Any, data: Any) -> None:
    with pytest.raises(InvalidInput, match=r"dict|conversation_id|working_memory"):
        asyncio.run(manager.store(data))


def test_a_memory_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    manager = InMemoryManager()
    asyncio.run(manager.store(HELLO))
    assert manager.show_memory("c1") == "hello"
    assert manager.show_memory("c2") is None
    assert capsys.readouterr().out == "[c1] stored 1 time\nhello\n[c2] no memory yet\n"


def test_a_store_keeps_each_conversation_under_its_id_and_versions_are_compared() -> None:
    async def work() -> None:
        store = InMemoryStore()
        manager = StoreMemoryManager(store, namespace=("bots", "memory"))
        await manager.store({**HELLO, "expected_version": 0})
        assert await store.get(("bots", "memory"), "c1") == {"working_memory": "hello"}
        with pytest.raises(Conflict):
            await manager.store({**HELLO, "expected_version": 0})
        (found,) = await manager.retrieve({"conversation_id": "c1"}) or [MemoryRecord("missing")]
        assert isinstance(found, MemoryRecord)
        await manager.store({**HELLO, "expected_version": found.version})

    asyncio.run(work())


def test_a_memory_expires_if_told_so() -> None:
    async def work() -> None:
        clock = FrozenClock()
        manager = StoreMemoryManager(InMemoryStore(clock=clock), ttl=60)
        await manager.store(HELLO)
        clock.advance(61)
        assert await manager.retrieve({"conversation_id": "c1"}) is None

    asyncio.run(work())


def test_an_item_of_somebody_else_is_not_taken_for_a_memory_nor_overwritten() -> None:
    async def work() -> None:
        store = InMemoryStore()
        await store.put(("working_memory",), "c1", [1, 2])
        manager = StoreMemoryManager(store)
        with pytest.raises(Corrupt, match="working_memory: c1"):
            await manager.retrieve({"conversation_id": "c1"})
        status = await WorkingMemoryAgent(Appender(), manager).process(message("x"))
        assert status.startswith("error: reading failed - ")
        assert await store.get(("working_memory",), "c1") == [1, 2]

    asyncio.run(work())


def test_what_another_process_wrote_meanwhile_is_read_and_the_turn_is_taken_again() -> None:
    async def work() -> None:
        store = InMemoryStore()
        manager = StoreMemoryManager(store)

        class Interrupted(Appender):
            async def chat(self, input: Any) -> dict[str, Any]:
                answer = await super().chat(input)
                if len(self.inputs) < 3:  # somebody else is faster, twice
                    text = f"theirs {len(self.inputs)}"
                    await manager.store({"conversation_id": "c1", "working_memory": text})
                return answer

        client = Interrupted()
        agent = WorkingMemoryAgent(client, manager)
        assert await agent.process(message("mine")) == "success"
        assert await store.get(("working_memory",), "c1") == {"working_memory": "theirs 2\nmine"}
        assert len(client.inputs) == 3

    asyncio.run(work())


def test_a_turn_that_is_always_too_late_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.memory.working.agent.ATTEMPTS", 3)
    manager = StoreMemoryManager(InMemoryStore())

    class Late(Appender):
        async def chat(self, input: Any) -> dict[str, Any]:
            answer = await super().chat(input)
            await manager.store({"conversation_id": "c1", "working_memory": "theirs"})
            return answer

    client = Late()
    agent = WorkingMemoryAgent(client, manager)
    status = asyncio.run(agent.process(message("mine")))
    assert status == "error: storage failed - others changed the conversation 3 times meanwhile"
    assert (len(client.inputs), agent.last_memory) == (3, "theirs\nmine")


def test_processes_that_share_a_conversation_lose_no_turn(tmp_path: Path) -> None:
    path, names, count = tmp_path / "memory.db", "abcd", 6
    with ProcessPoolExecutor(len(names), mp_context=forking.context()) as pool:
        jobs = [pool.submit(take_turns, path, name, count) for name in names]
        assert [job.result(60) for job in jobs] == [["success"] * count] * len(names)

    async def read() -> Any:
        async with SQLiteStore(path) as store:
            return await store.get(("working_memory",), "shared")

    kept = asyncio.run(read())["working_memory"].split()
    assert sorted(kept) == sorted(f"{name}{turn}" for name in names for turn in range(count))
    for name in names:
        assert [turn for turn in kept if turn[0] == name] == [f"{name}{turn}" for turn in range(count)]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [(("sqlite:x.db",), {}), ((InMemoryStore(),), {"namespace": "x"}), ((InMemoryStore(),), {"ttl": 0})],
)
def test_a_store_manager_checks_its_arguments(arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"store|namespace|ttl"):
        StoreMemoryManager(*arguments, **options)

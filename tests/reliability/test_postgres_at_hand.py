"""Connections that are kept at hand: nobody waits for one that is free, and none is kept for ever."""

import asyncio
import threading
from typing import Any

import pytest
from psycopg_pool import ConnectionPool, PoolTimeout

from holdfast.core.state import AgentState
from holdfast.memory.backends import postgres_driver
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer, PostgreSQLSyncCheckpointer
from tests.servers.fixtures import Database

WRITERS, SAVES = 8, 10


def test_more_threads_than_connections_all_get_their_turn(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url, max_pool_size=2, pool_timeout=20) as checkpointer:
        done: list[int] = []

        def write(number: int) -> None:
            for turn in range(SAVES):
                checkpointer.save(AgentState(iteration=turn), f"t{number}")
            done.append(number)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == list(range(WRITERS))
    assert postgres.sql("SELECT COUNT(*) FROM holdfast_checkpoints") == [(WRITERS * SAVES,)]


def test_more_tasks_than_connections_all_get_their_turn(postgres: Database) -> None:
    async def scenario() -> None:
        async with PostgreSQLCheckpointer(postgres.url, max_pool_size=2, pool_timeout=20) as checkpointer:

            async def write(number: int) -> None:
                for turn in range(SAVES):
                    await checkpointer.save(AgentState(iteration=turn), f"t{number}")

            await asyncio.gather(*map(write, range(WRITERS)))

    asyncio.run(scenario())
    assert postgres.sql("SELECT COUNT(*) FROM holdfast_checkpoints") == [(WRITERS * SAVES,)]


def test_a_task_that_is_cancelled_while_it_waits_takes_no_connection_with_it(postgres: Database) -> None:
    async def scenario() -> None:
        async with PostgreSQLCheckpointer(postgres.url, max_pool_size=1, pool_timeout=20) as checkpointer:
            await checkpointer.save(AgentState(), "t")
            for number in range(20):
                tasks = [asyncio.create_task(checkpointer.save(AgentState(), f"t{n}")) for n in range(4)]
                for _ in range(number):
                    await asyncio.sleep(0)
                for task in tasks[1:3]:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                assert isinstance(done[0], str)
                assert isinstance(done[3], str)
            assert await asyncio.wait_for(checkpointer.exists("t"), 20)

    asyncio.run(scenario())


def test_who_waits_too_long_is_told_and_the_connection_is_of_use(postgres: Database) -> None:
    async def scenario() -> None:
        engine = postgres.engine(postgres.url, max_pool_size=1, pool_timeout=0.05)
        held = await engine.driver.acquire()
        with pytest.raises(PoolTimeout):
            await engine.driver.acquire()
        await engine.driver.release(held, broken=False)
        again = await engine.driver.acquire()
        assert again is held
        await engine.driver.release(again, broken=True)
        new = await engine.driver.acquire()
        assert new is not held
        await engine.driver.release(new, broken=False)
        await engine.close()

    asyncio.run(scenario())


def test_a_connection_goes_back_to_its_pool_now_and_then(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[Any] = []
    given_back = ConnectionPool.putconn

    def put(self: ConnectionPool[Any], connection: Any) -> None:
        returned.append(connection)
        given_back(self, connection)

    monkeypatch.setattr(ConnectionPool, "putconn", put)
    with PostgreSQLSyncCheckpointer(postgres.url) as checkpointer:
        for turn in range(5):
            checkpointer.save(AgentState(iteration=turn), "t")
        assert returned == []
        monkeypatch.setattr(postgres_driver, "AT_HAND", -1.0)
        checkpointer.save(AgentState(iteration=6), "t")
        assert len(returned) == 1


def test_a_connection_that_the_server_closed_while_it_was_at_hand_is_not_used(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url, max_pool_size=1) as checkpointer:
        for turn in range(3):
            checkpointer.save(AgentState(iteration=turn), "t")
            postgres.sql(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert len(checkpointer.history("t", limit=10)) == 3

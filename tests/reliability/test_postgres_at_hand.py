"""Connections that are kept at hand: nobody waits for one that is free, and none is kept for ever."""

import asyncio
import threading
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

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
        monkeypatch.setattr(postgres_driver, "_AT_HAND", -1.0)
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

"""Event loops that end while connections are being made, used or given back."""

import asyncio
import logging
import threading

import pytest

from holdfast import connect
from holdfast.connection import Connection
from holdfast.core.state import AgentState
from tests.servers.fixtures import Database


async def leave(db: Connection, after: float) -> None:
    """Six callers, who are given up in the midst of it."""

    async def work(name: str) -> None:
        for _ in range(3):
            await db.checkpointer.save(AgentState(), name)

    working = [asyncio.create_task(work(f"t{number}")) for number in range(6)]
    await asyncio.wait(working, timeout=after)


def test_a_loop_that_ends_in_the_midst_of_it_ends_and_leaves_no_session(
    postgres: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "psycopg.pool")  # what pytest keeps of a log keeps connections
    db = connect(postgres.url, min_pool_size=0, max_pool_size=4)
    asyncio.run(leave(db, 30))  # the tables are there

    def sweep() -> None:
        for step in range(40):
            asyncio.run(leave(db, 0.0005 * step))
        asyncio.run(db.close())

    running = threading.Thread(target=sweep, daemon=True)
    running.start()
    running.join(60)
    assert not running.is_alive(), "a loop waits for a task that does not end"
    asyncio.run(postgres.alone())

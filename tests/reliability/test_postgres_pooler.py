"""Behind a pooler in transaction mode: every transaction may meet another connection."""

import asyncio
import threading

import psycopg
import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends import PostgreSQLCheckpointer, PostgreSQLSyncCheckpointer
from holdfast.memory.store_backends import PostgresStore
from tests.servers.fixtures import Database
from tests.servers.pgbouncer import POOLERS, pooled


def said(*words: str) -> AgentState:
    return AgentState().with_messages([Message.user(word) for word in words])


def test_our_pooler_keeps_no_session(postgres: Database) -> None:
    """What the other tests rely on: a session's state is gone with the transaction."""
    with (
        pooled("strict", postgres) as url,
        psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection,
    ):
        connection.execute("SET application_name = 'mine'")
        ((name,),) = connection.execute("SHOW application_name").fetchall()
        assert name == ""
        backends = {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(6)}
        assert len(backends) == 3


def test_pgbouncer_gives_each_transaction_any_connection(postgres: Database) -> None:
    """What the other tests rely on: while one client is in a transaction, others are served by other connections."""
    with pooled("pgbouncer", postgres) as url, psycopg.connect(url, prepare_threshold=None) as first:
        (held,) = first.execute("SELECT pg_backend_pid()").fetchall()
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as second:
            assert second.execute("SELECT pg_backend_pid()").fetchall() != [held]
            first.commit()
            assert second.execute("SHOW application_name").fetchall()


@pytest.mark.parametrize("kind", POOLERS)
def test_a_checkpointer_needs_no_session(postgres: Database, kind: str) -> None:
    async def run(url: str) -> None:
        async with PostgreSQLCheckpointer(url) as checkpointer:
            state, parent = said("apples"), None
            for number in range(8):
                parent = await checkpointer.save(state, "t", parent=parent)
                state = state.with_message(Message.user(f"pears {number}"))
            assert parent is not None
            await checkpointer.put_writes("t", parent, "task", [("x", 1)])
            await checkpointer.fork("t", parent, "f")
            assert len(await checkpointer.search("pears")) == 10
            assert await checkpointer.list_threads() == ["f", "t"]
            assert len(await checkpointer.history("t", limit=3)) == 3
            await checkpointer.prune(keep_last=2)
            await checkpointer.delete("t")
            found = await checkpointer.load("f")
            assert found is not None
            assert len(found.messages) == 8

            async def save(name: str) -> None:
                for number in range(5):
                    await checkpointer.save(said(*map(str, range(number))), name)

            await asyncio.gather(*(save(f"c{number}") for number in range(8)))
            assert (await checkpointer.stats()).threads == 9

    with pooled(kind, postgres) as url:
        asyncio.run(run(url))


@pytest.mark.parametrize("kind", POOLERS)
def test_a_blocking_twin_and_a_store_need_none_either(postgres: Database, kind: str) -> None:
    async def items(url: str) -> None:
        async with PostgresStore(url) as store:
            await asyncio.gather(*(store.put(("a",), f"k{number}", {"n": number}) for number in range(10)))
            assert len(await store.list_keys(("a",))) == 10
            assert [item.value["n"] for item in await store.search(("a",), filter={"value.n": 3})] == [3]

    with pooled(kind, postgres) as url:
        with PostgreSQLSyncCheckpointer(url) as checkpointer:
            writers = [
                threading.Thread(
                    target=lambda name=name: [checkpointer.save(said(name), name) for _ in range(5)]
                )
                for name in ("a", "b", "c", "d")
            ]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            assert sorted(checkpointer.list_threads()) == ["a", "b", "c", "d"]
            assert all(len(checkpointer.list_checkpoints(name)) == 5 for name in "abcd")
        asyncio.run(items(url))

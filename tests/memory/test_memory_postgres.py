"""A whole memory on PostgreSQL: episodes, facts, blocks and threads on one pool, kept by several processes' objects."""

import asyncio

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory import Episode, Fact, LazyMemory, resolve_memory
from holdfast.memory.embedder import HashEmbedder
from holdfast.memory.postgres import PostgresMemory
from tests.servers.fixtures import Database


def test_a_memory_is_kept_in_the_database_with_the_threads_of_its_users(postgres: Database) -> None:
    async def write() -> None:
        async with PostgresMemory.connect(postgres.url, embedder=HashEmbedder(64), schema="mind") as memory:
            await memory.remember(
                Episode(text="My puppy is called Biscuit.", session_id="s"), user_id="alice"
            )
            await memory.update_block("goals", "Learn Rust.", user_id="alice")
            assert memory.facts is not None
            await memory.facts.add(
                Fact(subject="Alice", predicate="lives in", object="Oslo"), user_id="alice"
            )
            assert memory.checkpointer is not None
            scoped = memory.checkpointer.scoped("alice")
            await scoped.save(AgentState(agent_id="a").with_message(Message.user("hello")), "thread")

    async def read() -> None:
        async with PostgresMemory.connect(postgres.url, embedder=HashEmbedder(64), schema="mind") as memory:
            assert (await memory.recall("the puppy's name", user_id="alice"))[0].text.endswith("Biscuit.")
            assert await memory.recall("the puppy's name", user_id="bob") == []
            assert await memory.working(user_id="alice") == {"goals": "Learn Rust."}
            assert [
                fact.object for fact in await memory.recall_facts("Where does Alice live?", user_id="alice")
            ]
            receipt = await memory.forget(user_id="alice", threads=True)
            assert receipt.complete
            assert await memory.working(user_id="alice") == {}
            assert memory.checkpointer is not None
            assert await memory.checkpointer.scoped("alice").list_threads() == []

    asyncio.run(write())
    asyncio.run(read())
    for (table,) in postgres.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mind'"
    ):
        assert "Biscuit" not in str(postgres.sql(f"SELECT * FROM mind.{table}"))


def test_a_memory_without_facts_has_none(postgres: Database) -> None:
    assert PostgresMemory.connect(postgres.url, with_facts=False).facts is None


def test_a_memory_by_its_address_is_the_same(postgres: Database) -> None:
    async def run() -> None:
        async with LazyMemory(postgres.url, embedder="hash") as memory:
            await memory.remember("My puppy is called Biscuit.", user_id="alice")
        async with resolve_memory({"url": postgres.url, "embedder": "hash"}) as memory:
            assert len(await memory.recall("puppy", user_id="alice")) == 1
        async with PostgresMemory.connect(postgres.url, embedder="hash") as memory:
            assert len(await memory.recall("puppy", user_id="alice")) == 1

    asyncio.run(run())

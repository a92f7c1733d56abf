"""The commands about memories, and `schema`, on a real PostgreSQL."""

import asyncio
import json
from typing import Any

from click.testing import CliRunner

from holdfast import connect
from holdfast.cli.commands import app
from holdfast.core.state import AgentState
from holdfast.memory.embedder import HashEmbedder
from holdfast.memory.postgres import PostgresMemory
from holdfast.resolving import LazyMemory
from tests.cli.memories import HARBOUR, fill
from tests.servers.fixtures import Database


def holdfast(database: Database, *args: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*args, "--json"], env={"HOLDFAST_DB": database.url})
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_memories_are_listed_searched_embedded_anew_and_forgotten(postgres: Database) -> None:
    async def prepare() -> None:
        async with LazyMemory(postgres.url, embedder=HashEmbedder(64)) as memory:
            await fill(memory)

    asyncio.run(prepare())
    users = holdfast(postgres, "memory", "list")
    assert [(user["user"], user["episodes"]) for user in users] == [(None, 0), ("alice", 3), ("bob", 1)]
    (hit, *_) = holdfast(postgres, "memory", "search", "Where do I live?", "--user", "alice")
    assert (hit["text"], "meaning" in hit["parts"]) == (HARBOUR, True)
    (fact,) = holdfast(postgres, "memory", "facts", "--user", "alice", "--valid-at", "2024-05-01")
    told = holdfast(postgres, "memory", "blame", fact["id"][:8], "--user", "alice")
    assert (told["fact"]["object"], told["superseded_by"][0]["object"]) == ("Lisbon", "Oslo")
    assert holdfast(postgres, "reembed", "--embedder", "hash")["embedded"] == 4
    assert holdfast(postgres, "reembed", "--embedder", "hash")["embedded"] == 0

    async def go_on() -> None:
        async with PostgresMemory.connect(postgres.url) as memory:  # stays with what is stored
            (hit, *_) = await memory.recall_scored("Where do I live?", 1, user_id="alice")
            assert (hit.episode.text, "meaning" in hit.parts) == (HARBOUR, True)

    asyncio.run(go_on())
    receipt = holdfast(postgres, "memory", "forget", "--user", "alice", "--threads", "--yes")
    assert (receipt["complete"], receipt["removed"]["episodes"], receipt["removed"]["threads"]) == (
        True,
        3,
        1,
    )
    assert holdfast(postgres, "memory", "list", "--user", "alice", code=1) == []


def test_the_printed_schema_is_enough_for_programs_that_may_not_create_tables(postgres: Database) -> None:
    result = CliRunner().invoke(app, ["schema", "postgresql"])
    assert result.exit_code == 0, result.output
    for _ in range(2):
        postgres.sql(result.stdout)

    async def scenario() -> None:
        async with connect(postgres.url, auto_create_table=False) as database:
            await database.checkpointer.save(AgentState(), "thread")
            await database.store.put(("notes",), "k", "some words")
            assert len(await database.store.search(("notes",), "words")) == 1

    asyncio.run(scenario())
    postgres.sql(result.stdout)
    assert holdfast(postgres, "threads")[0]["thread_id"] == "thread"

"""How often PostgreSQL is spoken to, counted by a proxy in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.backends.postgres_store import PostgresStore
from holdfast.memory.backends.sql.foresight import foresee_save, foreseen
from holdfast.memory.backends.sql.plan import Plan, Statement
from holdfast.memory.recall import recall_items
from tests.servers.fixtures import Database
from tests.servers.proxy import Proxy


class Counted:
    """A checkpointer behind a proxy, with its tables and a connection at hand."""

    def __init__(self, url: str, proxy: Proxy) -> None:
        self.checkpointer = PostgreSQLCheckpointer(url, min_pool_size=1, max_pool_size=1)
        self._proxy = proxy

    async def __call__(self, call: Awaitable[Any]) -> tuple[Any, int]:
        before = self._proxy.turns
        return await call, self._proxy.turns - before


def on_counted(
    postgres: Database, proxy: Proxy, scenario: Callable[[Counted, PostgreSQLCheckpointer], Awaitable[None]]
) -> None:
    async def run() -> None:
        counted = Counted(postgres.through(proxy), proxy)
        async with counted.checkpointer as checkpointer:
            await checkpointer.save(AgentState(), "warm")
            await scenario(counted, checkpointer)

    asyncio.run(run())


def grown(state: AgentState, word: str) -> AgentState:
    return state.with_message(Message.user(word))


def test_a_save_on_a_known_parent_is_one_round_trip_and_others_are_two(
    postgres: Database, proxy: Proxy
) -> None:
    async def scenario(counted: Counted, checkpointer: PostgreSQLCheckpointer) -> None:
        state = AgentState()
        parent, turns = await counted(checkpointer.save(state, "t"))
        assert turns == 2
        for number in range(5):
            state = grown(state, f"word {number}")
            parent, turns = await counted(checkpointer.save(state, "t", parent=parent))
            assert turns == 1, number
        state = grown(state, "no parent")
        parent, turns = await counted(checkpointer.save(state, "t"))
        assert turns == 1
        other = PostgreSQLCheckpointer(postgres.url)
        state = grown(state, "by another process")
        parent = await other.save(state, "t", parent=parent)
        await other.close()
        state = grown(state, "that is not known here")
        parent, turns = await counted(checkpointer.save(state, "t", parent=parent))
        assert turns <= 3  # what it thought it knew is wrong: it finds out, reads, and saves
        state = grown(state, "given id")
        parent, turns = await counted(checkpointer.save(state, "t", "my id", parent=parent))
        assert turns == 2

    on_counted(postgres, proxy, scenario)


def test_a_save_after_a_load_and_a_save_by_somebody_new_are_two_round_trips(
    postgres: Database, proxy: Proxy
) -> None:
    async def scenario(counted: Counted, checkpointer: PostgreSQLCheckpointer) -> None:
        writer = PostgreSQLCheckpointer(postgres.url)
        state = AgentState()
        parent = None
        for number in range(10):
            state = grown(state, f"word {number}")
            parent = await writer.save(state, "t", parent=parent)
            parent_of_u = await writer.save(state, "u")
        await writer.close()
        loaded = await checkpointer.load("t")
        assert loaded is not None
        parent, turns = await counted(checkpointer.save(grown(loaded, "after a load"), "t", parent=parent))
        assert turns == 2
        _, turns = await counted(checkpointer.save(grown(state, "somebody new"), "u", parent=parent_of_u))
        assert turns == 2
        entries = postgres.sql("SELECT COUNT(DISTINCT (life, log)) FROM holdfast_entries")
        assert entries == [(2,)]  # both were appended where the others are

    on_counted(postgres, proxy, scenario)


def test_loading_is_one_round_trip_at_any_length_in_the_past_and_in_forks(
    postgres: Database, proxy: Proxy
) -> None:
    async def scenario(counted: Counted, checkpointer: PostgreSQLCheckpointer) -> None:
        state = AgentState()
        saved: list[tuple[str, AgentState]] = []
        for number in range(40):
            state = (
                grown(state, f"word {number}")
                if number != 20
                else state.model_copy(update={"messages": (Message.user("summary"), *state.messages[-2:])})
            )
            saved.append((await checkpointer.save(state, "t"), state))
        for checkpoint_id, expected in (saved[-1], saved[0], saved[19], saved[20]):
            found, turns = await counted(checkpointer.load("t", checkpoint_id))
            assert (found, turns) == (expected, 1)
        assert (await counted(checkpointer.load("t"))) == (state, 1)
        assert (await counted(checkpointer.load("missing"))) == (None, 1)
        await checkpointer.fork("t", saved[19][0], "f")
        assert (await counted(checkpointer.load("f"))) == (saved[19][1], 1)
        more = grown(saved[19][1], "in the fork")
        await checkpointer.save(more, "f")
        assert (await counted(checkpointer.load("f"))) == (more, 1)
        assert (await counted(checkpointer.head("f")))[1] == 1

    on_counted(postgres, proxy, scenario)


def test_the_ten_newest_ids_with_metadata_are_one_round_trip(postgres: Database, proxy: Proxy) -> None:
    async def scenario(counted: Counted, checkpointer: PostgreSQLCheckpointer) -> None:
        for number in range(30):
            await checkpointer.save(AgentState(iteration=number), "t", metadata={"n": number})
        history, turns = await counted(checkpointer.history("t", limit=10))
        assert [info.metadata["n"] for info in history] == list(range(29, 19, -1))
        assert turns == 1
        assert (await counted(checkpointer.list_checkpoints("t", limit=10)))[1] == 1
        assert (await counted(checkpointer.list_threads()))[1] == 1

    on_counted(postgres, proxy, scenario)


def test_a_question_like_the_last_one_is_one_round_trip(postgres: Database, proxy: Proxy) -> None:
    words = ("tea", "rain", "boat", "sun")

    async def run() -> None:
        async with PostgresStore(postgres.through(proxy), min_pool_size=1, max_pool_size=1) as store:
            for number in range(20):
                place = {"group": "s", "ordinal": number}
                await store.put(("a",), f"k{number}", {"text": f"{words[number % 4]} {number}"}, place)
            question = "Was there tea, or rain?"
            first = await recall_items(store, ("a",), question, 5)
            before = proxy.turns
            assert await recall_items(store, ("a",), question, 5) == first
            assert proxy.turns - before == 1
            await store.put(("a",), "new", {"text": "tea tea tea"})
            assert "new" in [hit.item.key for hit in await recall_items(store, ("a",), question, 20)]

    asyncio.run(run())


def test_what_a_load_asks_for_is_cheap_in_the_eyes_of_the_server(postgres: Database) -> None:
    async def scenario() -> list[Statement]:
        async with PostgreSQLCheckpointer(postgres.url) as checkpointer:
            state = AgentState()
            for number in range(5):
                state = grown(state, f"word {number}")
                await checkpointer.save(state, "t")
            tables, key = checkpointer._tables, checkpointer._key("t")

            def never() -> Plan[None]:
                raise AssertionError("only its questions are wanted")

            load = foreseen(tables, key, None, never)
            save = foresee_save(tables, key, "id", never, lists=True)
            return [*next(load), *next(save)]

    asked = asyncio.run(scenario())
    assert len(asked) == 3 + 5
    for statement in asked:
        text = statement.sql.replace("?", "%s")
        ((plan,),) = postgres.sql(f"EXPLAIN (FORMAT JSON) {text}", *statement.params)
        # From 100,000 on many servers compile a query before they run it, which takes longer than all the rest.
        assert plan[0]["Plan"]["Total Cost"] < 1000, statement.sql

"""Many writers on one server, PostgreSQL or another: nobody overwrites, nothing is lost, nothing is left behind."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Conflict, HoldfastError
from holdfast.memory.backends.postgres_engine import POSTGRES, postgres_engine
from holdfast.memory.backends.sql.plan import Plan, change, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.checkpointer import BaseCheckpointer
from tests.servers.fixtures import AnyDatabase, Database

WRITERS = 8
TABLES = "threads lives ghosts hidden checkpoints entries writes words unindexed".split()


def with_writers(
    database: AnyDatabase,
    scenario: Callable[[list[BaseCheckpointer]], Awaitable[None]],
    count: int = WRITERS,
) -> None:
    """Each has connections and a memory of its own, as a process would."""

    async def run() -> None:
        writers = [database.checkpointer(database.url, max_pool_size=3) for _ in range(count)]
        try:
            await writers[0].list_threads()
            await scenario(writers)
        finally:
            for writer in writers:
                await writer.close()

    asyncio.run(run())


def said(*words: str) -> AgentState:
    return AgentState().with_messages([Message.user(word) for word in words])


def rows_left(database: AnyDatabase) -> dict[str, int]:
    counts = {table: database.sql(f"SELECT COUNT(*) FROM holdfast_{table}")[0][0] for table in TABLES}
    return {table: count for table, count in counts.items() if count}


async def outcome(call: Awaitable[object]) -> object:
    try:
        return await call
    except HoldfastError as error:
        return type(error)


def test_of_those_who_create_a_thread_at_once_one_wins_and_without_a_parent_all_are_kept(
    database: AnyDatabase,
) -> None:
    async def scenario(writers: list[BaseCheckpointer]) -> None:
        for round_ in range(5):
            results = await asyncio.gather(
                *(outcome(w.save(said(f"{n}"), f"new {round_}", parent=None)) for n, w in enumerate(writers))
            )
            assert Counter(isinstance(result, str) for result in results) == {True: 1, False: WRITERS - 1}
            assert set(map(type, results)) == {str, type}
            assert {result for result in results if not isinstance(result, str)} == {Conflict}
            saved = await asyncio.gather(
                *(w.save(said(f"{n}"), f"all {round_}") for n, w in enumerate(writers))
            )
            assert sorted(await writers[0].list_checkpoints(f"all {round_}")) == sorted(saved)
            loaded = [await writers[-1].load(f"all {round_}", checkpoint_id) for checkpoint_id in saved]
            assert loaded == [
                state.model_copy(update={"messages": said(f"{n}").messages}) if state else None
                for n, state in enumerate(loaded)
            ]

    with_writers(database, scenario)


def test_compare_and_set_lets_one_writer_through_at_a_time(database: AnyDatabase) -> None:
    async def scenario(writers: list[BaseCheckpointer]) -> None:
        await writers[0].save(said(), "t")
        wins = 0

        async def write(number: int, writer: BaseCheckpointer) -> None:
            nonlocal wins
            while wins < 60:
                found = await writer.get("t")
                assert found is not None
                state = found.state.with_message(Message.user(f"{number} {wins}"))
                if isinstance(await outcome(writer.save(state, "t", parent=found.info.checkpoint_id)), str):
                    wins += 1

        await asyncio.gather(*(write(n, w) for n, w in enumerate(writers)))
        final = await writers[0].load("t")
        assert final is not None
        assert len(final.messages) == wins
        assert len(await writers[0].list_checkpoints("t", limit=1000)) == wins + 1
        numbers = [info.sequence for info in await writers[0].history("t", limit=1000)]
        assert numbers == list(range(wins + 1, 0, -1))

    with_writers(database, scenario)


def test_forks_deletes_prunes_and_saves_at_once_lose_nothing_and_leave_nothing(database: AnyDatabase) -> None:
    async def scenario(writers: list[BaseCheckpointer]) -> None:
        names = [f"t{number}" for number in range(5)]

        async def act(writer: BaseCheckpointer, chance: random.Random) -> None:
            for step in range(40):
                name, other = chance.sample(names, 2)
                action = chance.choice(
                    ["save", "save", "save", "fork", "fork", "delete", "cut", "prune", "writes"]
                )
                if action == "save":
                    state = await writer.load(name) or said()
                    await outcome(writer.save(state.with_message(Message.user(f"word {step}")), name))
                elif action == "fork":
                    found = await writer.list_checkpoints(name, limit=3)
                    if found:
                        await outcome(writer.fork(name, chance.choice(list(found)), other))
                elif action == "delete":
                    await writer.delete(name)
                elif action == "cut":
                    found = await writer.list_checkpoints(name, limit=3)
                    if found:
                        await writer.delete(name, chance.choice(list(found)))
                elif action == "prune":
                    await writer.prune(keep_last=2)
                else:
                    found = await writer.list_checkpoints(name, limit=2)
                    if found:
                        await outcome(writer.put_writes(name, found[0], "task", [("x", step)]))

        await asyncio.gather(*(act(w, random.Random(n)) for n, w in enumerate(writers)))
        reader = database.checkpointer(database.url)
        for name in await reader.list_threads():
            for checkpoint_id in await reader.list_checkpoints(name, limit=1000):
                assert await reader.load(name, checkpoint_id) is not None, (name, checkpoint_id)
        await reader.search("word")
        for name in names:
            await reader.delete(name)
        await reader.close()
        assert rows_left(database) == {}

    with_writers(database, scenario)


def test_forks_of_a_deleted_thread_that_go_at_once_take_all_with_them(database: AnyDatabase) -> None:
    async def scenario(writers: list[BaseCheckpointer]) -> None:
        for _ in range(10):
            state = said("base")
            for word in ("one", "two"):
                state = state.with_message(Message.user(word))
                head = await writers[0].save(state, "base")
            for number in range(len(writers)):
                await writers[0].fork("base", head, f"fork {number}")
            await writers[0].search("base")
            gone = await asyncio.gather(
                writers[0].delete("base"), *(w.delete(f"fork {n}") for n, w in enumerate(writers))
            )
            assert all(gone)
            assert rows_left(database) == {}

    with_writers(database, scenario)


def test_a_listing_by_pages_meets_every_thread_while_all_are_being_saved(database: AnyDatabase) -> None:
    async def scenario(writers: list[BaseCheckpointer]) -> None:
        names = {f"t{number}" for number in range(40)}
        for name in sorted(names):
            await writers[0].save(said(name), name)
        done = asyncio.Event()

        async def save(writer: BaseCheckpointer, chance: random.Random) -> None:
            while not done.is_set():
                await writer.save(said("again"), chance.choice(sorted(names)))

        saving = [asyncio.create_task(save(w, random.Random(n))) for n, w in enumerate(writers[1:])]
        for _ in range(12):
            met: set[str] = set()
            after: str | None = None
            while True:
                page = await writers[0].list_threads(limit=7, after=after)
                met.update(page)
                after = page.next
                if after is None or met == names:
                    break
            assert met == names
        done.set()
        await asyncio.gather(*saving)

    with_writers(database, scenario)


def test_a_listing_does_not_pass_by_a_save_that_has_its_number_but_is_not_committed(
    postgres: Database,
) -> None:
    async def waiting(count: int) -> None:
        query = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while postgres.sql(query)[0][0] < count:
            await asyncio.sleep(0.01)

    async def scenario(writers: list[BaseCheckpointer]) -> None:
        slow, quick, lister = writers
        for name in ("slow", "older", "b", "c", "d"):
            await slow.save(AgentState(), name)
        for name in ("b", "c", "d"):
            await quick.load(name)
        with psycopg.connect(postgres.url) as blocking:
            blocking.execute("LOCK TABLE holdfast_unindexed IN EXCLUSIVE MODE")
            late = asyncio.create_task(slow.save(said("word"), "slow"))  # its thread has a number by now
            await waiting(1)
            for name in ("b", "c", "d"):  # nothing to be indexed: these are not held up
                await quick.save(AgentState(iteration=2), name)
            first = asyncio.create_task(lister.list_threads(limit=4))
            await asyncio.wait([first], timeout=0.5)
            blocking.commit()
        await late
        page = await first
        met = [*page]
        while page.next is not None:
            page = await lister.list_threads(limit=2, after=page.next)
            met += page
        assert set(met) == {"slow", "older", "b", "c", "d"}

    with_writers(postgres, scenario, 3)


def test_search_finds_what_was_saved_whatever_the_order_of_the_commits(database: AnyDatabase) -> None:
    async def scenario(writers: list[BaseCheckpointer]) -> None:
        async def save_and_find(number: int, writer: BaseCheckpointer) -> None:
            for turn in range(12):
                word = f"unique{number}x{turn}"
                await writer.save(said(word), f"t{number}")
                hits = await writer.search(word)
                assert [hit["thread_id"] for hit in hits] == [f"t{number}"], word

        await asyncio.gather(*(save_and_find(n, w) for n, w in enumerate(writers)))
        assert database.sql("SELECT COUNT(*) FROM holdfast_unindexed") == [(0,)]

    with_writers(database, scenario)


NOTES = Schema("notes", "notes_meta", POSTGRES, (("CREATE TABLE notes (n BIGINT PRIMARY KEY)",),), ("notes",))


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_what_the_server_undid_because_of_others_is_done_again_and_given_up_in_the_end(
    postgres: Database, state: str
) -> None:
    async def run() -> None:
        engine = postgres_engine(postgres.url).using(NOTES)
        tries: list[int] = []

        def plan(failures: int) -> Plan[int]:
            tries.append(len(tries))
            yield [change("INSERT INTO notes (n) VALUES (?)", len(tries))]
            if len(tries) <= failures:
                yield from fetch(f"DO $$ BEGIN RAISE EXCEPTION 'others' USING ERRCODE = '{state}'; END $$")
            return len(tries)

        assert await engine.write(lambda: plan(3)) == 4
        assert postgres.sql("SELECT n FROM notes") == [(4,)]
        tries.clear()
        with pytest.raises(Conflict, match="others"):
            await engine.write(lambda: plan(100))
        assert len(tries) == 8
        assert postgres.sql("SELECT n FROM notes") == [(4,)]
        await engine.close()

    asyncio.run(run())

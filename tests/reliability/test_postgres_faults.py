"""A server goes away, cuts off, is full, is slow: nothing acknowledged is lost, nothing is saved twice, and every
error is one of ours."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.errors import Conflict, Corrupt, HoldfastError, SchemaMismatch, StorageFull, Unavailable
from holdfast.memory.backends import PostgreSQLCheckpointer, PostgreSQLSyncCheckpointer
from holdfast.memory.backends.postgres_engine import POSTGRES, postgres_engine
from holdfast.memory.backends.sql.plan import Plan, change, fetch, last
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.checkpointer import BaseCheckpointer
from tests.reliability.writers import Writers, said
from tests.servers.fixtures import AnyDatabase, Database, MariaDatabase
from tests.servers.mariadb import own_server as own_mariadb
from tests.servers.postgres import own_server
from tests.servers.proxy import Proxy

PLAIN = replace(POSTGRES, id_text="VARCHAR(64)")  # what both servers take
NOTES = Schema("notes", "notes_meta", PLAIN, (("CREATE TABLE notes (n BIGINT)",),), ("notes",))


@pytest.fixture
def proxy(database: AnyDatabase) -> Iterator[Proxy]:
    with Proxy(database.server.socket) as opened:
        yield opened


def behind(
    database: AnyDatabase, proxy: Proxy, scenario: Callable[[BaseCheckpointer], Awaitable[None]]
) -> None:
    async def run() -> None:
        url = database.through(proxy)
        async with database.checkpointer(url, max_pool_size=1, pool_timeout=5) as checkpointer:
            await checkpointer.save(said("first"), "t", "c0")
            await scenario(checkpointer)

    asyncio.run(run())


# ── connections ───────────────────────────────────────────────────────────────────────────────────


def test_a_connection_that_broke_while_nobody_used_it_is_replaced_without_a_word(
    database: AnyDatabase, proxy: Proxy
) -> None:
    async def scenario(checkpointer: BaseCheckpointer) -> None:
        for turn in range(3):
            proxy.cut_all()
            await checkpointer.save(said("again"), "t")
            proxy.cut_all()
            assert await checkpointer.load("t") is not None, turn
        assert len(await checkpointer.list_checkpoints("t")) == 4

    behind(database, proxy, scenario)


def test_a_read_whose_answer_is_lost_is_asked_again(database: AnyDatabase, proxy: Proxy) -> None:
    async def scenario(checkpointer: BaseCheckpointer) -> None:
        proxy.cut_next_answer()
        assert await checkpointer.load("t") is not None
        proxy.cut_next_answer(3)
        assert await checkpointer.list_threads() == ["t"]

    behind(database, proxy, scenario)


def test_a_save_under_a_given_id_whose_answer_is_lost_is_done_once(
    database: AnyDatabase, proxy: Proxy
) -> None:
    async def scenario(checkpointer: BaseCheckpointer) -> None:
        state = said("first", "second")
        for turn in range(1, 6):
            proxy.cut_next_answer(turn % 3 + 1)
            assert await checkpointer.save(state, "t", f"c{turn}", parent=f"c{turn - 1}") == f"c{turn}"
        assert await checkpointer.list_checkpoints("t") == [f"c{turn}" for turn in range(5, -1, -1)]
        assert await checkpointer.load("t") == state

    behind(database, proxy, scenario)


def test_another_save_whose_answer_is_lost_is_unavailable_and_the_caller_can_see_what_became_of_it(
    database: AnyDatabase, proxy: Proxy
) -> None:
    async def scenario(checkpointer: BaseCheckpointer) -> None:
        one, two = said("a"), said("a", "b")
        for turn in range(5):
            thread = f"t{turn}"
            parent = await checkpointer.save(one, thread)
            proxy.cut_next_answer()
            with pytest.raises(Unavailable, match="not known"):
                await checkpointer.save(two, thread, parent=parent)
            if isinstance(database, MariaDatabase):
                await database.alone()  # until then, the server may be at it
            head = await checkpointer.head(thread)
            assert head is not None
            if isinstance(database, Database) or head.checkpoint_id != parent:
                assert head.parent_id == parent  # it was done: the proxy lost the answer, not the question
                with pytest.raises(Conflict):  # so that a writer who only tries again does not do it twice
                    await checkpointer.save(two, thread, parent=parent)
            else:  # MariaDB answers each statement, and stops if nobody is there: then nothing was done
                assert await checkpointer.load(thread) == one
                await checkpointer.save(two, thread, parent=parent)
            assert len(await checkpointer.list_checkpoints(thread)) == 2
            assert await checkpointer.load(thread) == two
        for table in ("holdfast_checkpoints", "holdfast_entries"):
            assert database.sql(f"SELECT COUNT(*) FROM {table}") == [(11,)], "nothing half, nothing doubled"

    behind(database, proxy, scenario)


def test_a_plan_that_breaks_before_it_commits_is_run_again(database: AnyDatabase, proxy: Proxy) -> None:
    async def run() -> None:
        engine = database.engine(database.through(proxy)).using(NOTES)
        tries: list[int] = []

        def plan() -> Plan[None]:
            tries.append(1)
            if len(tries) == 1:
                proxy.cut_next_answer()
            yield [change("INSERT INTO notes (n) VALUES (?)", len(tries))]
            yield last([change("INSERT INTO notes (n) VALUES (?)", len(tries))])

        await engine.read(lambda: fetch("SELECT 1"))
        await engine.write(plan)
        assert database.sql("SELECT n FROM notes") == [(2,), (2,)]
        await engine.close()

    asyncio.run(run())


def test_more_callers_than_connections_wait_and_are_told_when_it_takes_too_long(postgres: Database) -> None:
    async def run() -> None:
        engine = postgres_engine(postgres.url, max_pool_size=1, pool_timeout=3).using(NOTES)
        await engine.read(lambda: fetch("SELECT 1"))
        assert await asyncio.gather(*(engine.read(lambda: fetch("SELECT 1")) for _ in range(20)))
        with psycopg.connect(postgres.url) as holding:
            holding.execute("LOCK TABLE notes")
            busy = asyncio.ensure_future(engine.read(lambda: fetch("SELECT n FROM notes")))
            await asyncio.sleep(0.05)
            with pytest.raises(Unavailable, match="no connection was free"):
                await engine.read(lambda: fetch("SELECT 1"))
        assert await busy == []
        assert await engine.read(lambda: fetch("SELECT 1")) == [(1,)]
        await engine.close()

    asyncio.run(run())


# ── what the server says ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("53100", StorageFull),  # disk full
        ("53200", StorageFull),  # out of memory
        ("53300", Unavailable),  # too many connections
        ("57014", Unavailable),  # statement time-out
        ("55P03", Unavailable),  # lock not available
        ("42501", Unavailable),  # no privilege
        ("42P01", SchemaMismatch),  # no such table
        ("XX001", Corrupt),  # data corrupted
        ("23514", HoldfastError),  # anything else
    ],
)
def test_every_error_of_the_server_is_one_of_ours(
    postgres: Database, state: str, error: type[HoldfastError]
) -> None:
    async def run() -> None:
        engine = postgres_engine(postgres.url).using(NOTES)

        def plan() -> Plan[None]:
            yield [change("INSERT INTO notes (n) VALUES (1)")]
            yield from fetch(f"DO $$ BEGIN RAISE EXCEPTION 'told so' USING ERRCODE = '{state}'; END $$")

        with pytest.raises(HoldfastError, match="told so") as caught:
            await engine.write(plan)
        assert type(caught.value) is error
        assert await engine.read(lambda: fetch("SELECT n FROM notes")) == []
        await engine.close()

    asyncio.run(run())


def test_a_table_that_is_gone_is_told_as_such(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url) as checkpointer:
        checkpointer.save(said("x"), "t")
        postgres.sql("ALTER TABLE holdfast_entries RENAME TO elsewhere")
        with pytest.raises(SchemaMismatch, match="holdfast_entries"):
            checkpointer.load("t")


def test_cancelling_a_save_finishes_it_or_leaves_nothing_and_the_connection_is_of_use(
    database: AnyDatabase,
) -> None:
    async def run() -> None:
        async with database.checkpointer(database.url, max_pool_size=1) as checkpointer:
            parent = await checkpointer.save(said("0"), "t")
            for turn in range(30):
                saving = asyncio.create_task(checkpointer.save(said("0", f"{turn}"), "t", parent=parent))
                for _ in range(turn % 10):
                    await asyncio.sleep(0)
                if saving.cancel():  # else it was done
                    with pytest.raises(asyncio.CancelledError):
                        await saving
                head = await checkpointer.head("t")
                assert head is not None
                assert parent in (head.checkpoint_id, head.parent_id)
                parent = head.checkpoint_id
            loading = [asyncio.create_task(checkpointer.load("t")) for _ in range(5)]
            await asyncio.sleep(0)
            for task in loading:
                task.cancel()
            await asyncio.gather(*loading, return_exceptions=True)
            assert await checkpointer.load("t") is not None

    asyncio.run(run())


def test_every_loop_has_its_own_connections_and_those_of_a_loop_that_ended_are_closed(
    postgres: Database,
) -> None:
    checkpointer = PostgreSQLCheckpointer(postgres.url, max_pool_size=1)
    for turn in range(6):
        asyncio.run(checkpointer.save(said(f"{turn}"), "t"))
    running = threading.Event()
    done = threading.Event()

    async def elsewhere() -> None:
        await checkpointer.save(said("elsewhere"), "t")
        running.set()
        while not done.is_set():
            await asyncio.sleep(0.01)

    other = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    other.start()
    assert running.wait(30)

    async def close() -> None:
        assert len(await checkpointer.list_checkpoints("t")) == 7
        await postgres.alone(4)  # two loops that run: the six that ended have none
        await checkpointer.close()
        await postgres.alone()

    try:
        asyncio.run(close())
    finally:
        done.set()
        other.join()


def test_a_forked_child_has_connections_of_its_own(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url) as checkpointer:
        checkpointer.save(said("parent"), "t")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                checkpointer.save(said("child"), "u")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert checkpointer.load("u") is not None
        assert checkpointer.save(said("parent", "again"), "t")


# ── the server is killed ──────────────────────────────────────────────────────────────────────────


SAVES = 125


@pytest.mark.parametrize(
    ("kind", "own_server", "kill"),
    [(Database, own_server, signal.SIGQUIT), (MariaDatabase, own_mariadb, signal.SIGKILL)],
    ids=["postgres", "mariadb"],
)
def test_a_server_that_is_killed_and_restarted_under_load_loses_nothing_and_doubles_nothing(
    kind: type[AnyDatabase], own_server: Callable[[], AbstractContextManager[Any]], kill: signal.Signals
) -> None:
    with own_server() as server:
        writers = Writers(SAVES)

        async def save(name: str) -> None:
            async with kind.checkpointer(server.url(), max_pool_size=2, pool_timeout=30) as checkpointer:
                await writers.save(checkpointer, name)

        async def run() -> None:
            saving = [asyncio.create_task(save(name)) for name in writers.acknowledged]
            for reached in (200, 600):
                await writers.until(lambda: writers.done >= reached)  # noqa: B023 (awaited here)
                await asyncio.to_thread(server.stop, kill)
                await asyncio.to_thread(server.start)
            await asyncio.gather(*saving)

        asyncio.run(run())
        with kind.blocking(server.url()) as checkpointer:
            writers.check(checkpointer)

"""Batches as pipelines of the driver on 23ai: few round trips, the same answers, and nothing that a pipeline bends."""

import asyncio
from typing import Any

import oracledb
import pytest

from holdfast.core.errors import Conflict
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.oracle import OracleCheckpointer
from holdfast.memory.backends.oracle_pipeline import pipelines
from holdfast.memory.backends.oracle_sql import oracle_text
from holdfast.memory.backends.oracle_store import OracleStore
from holdfast.memory.backends.sql.plan import Statement, change, guard, many, rows
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import AsyncPool


def options(user: str, **others: Any) -> dict[str, Any]:
    return {"dsn": "db.example/service", "user": user, "password": "secret", "table_name": "suite", **others}


def saying(*texts: str) -> AgentState:
    return AgentState(messages=tuple(map(Message.user, texts)))


async def trips(oracle: OracleDatabase, work: Any) -> int:
    before = oracle.round_trips
    await work
    return oracle.round_trips - before


def test_a_save_on_a_known_parent_is_one_round_trip_from_23ai_on(oracle: OracleDatabase) -> None:
    async def work() -> dict[str, int]:
        async with OracleCheckpointer(**options(oracle.add_user())) as threads:
            await threads.save(saying("one"), "t")
            head = await threads.head("t")
            assert head is not None
            counts = {
                "save": await trips(
                    oracle, threads.save(saying("one", "two"), "t", parent=head.checkpoint_id)
                ),
                "load": await trips(oracle, threads.load("t")),
                "exists": await trips(oracle, threads.exists("t")),
            }
            loaded = await threads.load("t")
            assert loaded is not None
            assert [message.content for message in loaded.messages] == ["one", "two"]
            return counts

    counts = asyncio.run(work())
    assert counts == {"save": 1 if oracle.release >= 23 else 7, "load": 5, "exists": 4}


@pytest.mark.parametrize("release", [23])
def test_a_guard_that_changes_nothing_ends_its_pipeline(oracle: OracleDatabase) -> None:
    async def work() -> None:
        user = oracle.add_user()
        async with OracleCheckpointer(**options(user)) as one, OracleCheckpointer(**options(user)) as other:
            first = await one.save(saying("one"), "t")
            await other.load("t")
            second = await one.save(saying("one", "two"), "t", parent=first)
            with pytest.raises(Conflict):
                await other.save(saying("one", "three"), "t", parent=first)
            assert await one.list_checkpoints("t") == [second, first]

    asyncio.run(work())
    assert any("RAISE_APPLICATION_ERROR" in sql for sql in oracle.blocks)


def test_values_that_must_be_streamed_and_time_limits_go_one_by_one(oracle: OracleDatabase) -> None:
    async def work() -> None:
        user = oracle.add_user()
        async with OracleCheckpointer(**options(user)) as threads:
            first = await threads.save(saying("x"), "t")
            long = saying("x", "y" * 40_000)
            assert await trips(oracle, threads.save(long, "t", parent=first)) > 5
            assert await threads.load("t") == long
        async with OracleStore(**options(user, call_timeout=5)) as items:
            await items.put(("a",), "k", 1)
            before = len(oracle.blocks)
            await items.put(("a",), "k", 2)
            assert await items.get(("a",), "k") == 2
            assert len(oracle.blocks) == before

    asyncio.run(work())


def parts(*batch: Statement) -> list[int] | None:
    found = pipelines(list(batch), oracle_text, set())
    return None if found is None else list(map(len, found))


def test_no_change_comes_behind_a_query_and_a_guard_comes_first() -> None:
    query, update = rows("SELECT a FROM t"), change("UPDATE t SET a = ?", 1)
    insert = many("INSERT INTO t (a) VALUES (?)", [(1,), (2,)])
    assert parts(update, insert, query, query) == [4]
    assert parts(query, update, query, insert) == [1, 2, 1]
    assert parts(*[query] * 120, update) == [50, 50, 20, 1]
    assert parts(update, guard("UPDATE t SET a = 1 WHERE a = ?", 2), insert) == [1, 2]


def test_what_no_pipeline_takes() -> None:
    update = change("UPDATE t SET a = 1")
    for statement in (
        change("CREATE TABLE IF NOT EXISTS t (a NUMBER)"),
        change("INSERT INTO t (a) VALUES (?)", "x" * 40_000),
        many("INSERT INTO t (a) VALUES (?)", [("x",), ("x" * 40_000,)]),
        rows("SELECT a FROM t WHERE a = ?", "x" * 5_000),
        change("DELETE FROM t WHERE a IN (SELECT a FROM t LIMIT ?)", 1),
        change("LOCK TABLE t IN EXCLUSIVE MODE"),
    ):
        assert parts(update, statement) is None, statement


@pytest.mark.parametrize("release", [23])
def test_the_double_runs_queries_with_lobs_again_behind_the_pipeline(oracle: OracleDatabase) -> None:
    """What the driver does: so a change behind such a query would be seen by it."""

    async def work() -> None:
        pool = AsyncPool(oracle, {"dsn": "db", "user": oracle.add_user(), "password": "x"})
        async with pool.acquire() as connection:
            await connection.cursor().execute("CREATE TABLE t (id NUMBER(19), body CLOB)")
            pipeline = oracledb.create_pipeline()
            pipeline.add_fetchall("SELECT id FROM t")
            pipeline.add_fetchall("SELECT body FROM t", fetch_lobs=False)
            pipeline.add_execute("INSERT INTO t (id, body) VALUES (1, :b)", {"b": "text"})
            before = oracle.round_trips
            plain, lobs, *_ = await connection.run_pipeline(pipeline)
            assert (plain.rows, lobs.rows) == ([], [("text",)])
            assert oracle.round_trips - before == 2
            await connection.commit()
            pipeline = oracledb.create_pipeline()
            pipeline.add_execute("INSERT INTO t (id) VALUES (2)")
            pipeline.add_execute("INSERT INTO t (id) VALUES ('no number')")
            pipeline.add_commit()
            with pytest.raises(oracledb.DatabaseError):
                await connection.run_pipeline(pipeline)
            await connection.rollback()
            cursor = connection.cursor()
            await cursor.execute("SELECT COUNT(*) FROM t")
            assert await cursor.fetchall() == [(1,)]
        await pool.close()

    asyncio.run(work())

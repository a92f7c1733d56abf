"""What is Oracle's own: tables that others own, missing tables and rights, lost connections, long texts, the pool."""

import asyncio
import re
from typing import Any

import oracledb
import pytest

from holdfast import connect
from holdfast.core.errors import SchemaMismatch, Unavailable
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory import Episode, resolve_memory
from holdfast.memory.backends import OracleBackend, OracleSyncBackend
from holdfast.memory.backends.oracle import OracleCheckpointer, OracleSyncCheckpointer
from holdfast.memory.backends.oracle_sql import oracle_text
from holdfast.memory.backends.oracle_store import OracleStore, oracle_items
from holdfast.memory.backends.oracle_vectors import VectorIndex, copies_schema, index_schema
from holdfast.memory.backends.schemas import ddl
from holdfast.memory.backends.sql.schema import creation
from holdfast.memory.vectors import Metric, VectorSpace
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import SyncPool
from tests.oracle.place import Place
from tests.oracle.rules import parse


def options(user: str, **others: Any) -> dict[str, Any]:
    return {"dsn": "db.example/service", "user": user, "password": "secret", **others}


def saying(text: str) -> AgentState:
    return AgentState().with_message(Message.user(text))


_FROM_DUAL = "SELECT a FROM (SELECT 0 AS a FROM DUAL UNION ALL SELECT 1 AS a FROM DUAL) x"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT a FROM t WHERE b = ? LIMIT ?", "SELECT a FROM t WHERE b = :p1 FETCH FIRST :p2 ROWS ONLY"),
        ("SELECT pos, size FROM t LIMIT 1", 'SELECT pos, "SIZE" FROM t FETCH FIRST 1 ROWS ONLY'),
        ("SELECT a, '' FROM t", "SELECT a, ' ' FROM t"),
        ("SELECT a FROM (SELECT 0 AS a UNION ALL SELECT 1 AS a) x", _FROM_DUAL),
        ("UPDATE t SET number = number + ?", 'UPDATE t SET "NUMBER" = "NUMBER" + :p1'),
        ("CREATE INDEX IF NOT EXISTS i ON t (a)", "CREATE INDEX i ON t (a)"),
        (
            "SELECT a, b FROM t ORDER BY a, b LIMIT ? FOR UPDATE",
            (
                "SELECT a, b FROM t WHERE (a, b) IN (SELECT a, b FROM t ORDER BY a, b FETCH FIRST :p1 ROWS ONLY)"
                " ORDER BY a, b FOR UPDATE"
            ),
        ),
    ],
)
def test_statements_are_rewritten_for_oracle(ours: str, theirs: str) -> None:
    assert oracle_text(ours).sql == theirs


def test_a_user_with_rights_to_rows_only_uses_tables_that_another_owns(oracle: OracleDatabase) -> None:
    owner = oracle.add_user()
    worker = oracle.add_user(creates=False)
    for make in (OracleCheckpointer, OracleStore):
        with pytest.raises(SchemaMismatch, match="CREATE TABLE") as caught:
            asyncio.run(_touch(make(**options(owner, auto_create_table=False))))
        owners = SyncPool(oracle, options(owner))
        with owners.acquire() as connection:
            for statement in caught.value.ddl.removesuffix(";\n").split(";\n"):
                connection.cursor().execute(statement)
            connection.commit()
        owners.close()
        asyncio.run(_touch(make(**options(owner, auto_create_table=False))))
        with pytest.raises(Unavailable, match="lacks a right"):
            asyncio.run(_touch(make(**options(worker))))
    oracle.sql(
        f"GRANT USAGE ON SCHEMA {owner} TO {worker};"
        f" GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {owner} TO {worker}"
    )
    for make in (OracleCheckpointer, OracleStore):
        asyncio.run(_touch(make(**options(worker, schema_name=owner, auto_create_table=False))))


def test_what_holdfast_schema_prints_makes_an_empty_schema_ready(oracle: OracleDatabase) -> None:
    owner = oracle.add_user()
    pool = SyncPool(oracle, options(owner))
    with pool.acquire() as connection:
        for statement in ddl("oracle"):
            connection.cursor().execute(statement)
        connection.commit()
    pool.close()
    for make in (OracleCheckpointer, OracleStore):
        asyncio.run(_touch(make(**options(owner, auto_create_table=False))))


async def _touch(opened: Any) -> None:
    async with opened:
        if isinstance(opened, OracleStore):
            await opened.put(("a",), "k", {"v": 1})
            assert await opened.get(("a",), "k") == {"v": 1}
        else:
            await opened.save(saying("hello"), "t")
            assert await opened.exists("t")


def test_a_connection_that_broke_while_nobody_used_it_is_replaced(oracle: OracleDatabase) -> None:
    async def work() -> None:
        async with OracleCheckpointer(**options(oracle.add_user())) as checkpointer:
            first = await checkpointer.save(saying("one"), "t")
            oracle.cut.update(made.info.backend_pid for made in oracle._made)
            second = await checkpointer.save(saying("two"), "t", parent=first)
            assert await checkpointer.list_checkpoints("t") == [second, first]

    asyncio.run(work())


@pytest.mark.parametrize("where", ["UPDATE suite_threads", "INSERT INTO suite_checkpoints", "COMMIT"])
def test_a_connection_that_is_lost_before_the_commit_is_tried_again(
    oracle: OracleDatabase, where: str
) -> None:
    """In a pipeline the commit is under way with the rest: whether it was done is not known, and never done twice."""
    left = [1]

    def cuts(sql: str) -> bool:
        hit = bool(left) and where in sql
        if hit:
            left.clear()
        return hit

    async def work() -> None:
        async with OracleCheckpointer(**options(oracle.add_user(), table_name="suite")) as checkpointer:
            first = await checkpointer.save(saying("one"), "t")
            oracle.cuts = cuts
            if where == "COMMIT" or oracle.release >= 23:
                with pytest.raises(Unavailable, match="not known"):
                    await checkpointer.save(saying("two"), "t", parent=first)
                assert await checkpointer.list_checkpoints("t") == [first]
            second = await checkpointer.save(saying("two"), "t", parent=first)
            assert await checkpointer.list_checkpoints("t") == [second, first]

    asyncio.run(work())
    assert not left


def test_writers_at_once_lose_nothing(oracle: OracleDatabase) -> None:
    async def work() -> None:
        async with OracleCheckpointer(**options(oracle.add_user(), max_pool_size=8)) as checkpointer:
            await asyncio.gather(
                *(checkpointer.save(saying(str(number)), f"t{number}") for number in range(8))
            )
            await asyncio.gather(*(checkpointer.save(saying(str(number)), "one") for number in range(8)))
            assert len(await checkpointer.list_checkpoints("one", 100)) == 8
            assert sorted(await checkpointer.list_threads()) == [
                "one",
                *(f"t{number}" for number in range(8)),
            ]

    asyncio.run(work())


def test_messages_longer_than_an_expression_takes_are_stored_found_and_searched(place: Place) -> None:
    text = "walrus " + "é" * 40_000
    with OracleSyncCheckpointer(**place.options()) as twin:
        several = AgentState(messages=tuple(Message.user(f"{number} {text}") for number in range(3)))
        twin.save(several, "several")
        assert twin.load("several") == several
        twin.delete("several")
        saved = twin.save(saying(text), "t")
        (hit,) = twin.search("walrus")
        assert (hit["thread_id"], hit["checkpoint_id"]) == ("t", saved)
        loaded = twin.load("t")
        assert loaded is not None
        assert loaded.messages[0].content == text


def test_what_a_program_has_set_for_all_its_connections_changes_nothing(
    oracle: OracleDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracledb.defaults, "fetch_decimals", True)
    monkeypatch.setattr(oracledb.defaults, "fetch_lobs", True)
    monkeypatch.setattr(oracledb.defaults, "arraysize", 1)

    async def work() -> None:
        user = oracle.add_user()
        async with OracleCheckpointer(**options(user)) as threads, OracleStore(**options(user)) as items:
            state = saying("é" * 40_000)
            saved = await threads.save(state, "t", metadata={"n": 1})
            assert await threads.load("t") == state
            assert [info.sequence for info in await threads.history("t")] == [1]
            assert await threads.list_checkpoints("t") == [saved]
            assert await items.put(("a",), "k", {"text": "x" * 40_000}) is not None
            item = await items.get_item(("a",), "k")
            assert item is not None
            assert (type(item.version), item.value) == (int, {"text": "x" * 40_000})

    asyncio.run(work())


@pytest.mark.parametrize("release", [23])
def test_the_longest_names_that_may_be_given_leave_room_for_ours(release: int) -> None:
    name = "n" * 63
    space = VectorSpace(65_535, Metric.MANHATTAN)
    index = VectorIndex(oracle_items(name, name), space)
    statements = ddl("oracle", table_name=name, items_table=name)
    for schema in (copies_schema(index), index_schema(index)):
        statements += [oracle_text(statement, json=True).sql for statement in creation(schema)]
    longest = max(len(found) for text in statements for found in re.findall(r"\w+", text))
    assert longest > 90
    for statement in statements:
        parse(statement, release)


def test_two_loops_use_one_object_each_with_its_own_pool(oracle: OracleDatabase) -> None:
    checkpointer = OracleCheckpointer(**options(oracle.add_user()))
    saved = asyncio.run(checkpointer.save(saying("x"), "t"))
    assert asyncio.run(checkpointer.list_checkpoints("t")) == [saved]
    asyncio.run(checkpointer.close())


def test_the_stores_own_pool_can_be_used_as_the_notebook_does(oracle: OracleDatabase) -> None:
    async def work() -> None:
        store = OracleStore(**options(oracle.add_user(), table_name="notebook"))
        await store.put(("a",), "k", {"v": 1})
        pool = await store._get_pool()
        async with pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute("DROP TABLE notebook PURGE")
            await connection.commit()
        await store.close()
        async with OracleStore(**options(oracle.users[-1], table_name="notebook")) as again:
            assert await again.get(("a",), "k") is None
            await again.put(("a",), "k", {"v": 2})
            assert await again.get(("a",), "k") == {"v": 2}

    asyncio.run(work())


def test_documents_blocking_and_not(oracle: OracleDatabase) -> None:
    user = oracle.add_user()
    with OracleSyncBackend(**options(user)) as backend:
        backend.save("t", {"a": 1}, metadata={"m": 1})
        assert backend.load("t") == {"a": 1}

    async def work() -> None:
        async with OracleBackend(**options(user)) as again:
            await again.save(saying("hi"), "s")
            assert await again.load("t") == {"a": 1}
            assert await again.count() == 2

    asyncio.run(work())


def test_a_memory_is_kept_there_by_its_address(oracle: OracleDatabase) -> None:
    async def work() -> None:
        memory = resolve_memory(f"oracle://{oracle.add_user()}:secret@db.example:1521/app")
        for user, text in (("ann", "I moved to Bergen last spring"), ("bob", "I play chess in Bergen")):
            await memory.remember(Episode(text=text, session_id="s"), user_id=user)
        found = await memory.recall("Where in Bergen?", user_id="ann")
        assert [episode.text for episode in found] == ["I moved to Bergen last spring"]
        await memory.aclose()

    asyncio.run(work())


def test_an_address_opens_both_contracts_on_one_pool(oracle: OracleDatabase) -> None:
    async def work() -> None:
        space = {"dimension": 2, "index_vectors_from": 5, "vector_organization": "graph"}
        async with connect(f"oracle://{oracle.add_user()}:p%40ss@db.example:1521/app", **space) as database:
            await database.checkpointer.save(saying("x"), "t")
            await database.store.put(("a",), "k", 1)
            assert await database.store.get(("a",), "k") == 1

    asyncio.run(work())

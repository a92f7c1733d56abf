"""What is special about MariaDB and MySQL: collations, texts in statements, lengths, packets, lost connections."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from itertools import product
from typing import Any

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import (
    Closed,
    Conflict,
    Corrupt,
    HoldfastError,
    InvalidInput,
    SchemaMismatch,
    StorageFull,
    Unavailable,
)
from holdfast.memory.backends.mysql import MySQLCheckpointer, MySQLSyncCheckpointer
from holdfast.memory.backends.mysql_engine import MYSQL, mysql_engine
from holdfast.memory.backends.mysql_session import MySession
from holdfast.memory.backends.mysql_store import MySQLSyncStore
from holdfast.memory.backends.mysql_text import MOST_ROWS_TEXT, literal, texts_of
from holdfast.memory.backends.sql.plan import Plan, Statement, change, fetch, guard, last, many, rows
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.text import analyse
from tests.servers.fixtures import MariaDatabase
from tests.servers.proxy import Proxy

ALIKE = [
    "a",
    "A",
    "á",
    "a ",
    "a  ",
    "ａ",
    "ß",
    "ss",
    "SS",
    "a\u0301",
    "ä",
    "ae",
    "a\t",
    "a\x00",
    "æ",
    "İ",
    "i",
    "ı",
]
"""Ids that one collation or another takes for the same."""
NASTY = [
    "'",
    "''",
    "\\",
    "\\'",
    "'; DROP TABLE holdfast_threads; -- ",
    "%s",
    "%",
    "?",
    "\x00",
    '"',
    "`",
    "😀",
    "\n",
    "\x1a",
]
NOTES = Schema(
    "notes",
    "notes_meta",
    MYSQL,
    (("CREATE TABLE notes (n BIGINT PRIMARY KEY, t LONGTEXT CHARACTER SET utf8mb4)",),),
    ("notes",),
)


def said(*words: str) -> AgentState:
    return AgentState().with_messages([Message.user(word) for word in words])


# ── ids and texts ─────────────────────────────────────────────────────────────────────────────────


def test_no_collation_merges_two_ids(mariadb: MariaDatabase) -> None:
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        for number, name in enumerate(ALIKE):
            first = checkpointer.save(said(str(number)), name, "c")
            for other in ALIKE:
                checkpointer.put_writes(name, first, other, [(other, number)])
            checkpointer.scoped(name).save(said(f"scope {number}"), "t")
        assert sorted(checkpointer.list_threads()) == sorted(ALIKE)
        for number, name in enumerate(ALIKE):
            assert checkpointer.load(name) == checkpointer.load(name, "c")
            state = checkpointer.load(name)
            assert state is not None
            assert state.messages[0].content == str(number)
            assert sorted(write.task_id for write in checkpointer.get_writes(name, "c")) == sorted(ALIKE)
            scoped = checkpointer.scoped(name).load("t")
            assert scoped is not None
            assert scoped.messages[0].content == f"scope {number}"
        for checkpoint_id in ALIKE:
            checkpointer.save(said(checkpoint_id), "ids", checkpoint_id)
        assert len(checkpointer.list_checkpoints("ids", limit=100)) == len(ALIKE)
    with MySQLSyncStore(mariadb.url) as store:
        for number, (part, key) in enumerate(product(ALIKE, ALIKE)):
            store.put(("n", part), key, {"n": number})
        for number, (part, key) in enumerate(product(ALIKE, ALIKE)):
            assert store.get(("n", part), key) == {"n": number}
        assert sorted(store.list_namespaces()) == sorted(("n", part) for part in ALIKE)


def test_words_are_told_apart_as_the_analyser_does_it(mariadb: MariaDatabase) -> None:
    words = ["resume", "résumé", "Résumés", "ｒesume", "straße", "strasse", "naïve", "naive"]
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        for word in words:
            checkpointer.save(said(word), word)
        for word in words:
            same = {other for other in words if set(analyse(other)) & set(analyse(word))}
            assert {hit["thread_id"] for hit in checkpointer.search(word)} == same
            assert len(same) < 4


def test_nothing_in_an_id_or_a_text_is_taken_for_sql(mariadb: MariaDatabase) -> None:
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        for nasty in NASTY:
            state = said(nasty * 3, f"x{nasty}x")
            checkpointer.save(state, f"x{nasty}", f"c{nasty}", {nasty: nasty})
            loaded = checkpointer.load(f"x{nasty}", f"c{nasty}")
            assert loaded is not None
            assert loaded.messages == state.messages
            assert checkpointer.get_metadata(f"x{nasty}") == {nasty: nasty}
        assert sorted(checkpointer.list_threads()) == sorted(f"x{nasty}" for nasty in NASTY)


@pytest.fixture(scope="module", params=["", "NO_BACKSLASH_ESCAPES"])
def plain_connection(request: pytest.FixtureRequest, mariadb_server: Any) -> Iterator[tuple[Any, bool]]:
    connection = pymysql.connect(
        unix_socket=str(mariadb_server.socket), user="root", charset="utf8mb4", ssl_disabled=True
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION sql_mode = '{request.param}'")
        yield cursor, not request.param


_TEXTS = st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from("'\\\"%?`;-\x00\n\r\x1a%_a😀"))


@settings(max_examples=150)  # two modes; each is a round trip
@given(values=st.lists(_TEXTS | st.binary() | st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1))
def test_a_value_comes_back_as_it_was_whatever_the_servers_mode(
    plain_connection: tuple[Any, bool], values: list[Any]
) -> None:
    cursor, escapes = plain_connection
    cursor.execute(b"SELECT " + b", ".join(literal(value, escapes) for value in values))
    assert list(cursor.fetchone()) == values


@pytest.mark.parametrize("value", [float("inf"), float("nan"), object(), [1], "\ud800"])
def test_what_is_not_a_value_of_ours_is_not_put_into_a_statement(value: Any) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError)):
        literal(value, False)


def test_many_rows_are_few_statements(mariadb: MariaDatabase) -> None:
    insert = many("INSERT INTO notes (n, t) VALUES (?, ?)", [(n, "x" * 1000) for n in range(1000)])
    texts = list(texts_of(insert, False))
    assert 2 < len(texts) < 5
    assert all(len(text) < MOST_ROWS_TEXT + 2000 for text in texts)

    def plan() -> Plan[list[Any]]:
        return (yield [insert, many("DELETE FROM notes WHERE n = ?", [(n,) for n in range(500)])])

    async def run() -> None:
        engine = mysql_engine(mariadb.url).using(NOTES)
        assert await engine.write(plan) == [1000, 500]
        await engine.close()

    asyncio.run(run())
    assert mariadb.sql("SELECT COUNT(*) FROM notes") == [(500,)]


def test_ids_of_any_length_allowed_are_told_apart(mariadb: MariaDatabase) -> None:
    for letter in ("\x01", "😀", "é"):  # the first takes two characters, the second four bytes
        ids = [letter * 254 + end for end in ("a", "b")]
        with MySQLSyncCheckpointer(mariadb.url) as checkpointer, MySQLSyncStore(mariadb.url) as store:
            for name in ids:
                scoped = checkpointer.scoped(name)
                scoped.save(said(name[-1]), name, name)
                scoped.put_writes(name, name, name, [(name, 1)])
                store.put((name, name, name), name, {"n": name[-1]}, {"group": name, "ordinal": 1})
            for name in ids:
                state = checkpointer.scoped(name).load(name, name)
                assert state is not None
                assert state.messages[0].content == name[-1]
                assert store.get((name, name, name), name) == {"n": name[-1]}
                assert len(store.search((name,), prefix=True)) == 1


def test_a_namespace_too_deep_for_the_database_is_refused(mariadb: MariaDatabase) -> None:
    with MySQLSyncStore(mariadb.url) as store:
        with pytest.raises(InvalidInput, match="Data too long"):
            store.put(("x" * 255,) * 20, "k", {})
        assert store.list_namespaces() == []


def test_mysql_gets_its_own_name_of_the_collation_and_plain_indexes() -> None:
    session = MySession(None)
    tables = change(f"CREATE TABLE IF NOT EXISTS t (a {MYSQL.id_text})")
    index = change("CREATE UNIQUE INDEX IF NOT EXISTS i ON t (a)")

    def texts(statement: Statement) -> list[bytes]:
        return [command.text for command in session._commands(statement, 0, False)]

    assert b"COLLATE utf8mb4_nopad_bin" in texts(tables)[0]
    session._mariadb = False
    assert b"COLLATE utf8mb4_0900_bin" in texts(tables)[0]
    assert b"nopad" not in texts(tables)[0]
    assert texts(index) == [b"CREATE UNIQUE INDEX i ON t (a)"]


def test_what_is_asked_of_a_thread_or_for_the_newest_is_found_by_an_index(mariadb: MariaDatabase) -> None:
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        for number in range(200):
            checkpointer.save(said("common"), f"t{number}")
        checkpointer.search("common")
    mariadb.sql("ANALYZE TABLE holdfast_threads, holdfast_words, holdfast_entries")
    mine = "scope = ? AND ns = ?"
    ids = "SELECT id FROM holdfast_entries WHERE life = ? AND searchable = 1"
    for statement in (
        rows(f"SELECT MAX(saved) FROM holdfast_threads WHERE {mine}", "d", "a"),
        rows(f"SELECT life FROM holdfast_threads WHERE {mine} AND thread_id = ? FOR UPDATE", "d", "a", "t1"),
        change(f"DELETE FROM holdfast_words WHERE id IN ({ids})", b"\0" * 16),
    ):
        (text,) = texts_of(statement, True)
        plan = mariadb.sql(f"EXPLAIN {text.decode()}")
        assert not [step for step in plan if step[3] == "ALL" and step[2] != "<derived2>"], plan


# ── transactions ──────────────────────────────────────────────────────────────────────────────────


def test_a_guard_that_changes_nothing_ends_its_batch_and_one_that_matches_holds(
    mariadb: MariaDatabase,
) -> None:
    mariadb.sql("CREATE TABLE notes (n BIGINT PRIMARY KEY, t LONGTEXT)")
    seen: list[Any] = []

    def plan(number: int) -> Plan[None]:
        seen.append(
            (
                yield last(
                    [
                        guard("UPDATE notes SET n = n WHERE n = ?", number),
                        change("INSERT INTO notes (n) VALUES (?)", number + 1),
                    ]
                )
            )
        )

    async def run() -> None:
        engine = mysql_engine(mariadb.url).using(NOTES)
        await engine.write(lambda: plan(1))
        mariadb.sql("INSERT INTO notes (n) VALUES (1)")
        await engine.write(lambda: plan(1))  # it changes nothing, but there is such a row
        await engine.close()

    asyncio.run(run())
    assert seen == [[0], [1, 1]]
    assert mariadb.sql("SELECT n FROM notes ORDER BY n") == [(1,), (2,)]


@pytest.mark.parametrize("number", [1213, 1205, 1062])
def test_what_was_undone_because_of_others_is_done_again_and_given_up_in_the_end(
    mariadb: MariaDatabase, number: int
) -> None:
    signal = (
        f"BEGIN NOT ATOMIC SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'others'; END"
    )

    async def run() -> None:
        engine = mysql_engine(mariadb.url).using(NOTES)
        tries: list[int] = []

        def plan(failures: int) -> Plan[int]:
            tries.append(len(tries))
            yield [change("INSERT INTO notes (n) VALUES (?)", len(tries))]
            if len(tries) <= failures:
                yield from fetch(signal)
            return len(tries)

        assert await engine.write(lambda: plan(3)) == 4
        assert mariadb.sql("SELECT n FROM notes") == [(4,)]
        tries.clear()
        with pytest.raises(Conflict, match="others"):
            await engine.write(lambda: plan(100))
        assert len(tries) == 8
        assert mariadb.sql("SELECT n FROM notes") == [(4,)]
        await engine.close()

    asyncio.run(run())


def test_a_read_is_one_snapshot(mariadb: MariaDatabase) -> None:
    def plan() -> Plan[list[Any]]:
        before = yield from fetch("SELECT COUNT(*) FROM notes")
        mariadb.sql("INSERT INTO notes (n) VALUES (1)")
        return before + (yield from fetch("SELECT COUNT(*) FROM notes"))

    async def run() -> None:
        engine = mysql_engine(mariadb.url).using(NOTES)
        assert await engine.read(plan) == [(0,), (0,)]
        await engine.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (1021, StorageFull),  # disk full
        (1114, StorageFull),  # table full
        (1040, Unavailable),  # too many connections
        (1142, Unavailable),  # no privilege
        (1969, Unavailable),  # statement time-out, MariaDB
        (3024, Unavailable),  # statement time-out, MySQL
        (1146, SchemaMismatch),  # no such table
        (1153, InvalidInput),  # packet too large
        (1034, Corrupt),  # damaged index
        (2013, Unavailable),  # lost connection
        (1690, HoldfastError),  # anything else
    ],
)
def test_every_error_of_the_server_is_one_of_ours(
    mariadb: MariaDatabase, number: int, error: type[HoldfastError]
) -> None:
    signal = (
        f"BEGIN NOT ATOMIC SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'told so'; END"
    )

    async def run() -> None:
        engine = mysql_engine(mariadb.url).using(NOTES)

        def plan() -> Plan[None]:
            yield [change("INSERT INTO notes (n) VALUES (1)")]
            yield from fetch(signal)

        with pytest.raises(HoldfastError, match="told so") as caught:
            await engine.write(plan)
        assert type(caught.value) is error
        assert await engine.read(lambda: fetch("SELECT n FROM notes")) == []
        await engine.close()

    asyncio.run(run())


def test_a_statement_that_takes_too_long_is_unavailable(mariadb: MariaDatabase) -> None:
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        checkpointer.save(said("x"), "t")
    engine = mysql_engine(mariadb.url).using(NOTES)

    async def run() -> None:
        with pytest.raises(Unavailable, match="1969"):
            await engine.read(lambda: fetch("SET STATEMENT max_statement_time = 0.1 FOR SELECT SLEEP(30)"))
        await engine.close()

    asyncio.run(run())


def test_a_save_on_a_known_parent_is_one_round_trip(mariadb: MariaDatabase) -> None:
    async def run() -> None:
        with Proxy(mariadb.server.socket) as proxy:
            async with MySQLCheckpointer(mariadb.through(proxy)) as checkpointer:
                parent = await checkpointer.save(said("a"), "t")
                proxy.turns = 0
                for number in range(10):
                    parent = await checkpointer.save(said("a", f"{number}"), "t", parent=parent)
                assert proxy.turns == 10

    asyncio.run(run())


# ── connections ───────────────────────────────────────────────────────────────────────────────────


def cut(mariadb: MariaDatabase) -> None:
    """End all sessions on the database, as an administrator would."""
    found = mariadb.sql(
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    )
    for (number,) in found:
        mariadb.sql(f"KILL CONNECTION {number}")


def test_an_idle_connection_that_the_server_has_closed_is_not_used(mariadb: MariaDatabase) -> None:
    async def run() -> None:
        async with MySQLCheckpointer(mariadb.url) as checkpointer:
            head = await checkpointer.save(said("a"), "t")
            for word in ("b", "c"):
                cut(mariadb)
                head = await checkpointer.save(said("a", word), "t", parent=head)

    asyncio.run(run())
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        head = checkpointer.list_checkpoints("t")[0]
        for word in ("d", "e"):
            cut(mariadb)
            head = checkpointer.save(said("a", word), "t", parent=head)
        assert len(checkpointer.list_checkpoints("t")) == 5


def test_one_object_works_on_several_event_loops(mariadb: MariaDatabase) -> None:
    checkpointer = MySQLCheckpointer(mariadb.url)
    for number in range(3):
        asyncio.run(checkpointer.save(said(str(number)), "t"))
    assert len(asyncio.run(checkpointer.list_checkpoints("t"))) == 3
    asyncio.run(checkpointer.close())


def _save_in_child(checkpointer: MySQLSyncCheckpointer, name: str) -> None:
    checkpointer.save(said(name), name)


def test_a_forked_child_begins_anew(mariadb: MariaDatabase) -> None:
    context = multiprocessing.get_context("fork")
    with MySQLSyncCheckpointer(mariadb.url) as checkpointer:
        checkpointer.save(said("parent"), "parent")
        children = [
            context.Process(target=_save_in_child, args=(checkpointer, f"child {n}")) for n in range(2)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [0, 0]
        checkpointer.save(said("again"), "parent")
        assert sorted(checkpointer.list_threads()) == ["child 0", "child 1", "parent"]


def test_closing_while_something_runs_leaves_no_connection_behind(mariadb: MariaDatabase) -> None:
    async def run() -> None:
        engine = mysql_engine(mariadb.url).using(NOTES)
        await engine.read(lambda: fetch("SELECT 1"))
        slow = asyncio.create_task(asyncio.wait_for(engine.read(lambda: fetch("SELECT SLEEP(0.5)")), 5))
        await asyncio.sleep(0.1)
        await engine.close()
        assert await slow == [(0,)]
        with pytest.raises(Closed):
            await engine.read(lambda: fetch("SELECT 1"))
        await asyncio.sleep(0.1)
        ours = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        assert mariadb.sql(ours) == [(0,)]

    asyncio.run(run())


def test_a_pool_that_is_used_up_says_so(mariadb: MariaDatabase) -> None:
    async def run() -> None:
        engine = mysql_engine(mariadb.url, max_pool_size=1, pool_timeout=0.2).using(NOTES)
        await engine.read(lambda: fetch("SELECT 1"))
        slow = asyncio.create_task(asyncio.wait_for(engine.read(lambda: fetch("SELECT SLEEP(2)")), 5))
        await asyncio.sleep(0.05)
        with pytest.raises(Unavailable, match=r"no connection was free within 0\.2 s"):
            await engine.read(lambda: fetch("SELECT 1"))
        await slow
        assert await engine.read(lambda: fetch("SELECT 1")) == [(1,)]
        await engine.close()

    asyncio.run(run())


def test_tls_that_the_server_lacks_is_an_outage_not_a_plain_connection(mariadb: MariaDatabase) -> None:
    async def run() -> None:
        async with MySQLCheckpointer(mariadb.url, ssl="REQUIRED") as checkpointer:
            with pytest.raises(Unavailable, match=r"TLS|SSL"):
                await checkpointer.load("t")

    asyncio.run(run())
    with (
        MySQLSyncCheckpointer(mariadb.url + "&ssl_mode=verify_identity") as checkpointer,
        pytest.raises(Unavailable, match=r"TLS|SSL"),
    ):
        checkpointer.load("t")

"""Rows that may be there already are merged: one statement, texts of any length, also when two do it at once."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import oracledb
import pytest

from holdfast.memory.backends import OracleBackend
from holdfast.memory.backends.oracle_dialect import OracleDialect, merge_text
from holdfast.memory.backends.oracle_engine import ORACLE, oracle_engine
from holdfast.memory.backends.oracle_sql import oracle_text
from holdfast.memory.backends.oracle_store import OracleStore
from holdfast.memory.backends.sql.dialect import Dialect
from holdfast.memory.backends.sql.plan import Batch, Plan, Row, fetch, last, many
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.blocking import drive
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import SyncCursor, SyncPool
from tests.oracle.place import Place

KEYS, COLUMNS = ("n",), ("body", "name")
LENGTHS = [10, 4_001, 32_768, 1_100_000]


def options(user: str, **others: Any) -> dict[str, Any]:
    return {"dsn": "db.example/service", "user": user, "password": "secret", **others}


class Notes:
    """A table, by either driver: rows that may be there are put into it."""

    def __init__(self, place: Place, *, blocking: bool) -> None:
        self.table = f"{place.table_name}_notes"
        columns = "n NUMBER(19) NOT NULL PRIMARY KEY, body CLOB, name VARCHAR2(20 BYTE)"
        made = ((f"CREATE TABLE {self.table} ({columns})",),)
        self._engine = oracle_engine(**place.arguments, blocking=blocking)
        self._notes = self._engine.using(Schema("notes", f"{self.table}_meta", ORACLE, made, (self.table,)))
        self._run: Callable[[Any], Any] = drive if blocking else asyncio.run

    def put(self, *row: Any) -> None:
        self._write(ORACLE.put_row(self.table, KEYS, COLUMNS, *row))

    def merge(self, rows: list[Row]) -> None:
        """Also those that are long, which `put_rows` would not."""
        self._write([many(merge_text(self.table, KEYS, COLUMNS), rows)])

    def _write(self, batch: Batch) -> None:
        def plan() -> Plan[None]:
            yield last(batch)

        async def write() -> None:
            await self._notes.write(plan)

        self._run(write())

    def rows(self) -> list[Row]:
        def plan() -> Plan[list[Row]]:
            return (yield from fetch(f"SELECT n, body, name FROM {self.table} ORDER BY n"))

        async def read() -> list[Row]:
            return await self._notes.read(plan)

        found: list[Row] = self._run(read())
        return found

    def close(self) -> None:
        self._run(self._engine.close())


@pytest.fixture(params=["blocking", "async"])
def notes(place: Place, request: pytest.FixtureRequest) -> Iterator[Notes]:
    made = Notes(place, blocking=request.param == "blocking")
    yield made
    made.close()


@pytest.fixture
def cursor(oracle: OracleDatabase) -> Iterator[SyncCursor]:
    pool = SyncPool(oracle, options(oracle.add_user()))
    with pool.acquire() as connection:
        made = connection.cursor()
        made.execute("CREATE TABLE t (id NUMBER(19) NOT NULL PRIMARY KEY, body CLOB, data BLOB)")
        yield made
    pool.close()


def code(cursor: SyncCursor, sql: str, binds: dict[str, Any] | None = None, **sizes: Any) -> int:
    if sizes:
        cursor.setinputsizes(**sizes)
    with pytest.raises(oracledb.DatabaseError) as caught:
        cursor.execute(sql, binds)
    number: int = caught.value.args[0].code
    return number


# ── the double ────────────────────────────────────────────────────────────────────────────────────────


def test_the_double_takes_a_row_of_the_source_for_a_row_of_the_table_once(cursor: SyncCursor) -> None:
    twice = "SELECT 1 AS id FROM DUAL UNION ALL SELECT 1 AS id FROM DUAL"
    merge = f"MERGE INTO t USING ({twice}) s ON (t.id = s.id) WHEN MATCHED THEN UPDATE SET t.body = 'x'"
    cursor.execute(merge)
    assert cursor.rowcount == 0
    cursor.execute("INSERT INTO t (id) VALUES (1)")
    assert code(cursor, merge) == 30926


def test_the_double_takes_a_long_text_in_a_merge_as_a_lob_only_and_never_in_its_source(
    oracle: OracleDatabase, cursor: SyncCursor
) -> None:
    branches = oracle_text(merge_text("t", ("id",), ("body",))).sql
    source = (
        "MERGE INTO t USING (SELECT :p1 AS id, :p2 AS body FROM DUAL) s ON (t.id = s.id)"
        " WHEN NOT MATCHED THEN INSERT (id, body) VALUES (s.id, s.body)"
    )
    long = {"p1": 1, "p2": "x" * 4_001}
    updates = branches.partition(" WHEN NOT MATCHED")[0]
    for merge in (branches, updates, source):
        assert code(cursor, merge, long) == 1461, merge
    assert code(cursor, source, long, p2=oracledb.DB_TYPE_CLOB) == 932
    binary = oracle_text(merge_text("t", ("id",), ("data",))).sql
    assert code(cursor, binary, {"p1": 1, "p2": b"x" * 2_001}) == 1461
    before = oracle.round_trips
    cursor.setinputsizes(p2=oracledb.DB_TYPE_CLOB)
    cursor.execute(branches, long)
    assert (cursor.rowcount, oracle.round_trips - before) == (1, 3)
    cursor.execute("SELECT LENGTH(body) FROM t")
    assert cursor.fetchall() == [(4_001,)]


# ── statements ────────────────────────────────────────────────────────────────────────────────────────


def test_a_merge_has_keys_in_its_source_and_binds_its_values_once() -> None:
    text = oracle_text(merge_text("t", ("a", "b"), ("c", "d")))
    assert text.sql == (
        "MERGE INTO t t USING (SELECT :p1 AS a, :p2 AS b FROM DUAL) s ON (t.a = s.a AND t.b = s.b)"
        " WHEN MATCHED THEN UPDATE SET t.c = :p3, t.d = :p4"
        " WHEN NOT MATCHED THEN INSERT (a, b, c, d) VALUES (s.a, s.b, :p3, :p4)"
    )
    assert (text.names, text.table, text.merges) == (("p1", "p2", "p3", "p4"), "t", True)


@pytest.mark.parametrize(
    ("there", "rows", "kinds"),
    [
        ([], [(1, "a")], ["INSERT"]),
        ([(1,)], [(1, "a")], ["MERGE"]),
        ([(1,), (2,)], [(1, "a"), (3, "b")], ["DELETE", "MERGE"]),
        ([(2,)], [(1, "a")], ["DELETE", "INSERT"]),
        ([(1,)], [], ["DELETE"]),
        ([(1,)], [(1, "é" * 2_001)], ["DELETE", "INSERT"]),
        ([(1,)], [(1, "é" * 2_000)], ["MERGE"]),
    ],
)
def test_rows_take_no_more_statements_than_to_delete_and_insert(
    there: list[Row], rows: list[Row], kinds: list[str]
) -> None:
    made = ORACLE.put_rows("t", ("n",), ("body",), there, rows)
    assert [statement.sql.split(" ")[0] for statement in made] == kinds
    assert len(made) <= len(Dialect.put_rows(ORACLE, "t", ("n",), ("body",), there, rows))
    if kinds == ["DELETE", "MERGE"]:
        assert [list(statement.params) for statement in made] == [[(2,)], rows]


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", LENGTHS)
def test_a_merge_replaces_the_row_that_is_there_and_leaves_others_alone(notes: Notes, length: int) -> None:
    long, longer = "é" * length, "walrus " + "é" * length
    notes.put(1, "one", "a")
    notes.put(2, long, "b")
    assert notes.rows() == [(1, "one", "a"), (2, long, "b")]
    notes.put(2, longer, None)
    assert notes.rows() == [(1, "one", "a"), (2, longer, None)]
    notes.put(2, None, "c")
    assert notes.rows() == [(1, "one", "a"), (2, None, "c")]


def test_many_rows_are_merged_the_long_ones_apart(place: Place, notes: Notes) -> None:
    rows: list[Row] = [(number, "é" * length, str(length)) for number, length in enumerate(LENGTHS)]
    notes.put(2, "old", "old")
    notes.put(9, "other", "other")
    before = len(place.statements)
    notes.merge(rows)
    assert notes.rows() == [*rows, (9, "other", "other")]
    if place.database is not None:
        merges = [sql for sql in place.statements[before:] if sql.startswith("MERGE")]
        assert len(merges) == 1 + 3  # the short ones, here one of them, go in an array


def test_an_empty_text_is_merged_as_the_null_that_it_is_there(notes: Notes) -> None:
    notes.put(1, "", "")
    assert notes.rows() == [(1, None, None)]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_put_over_an_item_takes_no_more_round_trips_than_to_delete_and_insert(
    oracle: OracleDatabase, monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    many_terms = " ".join(f"word{number}" for number in range(900))
    texts = ("red boats", "red red boats and a walrus", "lake " + many_terms, "lake")

    def trips() -> list[int]:
        user = oracle.add_user()

        async def work() -> list[int]:
            counts = []
            async with OracleStore(**options(user, blocking=blocking)) as store:
                for text in texts:
                    before = oracle.round_trips
                    await store.put(("a",), "k", {"text": text})
                    counts.append(oracle.round_trips - before)
                assert [hit.key for hit in await store.search(("a",), "lake")] == ["k"]
                assert await store.search(("a",), "walrus boats") == []
            return counts

        return drive(work()) if blocking else asyncio.run(work())

    before = len(oracle.statements)
    merged = trips()
    assert any(sql.startswith("MERGE INTO holdfast_items_postings") for sql in oracle.statements[before:])
    monkeypatch.setattr(OracleDialect, "put_row", Dialect.put_row)
    monkeypatch.setattr(OracleDialect, "put_rows", Dialect.put_rows)
    apart = trips()
    assert all(one <= other for one, other in zip(merged, apart, strict=True)), (merged, apart)
    if blocking or oracle.release < 23:  # no pipelines: a statement less is a round trip less
        assert merged[1] < apart[1]


def test_documents_of_any_length_are_merged(place: Place) -> None:
    async def work() -> None:
        async with OracleBackend(**place.options()) as backend:
            for length in LENGTHS:
                await backend.save("t", {"note": f"walrus {length} " + "x" * length})
                await backend.save("other", {"note": "otter"})
                (found,) = await backend.search_text("walrus")
                assert found["thread_id"] == "t"
            await backend.save("t", {"note": "heron"})
            assert await backend.search_text("walrus") == []

    asyncio.run(work())
    if place.database is not None:
        user = str(place.arguments["user"])
        assert place.database.sql("SELECT COUNT(*) FROM suite_documents", user) == [(2,)]
        assert any(sql.startswith("MERGE INTO suite_documents") for sql in place.statements)
        assert not any(
            "MERGE" in block for block in place.database.blocks
        )  # one row is one row: nothing to count


# ── two at once ───────────────────────────────────────────────────────────────────────────────────────


def test_two_who_merge_the_same_new_key_at_once_both_do_and_the_second_replaces(
    oracle: OracleDatabase,
) -> None:
    """As in Oracle, the second has decided to insert when it waits, and is refused (ORA-00001): it tries again."""
    place = Place(oracle, oracle.add_user())
    notes = Notes(place, blocking=True)
    notes.put(9, "other", "o")
    pool = SyncPool(oracle, place.arguments)
    text = oracle_text(merge_text(notes.table, KEYS, COLUMNS)).sql
    with pool.acquire() as first:
        first.cursor().execute(text, {"p1": 1, "p2": "first", "p3": "f"})
        before = len(oracle.statements)
        second = threading.Thread(target=notes.put, args=(1, "second", "s"))
        second.start()
        _wait_for_lock(oracle, str(place.arguments["user"]))
        first.commit()
        second.join(20)
    assert notes.rows() == [(1, "second", "s"), (9, "other", "o")]
    assert [sql for sql in oracle.statements[before:] if sql.startswith("MERGE")] == [text, text]
    pool.close()
    notes.close()


def _wait_for_lock(oracle: OracleDatabase, user: str) -> None:
    """Until a session of the user waits for another."""
    deadline = time.monotonic() + 20
    query = f"SELECT 1 FROM pg_stat_activity WHERE usename = '{user}' AND wait_event_type = 'Lock'"
    while not oracle.sql(query):
        assert time.monotonic() < deadline, "nobody waits"

"""The double behaves as Oracle does: binds, '' and NULL, LOBs, transactions, errors. Both releases."""

import array
import asyncio
from collections.abc import Iterator
from typing import Any

import oracledb
import pytest

from holdfast.memory.backends.oracle_session import json_variable
from tests.oracle.database import OracleDatabase
from tests.oracle.driver import SyncConnection, SyncCursor, SyncPool

TABLE = (
    "CREATE TABLE t (id NUMBER(19) NOT NULL PRIMARY KEY, name VARCHAR2(10 BYTE) NOT NULL, body CLOB, key_ RAW(4),"
    " data BLOB, other VARCHAR2(5 CHAR))"
)


@pytest.fixture
def pool(oracle: OracleDatabase) -> Iterator[SyncPool]:
    user = oracle.add_user()
    made: Any = oracledb.create_pool(
        user=user, password="x", dsn="host/service", min=1, max=3, wait_timeout=200
    )
    yield made
    made.close(force=True)


@pytest.fixture
def connection(pool: SyncPool) -> SyncConnection:
    connection = pool.acquire()
    connection.cursor().execute(TABLE)
    return connection


@pytest.fixture
def cursor(connection: SyncConnection) -> SyncCursor:
    return connection.cursor()


def put(cursor: SyncCursor, number: int, name: str | None = "n", **others: Any) -> None:
    names = ", ".join(others)
    binds = ", ".join(f":{other}" for other in others)
    cursor.execute(
        f"INSERT INTO t (id, name{', ' + names if names else ''}) VALUES (:id, :name{', ' + binds if binds else ''})",
        {"id": number, "name": name, **others},
    )


def get(cursor: SyncCursor, columns: str = "id", **options: Any) -> list[tuple[Any, ...]]:
    cursor.execute(f"SELECT {columns} FROM t ORDER BY id", **options)
    return cursor.fetchall()


def code(caught: "pytest.ExceptionInfo[Any]") -> str:
    return str(caught.value.args[0].full_code)


def test_every_bind_is_named_used_and_given(cursor: SyncCursor) -> None:
    for parameters, wanted in (
        ({"a": 1, "b": 2}, "DPY-4008"),
        ({}, "DPY-4010"),
        ([1], "DPY-4008"),
    ):
        with pytest.raises(oracledb.DatabaseError) as caught:
            cursor.execute("SELECT id FROM t WHERE id = :a", parameters)
        assert code(caught) == wanted
    cursor.execute("SELECT id FROM t WHERE id = :a OR id = :a + 1", {"a": 1})
    with pytest.raises(oracledb.DatabaseError, match="ORA-01027"):
        cursor.execute("CREATE TABLE u (a NUMBER DEFAULT :a)", {"a": 1})


@pytest.mark.parametrize("value", [True, bytearray(b"x"), {"a": 1}, [1], 1j])
def test_values_that_the_driver_does_not_take_are_refused(cursor: SyncCursor, value: Any) -> None:
    with pytest.raises(oracledb.NotSupportedError, match="DPY-3002"):
        cursor.execute("SELECT id FROM t WHERE name = :a", {"a": value})


def test_a_batch_needs_rows_with_values_of_one_type(cursor: SyncCursor) -> None:
    sql = "INSERT INTO t (id, name, other) VALUES (:a, :b, :c)"
    with pytest.raises(oracledb.DatabaseError, match="ORA-01461"):
        cursor.executemany("INSERT INTO t (id, name, body) VALUES (1, 'n', :b)", [{"b": "x" * 32_768}])
    for rows in ([], [{"a": 1, "b": "x", "c": 1}, {"a": 2, "b": "x", "c": "y"}], [(1, "x", None)]):
        with pytest.raises(oracledb.Error):
            cursor.executemany(sql, rows)
    cursor.executemany(sql, [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": "x", "c": "y"}])
    assert cursor.rowcount == 2
    with pytest.raises(oracledb.IntegrityError, match="ORA-00001"):
        cursor.executemany(sql, [{"a": 3, "b": "x", "c": None}, {"a": 1, "b": "x", "c": None}])
    assert get(cursor) == [(1,), (2,)]


def test_empty_text_is_null_in_binds_and_literals(cursor: SyncCursor) -> None:
    put(cursor, 1, other="")
    put(cursor, 2, body="")
    assert get(cursor, "other, body") == [(None, None), (None, None)]
    with pytest.raises(oracledb.IntegrityError, match="ORA-01400"):
        put(cursor, 3, "")
    cursor.execute("SELECT '' FROM t WHERE other = ''")
    assert cursor.fetchall() == []
    cursor.execute("SELECT '' FROM t")
    assert cursor.fetchall() == [(None,), (None,)]
    cursor.execute("SELECT GREATEST(1, NULL), NVL(other, 'none'), SUBSTR('ab', 3) FROM t WHERE id = 1")
    assert cursor.fetchall() == [(None, "none", None)]


def test_lobs_are_locators_unless_it_is_said_otherwise(cursor: SyncCursor) -> None:
    put(cursor, 1, body="text" * 5000, data=b"\x00\xff")
    ((body, data),) = get(cursor, "body, data")
    assert (body.read(), data.read()) == ("text" * 5000, b"\x00\xff")
    assert [column[1] for column in cursor.description or ()] == [
        oracledb.DB_TYPE_CLOB,
        oracledb.DB_TYPE_BLOB,
    ]
    assert get(cursor, "body, data", fetch_lobs=False) == [("text" * 5000, b"\x00\xff")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t WHERE body = 'x'",
        "SELECT DISTINCT body FROM t",
        "SELECT id FROM t ORDER BY body",
        "SELECT COUNT(*) FROM t GROUP BY data",
    ],
)
def test_lobs_are_not_compared(cursor: SyncCursor, sql: str) -> None:
    with pytest.raises(oracledb.DatabaseError, match="ORA-00932"):
        cursor.execute(sql)


def test_text_that_is_too_long_for_an_expression_must_be_bound_as_a_lob(cursor: SyncCursor) -> None:
    put(cursor, 1, body="long " * 1000)
    sql = "SELECT id FROM t WHERE INSTR(body, :p) > 0"
    with pytest.raises(oracledb.DatabaseError, match="ORA-01461"):
        cursor.execute(sql, {"p": "long " * 900})
    cursor.setinputsizes(p=oracledb.DB_TYPE_CLOB)
    cursor.execute(sql, {"p": "long " * 900})
    assert cursor.fetchall() == [(1,)]


def test_values_have_the_lengths_that_were_declared(cursor: SyncCursor) -> None:
    put(cursor, 1, "é" * 5, other="é" * 5, key_=b"1234")
    for number, name, others in (
        (2, "é" * 6, {}),
        (3, "n", {"other": "é" * 6}),
        (4, "n", {"key_": b"12345"}),
    ):
        with pytest.raises(oracledb.DatabaseError, match="ORA-12899"):
            put(cursor, number, name, **others)
    with pytest.raises(oracledb.IntegrityError, match="ORA-01438"):
        put(cursor, 10**19)
    assert get(cursor, "id, key_") == [(1, b"1234")]


def test_numbers_come_back_as_integers_or_floats(cursor: SyncCursor) -> None:
    put(cursor, 2)
    put(cursor, 5)
    cursor.execute("SELECT SUM(id), COUNT(*), AVG(id), MAX(id) FROM t")
    assert list(map(type, cursor.fetchone() or ())) == [int, int, float, int]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CREATE TABLE w (a VARCHAR2(4001))", "ORA-00910"),
        ("CREATE TABLE w (a NVARCHAR2(2001))", "ORA-00910"),
        ("CREATE TABLE w (a VARCHAR2)", "ORA-00906"),
        ("CREATE TABLE w (a CLOB PRIMARY KEY)", "ORA-02327"),
        ("CREATE TABLE w (a VARCHAR2(4000), b VARCHAR2(4000), PRIMARY KEY (a, b))", "ORA-01450"),
        ("CREATE TABLE w (a NUMBER NOT NULL GENERATED ALWAYS AS IDENTITY)", "ORA-00907"),
        ("CREATE INDEX w ON t (body)", "ORA-02327"),
        ("CREATE INDEX w ON t (id)", "ORA-01408"),
        ("CREATE INDEX w ON t (nothing)", "ORA-00904"),
        (TABLE, "ORA-00955"),
        ("SELECT id FROM nowhere", "ORA-00942"),
        ("DROP TABLE nowhere", "ORA-00942"),
        ("SELECT nothing FROM t", "ORA-00904"),
    ],
)
def test_errors_have_oracles_codes(cursor: SyncCursor, sql: str, wanted: str) -> None:
    with pytest.raises(oracledb.DatabaseError) as caught:
        cursor.execute(sql)
    assert code(caught) == wanted


def test_a_statement_that_fails_leaves_the_transaction_as_it_was(
    connection: SyncConnection, cursor: SyncCursor
) -> None:
    put(cursor, 1)
    with pytest.raises(oracledb.IntegrityError, match="ORA-00001"):
        put(cursor, 1)
    put(cursor, 2)
    connection.rollback()
    assert get(cursor) == []
    put(cursor, 3)
    connection.commit()
    connection.rollback()
    assert get(cursor) == [(3,)]


def test_ddl_commits_what_was_done_before(connection: SyncConnection, cursor: SyncCursor) -> None:
    put(cursor, 1)
    with pytest.raises(oracledb.DatabaseError, match="ORA-00955"):
        cursor.execute(TABLE)
    connection.rollback()
    assert get(cursor) == [(1,)]


def test_a_connection_that_is_given_back_is_rolled_back(pool: SyncPool, connection: SyncConnection) -> None:
    put(connection.cursor(), 1)
    connection.close()
    with pool.acquire() as again:
        assert get(again.cursor()) == []
    with pytest.raises(oracledb.InterfaceError, match="DPY-1001"):
        connection.cursor().execute("SELECT 1 FROM DUAL")


def test_a_read_only_transaction_sees_one_snapshot_and_writes_nothing(
    pool: SyncPool, connection: SyncConnection, cursor: SyncCursor
) -> None:
    with pool.acquire() as reader:
        look = reader.cursor()
        look.execute("SET TRANSACTION READ ONLY")
        assert get(look) == []
        put(cursor, 1)
        connection.commit()
        assert get(look) == []
        with pytest.raises(oracledb.DatabaseError, match="ORA-01456"):
            put(look, 2)
        with pytest.raises(oracledb.DatabaseError, match="ORA-01453"):
            look.execute("SET TRANSACTION READ ONLY")
        reader.commit()
        assert get(look) == [(1,)]


def test_a_pool_that_is_exhausted_says_so(pool: SyncPool, connection: SyncConnection) -> None:
    held = [pool.acquire() for _ in range(2)]
    with pytest.raises(oracledb.DatabaseError, match="DPY-4005"):
        pool.acquire()
    for each in held:
        each.close()
    pool.acquire().close()


def test_a_connection_that_is_cut_is_lost_and_the_pool_makes_another(
    oracle: OracleDatabase, pool: SyncPool, connection: SyncConnection
) -> None:
    assert connection.session is not None
    oracle.cut.add(connection.session.process)
    with pytest.raises(oracledb.DatabaseError, match="DPY-4011") as caught:
        connection.cursor().execute("SELECT 1 FROM DUAL")
    assert caught.value.args[0].is_session_dead
    connection.close()
    with pool.acquire() as again:
        again.ping()


def test_rights_are_those_of_the_user(
    oracle: OracleDatabase, pool: SyncPool, connection: SyncConnection
) -> None:
    reader = oracle.add_user(creates=False)
    owner = pool.arguments["user"]
    other = oracledb.create_pool(user=reader, password="x", dsn="host/service", min=1, max=1)
    with other.acquire() as stranger:
        cursor = stranger.cursor()
        for sql, wanted in ((TABLE, "ORA-01031"), (f"SELECT id FROM {owner}.t", "ORA-00942")):
            with pytest.raises(oracledb.DatabaseError, match=wanted):
                cursor.execute(sql)
    other.close()


def test_vectors_and_json_are_native_in_23ai(oracle: OracleDatabase, pool: SyncPool) -> None:
    with pool.acquire() as connection:
        cursor = connection.cursor()
        ddl = "CREATE TABLE v (id NUMBER, e VECTOR(2, FLOAT32), j JSON)"
        if oracle.release < 23:
            with pytest.raises(oracledb.DatabaseError, match="ORA-00902"):
                cursor.execute(ddl)
            return
        cursor.execute(ddl)
        sql = "INSERT INTO v (id, e, j) VALUES (:id, :e, :j)"
        for number, values in enumerate(([1.0, 0.0], [0.0, 2.0])):
            cursor.setinputsizes(j=oracledb.DB_TYPE_JSON)
            document = {"words": ["green tea", f"n{number}"]}
            cursor.execute(sql, {"id": number, "e": array.array("f", values), "j": document})
        query = "SELECT id, e, j FROM v ORDER BY VECTOR_DISTANCE(e, :q, COSINE) FETCH FIRST 1 ROWS ONLY"
        cursor.execute(query, {"q": array.array("f", [0.0, 1.0])})
        assert cursor.fetchall() == [(1, array.array("f", [0.0, 2.0]), {"words": ["green tea", "n1"]})]
        wanted = "SELECT id FROM v WHERE JSON_TEXTCONTAINS(j, '$.words', :w)"
        with pytest.raises(oracledb.DatabaseError, match="ORA-40467"):
            cursor.execute(wanted, {"w": "{n0}"})
        cursor.execute("CREATE SEARCH INDEX words ON v (j) FOR JSON PARAMETERS ('SYNC (ON COMMIT)')")
        for words, found in (("{N0} AND {tea}", [(0,)]), ("{n0} AND {the}", [(0,)]), ("{the}", [])):
            cursor.execute(wanted, {"w": words})
            assert cursor.fetchall() == found
        with pytest.raises(oracledb.DatabaseError):
            cursor.execute(sql, {"id": 3, "e": array.array("f", [1.0]), "j": None})


def test_the_asynchronous_side_is_the_same_and_bound_to_its_loop(oracle: OracleDatabase) -> None:
    pool = oracledb.create_pool_async(user=oracle.add_user(), password="x", dsn="host/service", min=1, max=2)

    async def work() -> Any:
        async with pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute(TABLE)
            await cursor.execute("INSERT INTO t (id, name, body) VALUES (:a, 'n', :b)", {"a": 1, "b": "text"})
            assert cursor.rowcount == 1
            await connection.commit()
            await cursor.execute("SELECT body FROM t")
            ((locator,),) = await cursor.fetchall()
            assert await locator.read() == "text"
            await cursor.execute("SELECT body FROM t", fetch_lobs=False)
            assert await cursor.fetchone() == ("text",)
        return await pool.acquire()

    held = asyncio.run(work())

    async def misuse() -> None:
        await held.cursor().execute("SELECT 1 FROM DUAL")

    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(misuse())


def test_arguments_of_a_pool_are_checked_by_the_real_driver(oracle: OracleDatabase) -> None:
    with pytest.raises(TypeError):
        oracledb.create_pool(user="a", dsn="host/service", nonsense=1)


def test_documents_are_of_type_json_where_there_is_one_and_text_before(
    oracle: OracleDatabase, connection: SyncConnection
) -> None:
    cursor = connection.cursor()
    kind = "JSON" if oracle.release >= 21 else "CLOB CHECK (d IS JSON)"
    cursor.execute(f"CREATE TABLE j (id NUMBER(19), d {kind})")
    value: Any = {"a": {"b": 5}, "c": "x", "t": True}
    if oracle.release >= 21:
        with pytest.raises(oracledb.NotSupportedError, match="DPY-3002"):
            cursor.execute("INSERT INTO j (id, d) VALUES (1, :d)", {"d": value})
        connection.inputtypehandler = json_variable
    else:
        value = '{"a": {"b": 5}, "c": "x", "t": true}'
        with pytest.raises(oracledb.Error):
            cursor.execute("INSERT INTO j (id, d) VALUES (1, :d)", {"d": "{no JSON"})
    cursor.executemany(
        "INSERT INTO j (id, d) VALUES (:id, :d)", [{"id": 0, "d": None}, {"id": 1, "d": value}]
    )
    cursor.execute(
        """SELECT id FROM j WHERE JSON_EXISTS(d, '$?(@."a"."b" == $v1 && @."t" == true)' PASSING :p AS "v1")""",
        {"p": 5},
    )
    assert cursor.fetchall() == [(1,)]
    cursor.execute("SELECT d FROM j WHERE id = 1", fetch_lobs=False)
    assert cursor.fetchall() == [(value,)]
    with pytest.raises(oracledb.DatabaseError, match="ORA-40442"):
        cursor.execute("SELECT id FROM j WHERE JSON_EXISTS(d, :p)", {"p": "$.a"})


@pytest.mark.parametrize("value", [{"a" * 256: 1}, {"a": [1e126]}, {"a": {"b": float("nan")}}])
def test_json_has_limits(cursor: SyncCursor, connection: SyncConnection, value: Any) -> None:
    connection.inputtypehandler = json_variable
    with pytest.raises(oracledb.Error, match="DPY-"):
        cursor.execute("INSERT INTO t (id, name, body) VALUES (1, 'n', :d)", {"d": value})

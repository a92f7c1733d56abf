"""The double refuses what Oracle refuses: each rule bites."""

import oracledb
import pytest

from tests.oracle.rules import RELEASES, parse

NEVER = {
    "SELECT a FROM t ORDER BY a LIMIT 5": 933,
    "INSERT INTO t (a) VALUES (:a) ON CONFLICT DO NOTHING": 933,
    "INSERT INTO t (a) VALUES (:a) RETURNING id": 925,
    "SELECT a, b = c FROM t": 923,
    "SELECT a, (b IS NULL) q FROM t": 923,
    "SELECT a::text FROM t": 911,
    "SELECT CAST(a AS TEXT) FROM t": 902,
    "CREATE TABLE t (a TEXT)": 902,
    "CREATE TABLE t (a BYTEA)": 902,
    "CREATE TABLE t (a BIGINT)": 902,
    "SELECT a FROM t WHERE b = ?": 911,
    "SELECT a FROM t WHERE b = %s": 911,
    "SELECT a FROM t WHERE b = :1": 900,
    "SELECT a FROM t WHERE b = :size": 1745,
    "SELECT size FROM t": 1747,
    "SELECT a FROM _t": 911,
    f"SELECT {'a' * 129} FROM t": 972,
    "SELECT x.a FROM t AS x": 933,
    "SELECT x.a FROM t y JOIN t AS x ON x.a = y.a": 933,
    "SELECT x.a FROM (SELECT a FROM t) AS x": 933,
    "SELECT a FROM t WHERE a IN ()": 936,
    f"SELECT a FROM t WHERE a IN ({', '.join(map(str, range(1001)))})": 1795,
    "DELETE FROM t USING u WHERE t.a = u.a": 933,
    "UPDATE t SET a = u.a FROM u WHERE t.b = u.b": 933,
    "UPDATE t SET a = TRUE": 904,
    "SELECT a FROM t;": 911,
    "SELECT a FROM t WHERE a ILIKE :p1": 933,
    "SELECT a -> 'b' FROM t": 911,
    "SELECT a % 2 FROM t": 911,
    "SELECT STRPOS(a, :p1) FROM t": 933,
    "SELECT NOW() FROM DUAL": 933,
    "SELECT pg_sleep(1) FROM DUAL": 904,
    "SELECT frobnicate(a) FROM t": 904,
    "SELECT DISTINCT a FROM t FOR UPDATE": 2014,
    "SELECT COUNT(*) FROM t FOR UPDATE": 2014,
    "SELECT a FROM t GROUP BY a FOR UPDATE": 2014,
    "SELECT a FROM t FETCH FIRST 1 ROWS ONLY FOR UPDATE": 2014,
    "MERGE INTO t USING (SELECT :a AS a FROM DUAL) s ON (t.a = s.a)"
    " WHEN MATCHED THEN UPDATE SET b = 1 WHERE t.b < 3": 900,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN MATCHED AND t.b > 1 THEN UPDATE SET b = 1": 900,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN MATCHED THEN UPDATE SET t.a = u.a": 38104,
    "MERGE INTO t USING u ON (t.a = u.a AND b = 1) WHEN MATCHED THEN UPDATE SET b = 2": 38104,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN MATCHED THEN UPDATE SET u.b = 1": 904,
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = 1": 906,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN MATCHED THEN DELETE": 905,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN MATCHED THEN DO NOTHING": 905,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN NOT MATCHED BY SOURCE THEN DELETE": 905,
    "MERGE INTO t USING u ON (t.a = u.a) WHEN MATCHED THEN UPDATE SET b = 1 WHEN MATCHED THEN UPDATE SET b = 2": 933,
    "MERGE INTO t AS x USING u ON (x.a = u.a) WHEN MATCHED THEN UPDATE SET b = 1": 933,
    "CREATE INDEX i ON t (a) WHERE a IS NOT NULL": 933,
    "SELECT a FROM t WHERE (a, b) > (:p1, :p2)": 920,
    "BEGIN NULL; END;": 911,
    "VACUUM t": 933,
    "SELEC a FROM t": 900,
    "INSERT INTO t (a) VALUES (1), (2)": 933,
}
NEW = {
    "CREATE TABLE IF NOT EXISTS t (a NUMBER)": 922,
    "DROP TABLE IF EXISTS t": 922,
    "SELECT 1": 923,
    "SELECT a FROM t EXCEPT SELECT a FROM u": 933,
    "CREATE TABLE t (a JSON)": 902,
    "CREATE TABLE t (a VECTOR(3, FLOAT32))": 902,
    "SELECT VECTOR_DISTANCE(a, :q, COSINE) FROM t": 904,
    "CREATE VECTOR INDEX i ON t (a) ORGANIZATION NEIGHBOR PARTITIONS WITH DISTANCE COSINE": 901,
}
ALWAYS = (
    "SELECT a FROM t x WHERE x.b = :p1 ORDER BY a FETCH FIRST :p2 ROWS ONLY",
    "SELECT a AS q FROM t WHERE (a, b) IN ((:p1, :p2), (:p3, :p4))",
    "SELECT a FROM t MINUS SELECT a FROM u",
    "SELECT CASE WHEN a = 1 THEN 1 ELSE 0 END FROM t",
    "SELECT a FROM t WHERE a = :p1 FOR UPDATE",
    "SELECT a FROM t LEFT JOIN u ON u.a = t.a",
    f"SELECT a FROM t WHERE a IN ({', '.join(map(str, range(1000)))})",
    "WITH x AS (SELECT a FROM t) SELECT a FROM x",
    "INSERT INTO t (a) VALUES (:a) RETURNING id INTO :b",
    (
        "MERGE INTO t USING (SELECT :a AS a FROM DUAL) s ON (t.a = s.a) WHEN MATCHED THEN UPDATE SET b = 1"
        " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, 1)"
    ),
    "CREATE TABLE t (a RAW(16) NOT NULL, b NUMBER(19), PRIMARY KEY (a, b)) ORGANIZATION INDEX",
    "LOCK TABLE t IN EXCLUSIVE MODE",
    "ALTER SESSION SET NLS_SORT = BINARY NLS_COMP = BINARY",
    "SET TRANSACTION READ ONLY",
    'SELECT "SIZE" FROM t',
)


def _code(sql: str, release: int) -> int:
    with pytest.raises(oracledb.DatabaseError) as caught:
        parse(sql, release)
    code: int = caught.value.args[0].code
    return code


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("sql", NEVER)
def test_what_is_not_oracles_is_refused(sql: str, release: int) -> None:
    assert _code(sql, release) == NEVER[sql]


@pytest.mark.parametrize("sql", NEW)
def test_what_is_new_in_23ai_is_refused_by_19c(sql: str) -> None:
    parse(sql, 23)
    assert _code(sql, 19) == NEW[sql]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("sql", ALWAYS)
def test_what_is_oracles_is_taken(sql: str, release: int) -> None:
    parse(sql, release)

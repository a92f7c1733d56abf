"""One connection of the double: statements, transactions, binds and values, blocking."""

import array
import datetime
import json
import re
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import oracledb
import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.types.string import ByteaLoader
from sqlglot import exp

from tests.oracle import failing
from tests.oracle.database import OracleDatabase
from tests.oracle.failing import dpy, ora
from tests.oracle.rules import Parsed, parse
from tests.oracle.transpile import fill, index_ddl, query_text, table_ddl
from tests.oracle.words import MAX_BYTES, MAX_FIELD_NAME, MAX_INDEX_BYTES, MAX_NUMBER, MAX_SQL_TEXT

_BEGIN = {
    "": "BEGIN ISOLATION LEVEL READ COMMITTED",
    "READ ONLY": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "READ WRITE": "BEGIN ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL READ COMMITTED": "BEGIN ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL SERIALIZABLE": "BEGIN ISOLATION LEVEL REPEATABLE READ",
}
_CASTS: dict[type, str] = {
    str: "text",
    int: "numeric",
    float: "float8",
    bytes: "bytea",
    array.array: "real[]",
    datetime.datetime: "timestamptz",
    Decimal: "numeric",
}
_INT_LIMIT = 10**38
_OWN_TYPES = {
    "clob": oracledb.DB_TYPE_CLOB,
    "blob": oracledb.DB_TYPE_BLOB,
    "vector": oracledb.DB_TYPE_VECTOR,
}
_OPERATORS = {
    "COSINE": "vector_cosine_ops",
    "DOT": "vector_ip_ops",
    "EUCLIDEAN": "vector_l2_ops",
    "MANHATTAN": "vector_l1_ops",
}
_TYPES = {
    17: oracledb.DB_TYPE_RAW,
    25: oracledb.DB_TYPE_VARCHAR,
    3802: oracledb.DB_TYPE_JSON,
}


class Answer:
    """Of one statement: rows with the types of their columns, or a number of rows that were changed."""

    def __init__(self) -> None:
        self.columns: list[tuple[str, oracledb.DbType]] | None = None
        self.rows: list[tuple[Any, ...]] = []
        self.count = 0


class OracleSession:
    """What the server keeps for a connection."""

    def __init__(self, database: OracleDatabase, user: str) -> None:
        self.database = database
        self.busy = threading.RLock()
        self.call_timeout = 0
        try:
            self._connection = database.connect(user)
        except psycopg.Error as error:
            if "does not exist" in str(error):
                raise ora(1017, "invalid username/password; logon denied") from None
            raise dpy(failing.CONNECTION_FAILED, connection_id="double") from error
        found = self._connection.execute(
            "SELECT typname, oid FROM pg_type WHERE typname IN ('clob', 'blob', 'vector')"
        ).fetchall()
        self._lobs: dict[int, oracledb.DbType] = {}
        for name, oid in found:
            assert isinstance(oid, int)
            self._lobs[oid] = _OWN_TYPES[str(name)]
            if name == "blob":
                self._connection.adapters.register_loader(oid, ByteaLoader)
        self.open_transaction = self._reads_only = self._marked = False
        self.process = self._connection.info.backend_pid

    # ── transactions ──────────────────────────────────────────────────────────────────────────────

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def ping(self) -> None:
        self._send("SELECT 1")

    def _end(self, how: str) -> None:
        if self.open_transaction and self.database.cuts is not None and self.database.cuts(how):
            self._connection.close()
        self._check_alive()
        if self.open_transaction:
            self.open_transaction = False
            self._send(how)

    def is_cut(self) -> bool:
        return self.process in self.database.cut or self._connection.closed

    def _check_alive(self) -> None:
        if self.is_cut():
            self._connection.close()
        if self._connection.closed:
            raise dpy(failing.CONNECTION_CLOSED)

    def _send(self, text: str) -> None:
        """A command of ours. psycopg's cursors take several times as long as the bare call, and are asked only for what
        psycopg must know of: that something was rolled back."""
        self._check_alive()
        try:
            if text.startswith("ROLLBACK"):
                self._connection.execute(text.encode())
                return
            result = self._connection.pgconn.exec_(text.encode())
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _ask(self, text: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self._check_alive()
        try:
            return self._connection.execute(text.encode(), params).fetchall()
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: psycopg.Error) -> Exception:
        if not error.sqlstate:
            self._connection.close()
        return failing.translated(error, ddl=False, any_right=False)

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def run(self, sql: str, many: Sequence[Mapping[str, Any]], sizes: Mapping[str, Any]) -> Answer:
        """Run a statement with each of the sets of binds: all of it or nothing of it, the transaction goes on."""
        self.database.statements.append(sql)
        if self.database.cuts is not None and self.database.cuts(sql):
            self._connection.close()
        parsed = parse(sql, self.database.release)
        for binds in many:
            _check_binds(parsed, binds, sizes)
        self._check_alive()
        if parsed.command == "session":
            return Answer()
        if isinstance(parsed.tree, exp.Set):
            self._set_transaction(parsed)
            return Answer()
        if parsed.is_ddl:
            if parsed.binds:
                raise ora(1027, "bind variables not allowed for data definition operations")
            self.commit()
            if self.database.compatible < 20 and re.search(r"(?<!IS) JSON\b", sql):
                raise ora(406, "COMPATIBLE parameter needs to be 20.0.0.0.0 or greater")
            self._guarded("; ".join(self._ddl(parsed)), None, ddl=True)
            return Answer()
        if not self.open_transaction:
            self._begin("")
        return self._in_savepoint(parsed, many, sizes)

    def _begin(self, how: str) -> None:
        self._send(_BEGIN[how])
        self.open_transaction = True
        self._reads_only, self._marked = how == "READ ONLY", False
        if self.call_timeout:
            self._send(f"SET LOCAL statement_timeout = {int(self.call_timeout)}")

    def _set_transaction(self, parsed: Parsed) -> None:
        how = " ".join(parsed.text.upper().split()).removeprefix("SET TRANSACTION ")
        if how not in _BEGIN:
            raise ora(900, f"invalid SQL statement: {parsed.text}")
        if self.open_transaction:
            raise ora(1453, "SET TRANSACTION must be first statement of transaction")
        self._begin(how)

    def _in_savepoint(
        self, parsed: Parsed, many: Sequence[Mapping[str, Any]], sizes: Mapping[str, Any]
    ) -> Answer:
        if parsed.command == "lock":
            text, answer = _lock_text(dict(parsed.parts)), Answer()
        else:
            text, answer = query_text(parsed.text, self.database.release), Answer()
        self._check_text_index(parsed)
        if parsed.approximate:  # let it be as approximate as it gets
            self._send(
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off"
            )
        guarded = not self._reads_only
        if guarded:
            self._send(
                "RELEASE SAVEPOINT statement; SAVEPOINT statement" if self._marked else "SAVEPOINT statement"
            )
            self._marked = True
        try:
            for binds in many:
                values = {name.lower(): _bound(value, sizes.get(name)) for name, value in binds.items()}
                casts = {name.lower(): _cast(value, sizes.get(name)) for name, value in binds.items()}
                cursor = self._guarded(fill(text, casts), values, ddl=False)
                columns = cursor.description if parsed.is_query else None
                if columns is not None:
                    answer.columns = [(c.name.upper(), self._type(c.type_code)) for c in columns]
                    vectors = [kind is oracledb.DB_TYPE_VECTOR for _, kind in answer.columns]
                    answer.rows = [tuple(map(_fetched, row, vectors)) for row in cursor.fetchall()]
                    answer.count = len(answer.rows)
                else:
                    answer.count += max(cursor.rowcount, 0)
        except oracledb.Error:
            if not self._connection.closed:
                # What only reads has nothing to lose: its snapshot begins anew.
                self._send(
                    "ROLLBACK TO SAVEPOINT statement" if guarded else f"ROLLBACK; {_BEGIN['READ ONLY']}"
                )
            raise
        if parsed.approximate:
            self._send(
                "SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on; SET LOCAL enable_bitmapscan = on"
            )
        return answer

    def _check_text_index(self, parsed: Parsed) -> None:
        """`JSON_TEXTCONTAINS` is answered by an index only, and of a query that it can read."""
        for column in _searched(parsed.text, self.database.release):
            found = self._ask(
                "SELECT 1 FROM pg_description d JOIN pg_class c ON c.oid = d.objoid"
                " WHERE d.description = %(wanted)s AND has_schema_privilege(c.relnamespace, 'USAGE')",
                {"wanted": f"oracle search index {column}"},
            )
            if not found:
                raise ora(40467, "JSON_TEXTCONTAINS() cannot be evaluated without JSON-enabled context index")

    def _guarded(
        self, text: str, values: Mapping[str, Any] | None, *, ddl: bool
    ) -> "psycopg.Cursor[tuple[Any, ...]]":
        try:
            return self._connection.execute(text.encode(), values)
        except psycopg.Error as error:
            if not error.sqlstate or error.sqlstate.startswith("57P"):
                self._connection.close()
            raise failing.translated(
                error, ddl=ddl, any_right="permission denied for table" in str(error)
            ) from error

    def _type(self, oid: int) -> oracledb.DbType:
        return self._lobs.get(oid) or _TYPES.get(oid) or oracledb.DB_TYPE_NUMBER

    # ── tables and indexes ────────────────────────────────────────────────────────────────────────

    def _ddl(self, parsed: Parsed) -> list[str]:
        tree, parts = parsed.tree, dict(parsed.parts)
        if parsed.command:
            self._check_object(parts)
            index = f"CREATE INDEX {parts['name']} ON {parts['table']} (({parts['column']} IS NULL))"
            if parsed.command == "search index" and not self.database.has_text:
                raise ora(29833, "indextype does not exist")
            if parsed.command == "vector index":
                self._check_vector(parts)
                operators = _OPERATORS[parts["metric"].upper()]
                index = f"CREATE INDEX {parts['name']} ON {parts['table']} USING hnsw ({parts['column']} {operators})"
            return [
                index,
                f"COMMENT ON INDEX {parts['name']} IS 'oracle {parsed.command} {parts['column'].lower()}'",
            ]
        if isinstance(tree, exp.Create) and tree.args["kind"] == "TABLE":
            statements = table_ddl(parsed)
            self._check_keys(tree, statements)
            return statements
        if isinstance(tree, exp.Create) and tree.args["kind"] == "INDEX":
            text, table, columns = index_ddl(parsed)
            self._check_index(table, columns)
            return [text]
        if isinstance(tree, exp.Drop | exp.Grant | exp.TruncateTable) or (
            isinstance(tree, exp.Create) and tree.args["kind"] == "SEQUENCE"
        ):
            text = parsed.text.upper().removesuffix(" PURGE").replace(" NOCACHE", "")
            return [text.replace(" CASCADE CONSTRAINTS", " CASCADE")]
        raise ora(900, f"the double does not know this: {parsed.text}")

    def _check_object(self, parts: Mapping[str, str]) -> None:
        sizes = self._column_sizes(parts["table"])
        if parts["column"].lower() not in sizes:
            raise ora(904, f"{parts['column']}: invalid identifier")

    def _check_vector(self, parts: Mapping[str, str]) -> None:
        """The column has a dimension, and no other index."""
        found = self._ask(
            "SELECT atttypmod, (SELECT count(*) FROM pg_description d JOIN pg_index i ON i.indexrelid = d.objoid"
            " WHERE i.indrelid = attrelid AND d.description LIKE 'oracle vector%%') FROM pg_attribute"
            " WHERE attrelid = %(table)s::regclass AND attname = %(column)s",
            {"table": parts["table"], "column": parts["column"].lower()},
        )
        if found[0][0] < 1:
            raise ora(51815, "a vector index needs a column with a number of dimensions")
        if found[0][1]:
            raise ora(1408, "such column list already indexed")

    def _check_keys(self, tree: exp.Expr, statements: Sequence[str]) -> None:
        sizes = {
            comment.split(" ")[3].rsplit(".", 1)[1]: int(comment.rstrip("'").rsplit(" ", 1)[1])
            for comment in statements[1:]
        }
        for key in tree.find_all(exp.PrimaryKey, exp.UniqueColumnConstraint):
            _check_key([sizes.get(column.name.lower(), 0) for column in key.expressions])
        for column in tree.find_all(exp.ColumnDef):
            if column.find(exp.PrimaryKeyColumnConstraint):
                _check_key([sizes[column.name.lower()]])

    def _check_index(self, table: str, columns: Sequence[str]) -> None:
        sizes = self._column_sizes(table)
        if missing := [column for column in columns if column not in sizes]:
            raise ora(904, f"{missing[0]}: invalid identifier")
        _check_key([sizes[column] for column in columns])
        found = self._ask(
            "SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_index i"
            " CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
            " WHERE i.indrelid = %(table)s::regclass GROUP BY i.indexrelid",
            {"table": table},
        )
        if (list(columns),) in found:
            raise ora(1408, "such column list already indexed")

    def _column_sizes(self, table: str) -> dict[str, int]:
        found = self._ask(
            "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute"
            " WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped",
            {"table": table},
        )
        return {str(name): int(str(comment).rsplit(" ", 1)[1]) for name, comment in found}


@lru_cache(maxsize=4096)
def _searched(sql: str, release: int) -> tuple[str, ...]:
    """The columns that `JSON_TEXTCONTAINS` looks into."""
    tree = parse(sql, release).tree
    calls = () if tree is None else tree.find_all(exp.Anonymous)
    return tuple(
        call.expressions[0].name.lower() for call in calls if str(call.this).upper() == "JSON_TEXTCONTAINS"
    )


def _check_key(sizes: Sequence[int]) -> None:
    if -1 in sizes:
        raise ora(2327, "cannot create index on expression with datatype LOB")
    if sum(sizes) > MAX_INDEX_BYTES:
        raise ora(1450, f"maximum key length ({MAX_INDEX_BYTES}) exceeded")


def _lock_text(parts: Mapping[str, str]) -> str:
    modes = {"EXCLUSIVE": "EXCLUSIVE", "SHARE": "SHARE", "ROW EXCLUSIVE": "ROW EXCLUSIVE"}
    mode = modes.get(" ".join(parts["mode"].upper().split()))
    if mode is None:
        raise ora(900, f"the double does not know the mode {parts['mode']}")
    return f"LOCK TABLE {parts['table']} IN {mode} MODE{' NOWAIT' if parts['now'] else ''}"


# ── values ────────────────────────────────────────────────────────────────────────────────────────────


def _check_binds(parsed: Parsed, binds: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
    for name in binds:
        if name not in parsed.binds:
            raise dpy(failing.BIND_NOT_IN_TEXT, name=name)
    for name in parsed.binds:
        if name not in binds:
            raise dpy(failing.BIND_WITHOUT_VALUE, name=name)
    for name, value in binds.items():
        if isinstance(value, dict | list) and sizes.get(name) is oracledb.DB_TYPE_JSON:
            check_json(value)
            continue
        if value is not None and type(value) not in _CASTS:
            raise dpy(failing.VALUE_TYPE, type_name=type(value).__name__)
        if type(value) is int and abs(value) >= _INT_LIMIT:
            raise ora(1426, "numeric overflow")
        if name in parsed.sources and sizes.get(name) in (oracledb.DB_TYPE_CLOB, oracledb.DB_TYPE_BLOB):
            raise ora(932, "inconsistent datatypes: the double takes no LOB in the source of a MERGE")
        in_expression = name not in parsed.stored and sizes.get(name) is not oracledb.DB_TYPE_CLOB
        if type(value) is str and in_expression and len(value.encode()) > MAX_SQL_TEXT:
            raise ora(1461, "can bind a LONG value only for insert into a LONG column")
        if type(value) is bytes and isinstance(parsed.tree, exp.Merge) and len(value) > MAX_BYTES["RAW"]:
            raise ora(1461, "can bind a LONG value only for insert into a LONG column")


def check_json(value: Any) -> None:
    """What the driver and the database's own JSON can't hold."""
    if isinstance(value, dict):
        for name, below in value.items():
            if type(name) is not str or len(name.encode()) > MAX_FIELD_NAME:
                raise dpy(failing.FIELD_NAME, max_fname_size=MAX_FIELD_NAME)
            check_json(below)
    elif isinstance(value, list):
        for below in value:
            check_json(below)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) < MAX_NUMBER:
        raise dpy(failing.NUMBER_TEXT, value=value)


def _bound(value: Any, size: Any) -> Any:
    if value in ("", b""):
        return None
    if size is oracledb.DB_TYPE_JSON and value is not None:
        return json.dumps(value)
    return list(value) if isinstance(value, array.array) else value


def _cast(value: Any, size: Any) -> str:
    if value is None or value in ("", b""):
        return ""
    if size is oracledb.DB_TYPE_JSON:
        return "jsonb"
    if size is oracledb.DB_TYPE_CLOB:
        return "clob"
    return _CASTS[type(value)]


def _fetched(value: Any, vector: bool) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return array.array("f", json.loads(value)) if vector and value is not None else value

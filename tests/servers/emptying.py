"""Databases that one test after the other uses: the tables stay, what is in them goes.

To make a database and its tables takes several times as long as a case of a conformance suite. What the schema itself
puts into its tables stays as it is: its version, and counters that begin at nought.
"""

import contextlib
import time
from typing import Any

# Rows are deleted, which is quick, as long as what was deleted before is little. An approximate index would look at it.
_TABLES = """
    SELECT nspname || '.' || relname,
           (SELECT SUM(pg_table_size(relid)) FROM pg_partition_tree(c.oid)) < 1e6 AND NOT EXISTS (
               SELECT FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam
               WHERE i.indrelid = c.oid AND a.amname = 'hnsw')
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname ~ %s"""


def _kept(table: str, version: str = "version") -> str | None:
    """The statement that sets a table of the schema's own back. ``version``: the column that counts versions."""
    kind = table.rpartition("_")[2]
    if kind == "meta":
        return f"DELETE FROM {table} WHERE name NOT LIKE 'schema:%'"
    if column := {"counters": version, "numbers": "number"}.get(kind):
        return f"UPDATE {table} SET {column} = 0 WHERE {column} <> 0"
    return None


def empty_postgres(
    connection: Any, schemas: str = "^(?!pg_|information_schema)", version: str = "version"
) -> None:
    """``connection`` is a superuser's, in that database; ``schemas`` is a pattern. Sessions that are left over are
    ended."""
    connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    found = connection.execute(_TABLES, (schemas,)).fetchall()
    back = {table: statement for table, _ in found if (statement := _kept(table, version))}
    content = {table: small for table, small in found if table not in back}
    if content:
        filled = " UNION ALL ".join(
            f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in content
        )
        full = {table for (table,) in connection.execute(filled)}
        back |= {table: f"DELETE FROM {table}" for table in full if content[table]}
        if big := [table for table in full if not content[table]]:
            connection.execute(f"TRUNCATE {', '.join(big)} CASCADE")
    if back:
        connection.execute("; ".join(back.values()))
    connection.execute(
        "SELECT setval(c.oid, 1, FALSE) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE relkind = 'S' AND nspname ~ %s",
        (schemas,),
    )


def empty_mariadb(connection: Any) -> None:
    """``connection`` is root's, in that database. Sessions that are left over are ended."""
    with connection.cursor() as cursor:
        _end_sessions(cursor)
        cursor.execute("SHOW TABLES")
        for (table,) in cursor.fetchall():
            cursor.execute(_kept(table) or f"DELETE FROM {table}")


def _end_sessions(cursor: Any) -> None:
    from pymysql.err import OperationalError

    others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    deadline = time.monotonic() + 30
    while cursor.execute(others):
        assert time.monotonic() < deadline, "sessions of other tests don't end"
        for (number,) in cursor.fetchall():
            with contextlib.suppress(OperationalError):  # it has just ended by itself
                cursor.execute(f"KILL {number}")

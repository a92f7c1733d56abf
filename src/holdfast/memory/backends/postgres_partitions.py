"""Tables in partitions: each is so many tables by the hash of what its rows are found by.

Statements are the same. A thread's rows are found by its life, an item's by its namespace, so those of one thread or
namespace are in one partition, and a query about it looks into that one only. What else was unique by a number alone
is found by an index over the number, in every partition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from holdfast.core.errors import InvalidInput, SchemaMismatch
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sql.schema import Schema

MOST = 1024
_ALONE = " PRIMARY KEY,"  # of a column alone


def checked_partitions(value: object) -> int | None:
    """How many; ``None``: as the tables are, or none."""
    if value is None or (type(value) is int and 2 <= value <= MOST):
        return value
    raise InvalidInput(f"partitions must be a whole number from 2 to {MOST}, or None, got {value!r}")


def distribution_of_threads(t: Tables) -> dict[str, tuple[str, ...]]:
    """What rows of the checkpoint tables are spread by."""
    by_life = (t.lives, t.ghosts, t.hidden, t.checkpoints, t.entries, t.writes, t.unindexed)
    return {t.threads: ("scope", "thread_id"), **dict.fromkeys(by_life, ("life",)), t.words: ("id",)}


def distribution_of_items(t: ItemTables) -> dict[str, tuple[str, ...]]:
    """The same for a store. There is one small row for a namespace, unique by its name and by its number: that table
    can't be in partitions, nor need it."""
    return {t.items: ("ns",), t.postings: ("ns_id",), t.terms: ("item_id",), t.vectors: ("item_id",)}


def partitioned(schema: Schema, distribution: Mapping[str, tuple[str, ...]], count: int | None) -> Schema:
    """The schema with these tables in so many partitions."""
    if count is None:
        return schema
    steps = tuple(
        tuple(new for statement in step for new in _in_partitions(statement, distribution, count))
        for step in schema.steps
    )
    return replace(schema, steps=steps, check=lambda: _check(tuple(distribution), count))


def _in_partitions(statement: str, distribution: Mapping[str, tuple[str, ...]], count: int) -> Iterator[str]:
    table = statement.removeprefix("CREATE TABLE ").partition(" ")[0]
    columns = distribution.get(table) if statement.startswith("CREATE TABLE ") else None
    if columns is None:
        yield statement
        return
    number = _number_alone(statement)
    if (number,) == columns:
        number = None
    if number is not None:  # what is unique must be so within a partition
        statement = statement.replace(_ALONE, ",", 1)
    yield f"{statement} PARTITION BY HASH ({', '.join(columns)})"
    name = table.rpartition(".")[2]
    for part in range(count):
        yield (
            f"CREATE TABLE {table}_p{part} PARTITION OF {table}"
            f" FOR VALUES WITH (MODULUS {count}, REMAINDER {part})"
        )
    if number is not None:
        yield f"CREATE INDEX {name}_number ON {table} ({number})"


def _number_alone(statement: str) -> str | None:
    """The column that is the primary key by itself, if one is."""
    before, found, _ = statement.partition(_ALONE)
    return before.rpartition("(")[2].split()[0] if found else None


def _check(tables: tuple[str, ...], count: int) -> Plan[None]:
    """Refuse tables that are made differently: the server can't change that in place."""
    wanted = ", ".join(["(?)"] * len(tables))
    found = yield from fetch(
        f"SELECT n, (SELECT COUNT(*) FROM pg_inherits i WHERE i.inhparent = to_regclass(n))"
        f" FROM (VALUES {wanted}) v (n)",
        *tables,
    )
    wrong = [(table, parts) for table, parts in found if parts != count]
    if wrong:
        table, parts = wrong[0]
        raise SchemaMismatch(
            f"{table} has {parts or 'no'} partitions, not {count}: that can't be changed in place. Leave partitions="
            " away to use the tables as they are, or make new ones (schema=, table_name=) and copy what is there"
        )

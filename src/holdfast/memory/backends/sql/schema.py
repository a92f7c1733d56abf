"""The checkpoint tables, and how a database gets and keeps them.

::

    threads      one row a thread: which life of the id this is, its head, what it inherits
    lives        a life's thread, from its first own checkpoint on; gone with the thread
    ghosts       lives whose thread is gone but that forks still read, and what they themselves read
    hidden       checkpoints that a thread no longer shows although a fork still reads them
    checkpoints  one small row a checkpoint: the state without its lists, and the path of each list
    entries      the lists' elements, a line of JSON each: append-only logs, keyed by life, log and position
    writes       pending writes
    words        the text index over the entries

A *life* is one existence of a thread id, from its first save to its deletion: a 16-byte key that begins with a hash
of the scope and is never used again.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.errors import Corrupt, SchemaMismatch
from holdfast.memory.backends.sql.dialect import Dialect, Tables
from holdfast.memory.backends.sql.plan import Plan, Statement, change, fetch_one
from holdfast.memory.backends.sql.slots import EVERY_SLOT

if TYPE_CHECKING:
    from holdfast.memory.backends.sql.security import Security

Migration = Callable[[], Sequence[str]]

_MARK = re.compile(r"\?(\d*)")


@dataclass(frozen=True, slots=True)
class Schema:
    """A component's tables as numbered steps. A released step never changes; a new one is added at the end."""

    component: str
    meta: str
    dialect: Dialect
    steps: tuple[tuple[str, ...], ...]
    tables: tuple[str, ...]
    security: "Security | None" = None  # how the database itself keeps tenants apart, if it can
    check: Callable[[], Plan[None]] | None = None  # raises if tables that are there were made differently

    @property
    def key(self) -> tuple[str, str]:
        return (self.meta, self.component)

    @property
    def version(self) -> int:
        return len(self.steps)


def checkpoint_schema(tables: Tables, text_index: Sequence[str]) -> Schema:
    """The schema of the checkpoint tables; ``text_index`` is the dialect's DDL for the words."""
    return Schema(
        component="checkpoints",
        meta=tables.meta,
        dialect=tables.dialect,
        steps=((*_version_1(tables), *text_index),),
        tables=(
            tables.threads,
            tables.lives,
            tables.ghosts,
            tables.hidden,
            tables.checkpoints,
            tables.entries,
            tables.writes,
            tables.words,
            *((tables.unindexed,) if tables.dialect.queued else ()),
            *((tables.numbers,) if tables.dialect.counted else ()),
        ),
    )


def _version_1(t: Tables) -> tuple[str, ...]:
    d = t.dialect
    marked = d.where("named IS NOT NULL")
    # Clustered are only tables of tiny rows: see ADR 8. Numbers come first where a database aligns them.
    return (
        f"""CREATE TABLE {t.threads} (
            scope {d.id_text} NOT NULL, ns {d.id_text} NOT NULL, thread_id {d.id_text} NOT NULL,
            life {d.key} NOT NULL, head_seq {d.number} NOT NULL, next_seq {d.number} NOT NULL,
            saved {d.number} NOT NULL{d.numbering}, created_at {d.number} NOT NULL, updated_at {d.number} NOT NULL,
            expires_at {d.number}, pending {d.number} NOT NULL, lineage {d.text} NOT NULL,
            base {d.key}, upto {d.number}, {d.primary("scope", "ns", "thread_id")})""",
        f"CREATE INDEX {t.prefix}_threads_saved ON {t.threads} ({d.part('scope')}, {d.part('ns')}, saved)",
        f"CREATE INDEX {t.prefix}_threads_base ON {t.threads} (base){d.where('base IS NOT NULL')}",
        f"""CREATE TABLE {t.lives} (
            life {d.key} NOT NULL PRIMARY KEY,
            scope {d.id_text} NOT NULL, ns {d.id_text} NOT NULL, thread_id {d.id_text} NOT NULL){d.clustered}""",
        f"""CREATE TABLE {t.ghosts} (
            life {d.key} NOT NULL PRIMARY KEY, base {d.key}, upto {d.number} NOT NULL){d.clustered}""",
        f"CREATE INDEX {t.prefix}_ghosts_base ON {t.ghosts} (base){d.where('base IS NOT NULL')}",
        f"""CREATE TABLE {t.hidden} (
            life {d.key} NOT NULL, seq {d.number} NOT NULL, PRIMARY KEY (life, seq)){d.clustered}""",
        f"""CREATE TABLE {t.checkpoints} (
            seq {d.number} NOT NULL, created_at {d.number} NOT NULL, seal {d.number} NOT NULL, named {d.count},
            life {d.key} NOT NULL, checkpoint_id {d.id_text} NOT NULL, parent_id {d.id_text},
            metadata {d.text} NOT NULL, lists {d.text} NOT NULL, head {d.text} NOT NULL, PRIMARY KEY (life, seq))""",
        # Only ids that don't tell their sequence themselves need it. Not unique: a checkpoint that only a fork
        # still reads may have the id of a newer one.
        f"CREATE INDEX {t.prefix}_checkpoints_id ON {t.checkpoints} (life, checkpoint_id){marked}",
        f"""CREATE TABLE {t.entries} (
            id {d.row_number}, log {d.number} NOT NULL, seq {d.number} NOT NULL, seal {d.number} NOT NULL,
            pos {d.count} NOT NULL, size {d.count} NOT NULL, searchable {d.count} NOT NULL, life {d.key} NOT NULL,
            body {d.text} NOT NULL)""",
        f"CREATE UNIQUE INDEX {t.prefix}_entries_place ON {t.entries} (life, log, pos)",
        *(statement.format(entries=t.entries) for statement in d.tuning),
        f"""CREATE TABLE {t.writes} (
            life {d.key} NOT NULL, seq {d.number} NOT NULL, task_id {d.id_text} NOT NULL, idx {d.number} NOT NULL,
            channel {d.id_text} NOT NULL, value {d.text} NOT NULL,
            PRIMARY KEY (life, seq, task_id, idx))""",
        *(_for_servers(t) if d.queued else ()),
        *(_counters(t) if d.counted else ()),
    )


def _for_servers(t: Tables) -> tuple[str, ...]:
    """What is to be indexed."""
    d = t.dialect
    return (
        f"""CREATE TABLE {t.unindexed} (
            life {d.key} NOT NULL, log {d.number} NOT NULL, pos {d.number} NOT NULL, PRIMARY KEY (life, log, pos))""",
        *(index.format(prefix=t.prefix, table=t.checkpoints) for index in d.metadata_indexes),
    )


def _counters(t: Tables) -> tuple[str, ...]:
    """The highest number of a save, for so many groups of scopes. Above all that are there, if it is made anew."""
    d = t.dialect
    return (
        f"CREATE TABLE {t.numbers} (slot {d.number} NOT NULL PRIMARY KEY, number {d.number} NOT NULL)",
        f"""INSERT INTO {t.numbers} (slot, number)
            SELECT slot, (SELECT COALESCE(MAX(saved), 0) FROM {t.threads}) FROM {EVERY_SLOT} every_slot
            WHERE NOT EXISTS (SELECT 1 FROM {t.numbers})""",
    )


def meta_ddl(meta: str, dialect_text: str) -> str:
    """The table of single values: schema versions, the text index's watermark, counters."""
    columns = f"name {dialect_text} NOT NULL PRIMARY KEY, value {dialect_text} NOT NULL"
    return f"CREATE TABLE IF NOT EXISTS {meta} ({columns})"


def migrate(schema: Schema, existing: Callable[[], Plan[set[str]]], *, create: bool = True) -> Plan[None]:
    """Bring the component to this version. To be run under the database's migration lock.

    A database that a newer version of Holdfast has written is refused, as is one with tables missing when
    ``create`` is off.
    """
    name = f"schema:{schema.component}"
    if create:
        yield [change(meta_ddl(schema.meta, schema.dialect.id_text))]
    present = yield from existing()
    row = (
        (yield from fetch_one(f"SELECT value FROM {schema.meta} WHERE name = ?", name))
        if schema.meta in present
        else None
    )
    if row is not None and not str(row[0]).isdigit():
        raise Corrupt(f"{schema.meta} says that {name} is {row[0]!r}: that is no version", place=schema.meta)
    version = 0 if row is None else int(row[0])
    if version > schema.version:
        raise SchemaMismatch(
            f"the database has version {version} of the {schema.component} tables, this Holdfast knows versions up to"
            f" {schema.version}: it was written by a newer Holdfast; upgrade this one"
        )
    missing = [table for table in schema.tables if table not in present]
    if version == schema.version and not missing:
        return
    # Where some were dropped by hand, it starts again with what is not there.
    statements = creation(schema, 0 if missing else version, again=bool(missing and version))
    if not create:
        raise SchemaMismatch(
            f"tables are missing or old: {', '.join(missing) or name}",
            ddl="".join(f"{statement};\n" for statement in statements),
        )
    yield [change(statement) for statement in statements]


def creation(schema: Schema, version: int = 0, *, again: bool = False) -> list[str]:
    """The statements that bring a component from that version (0: none) to this one. ``again``: it was there before."""
    name = f"schema:{schema.component}"
    statements = [meta_ddl(schema.meta, schema.dialect.id_text)]
    if again:  # an index that is new again, or whose rows are gone, must be filled again
        statements.append(f"DELETE FROM {schema.meta} WHERE name LIKE 'text:%'")
    statements += [_if_absent(statement) for step in schema.steps[version:] for statement in step]
    version_row = name, str(schema.version)
    statements += map(_written, schema.dialect.put_row(schema.meta, ("name",), ("value",), *version_row))
    return statements


def _written(statement: Statement) -> str:
    """The statement with its values, which are plain texts, in the text."""
    values = iter(statement.params)
    return _MARK.sub(
        lambda mark: f"'{statement.params[int(mark[1]) - 1] if mark[1] else next(values)}'", statement.sql
    )


def _if_absent(statement: str) -> str:
    for kind in ("CREATE TABLE ", "CREATE UNIQUE INDEX ", "CREATE INDEX ", "CREATE VIRTUAL TABLE "):
        if statement.startswith(kind):
            return statement.replace(kind, f"{kind}IF NOT EXISTS ", 1)
    return statement

"""Row-level security: PostgreSQL itself shows a transaction only the rows of the tenant that it is about.

A transaction says for whom it is by a setting that ends with it. Every table with a tenant's data has a policy that
compares the setting with the row, for the owner too (``FORCE``). A table of threads has the scope as a column that
fills itself from the setting; an item has its namespace, and what belongs to it is seen by who sees its namespace.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.keys import SCOPE_BYTES
from holdfast.memory.backends.sql.plan import Plan, Statement, fetch
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sql.security import Security, SecurityState
from holdfast.memory.backends.sql.text_index import analyser

FENCED: Final = "SELECT COALESCE(current_setting('holdfast.scope', true), '') <> ''"
"""Whether this transaction is a tenant's."""

# Each is asked for once a statement, not once a row. After a transaction that set it, a setting is ''.
_SCOPE = "(SELECT current_setting('holdfast.scope', true))"
_NAMESPACES = (
    "(SELECT array_remove(CAST(NULLIF(current_setting('holdfast.namespaces', true), '') AS TEXT[]), ''))"
)
_OPERATOR = "(SELECT current_setting('holdfast.operator', true)) = 'on'"
_TENANT_POLICY, _OPERATOR_POLICY = "holdfast_tenant", "holdfast_operator"
_AS_OPERATOR = Statement("rows", "SELECT set_config('holdfast.operator', 'on', true)", ())


def secured_threads(
    schema: Schema, t: Tables, *, required: bool = False, operators: str | None = None
) -> Schema:
    """The schema of the checkpoint tables, with scopes as tenants. ``operators``: a role that may list all scopes."""
    by_life = [table for table in schema.tables if table not in (t.threads, t.lives, t.words)]
    steps = list(_begin_the_index(schema, t))
    for table in by_life:
        steps += _scope_column(table, _scopes_by_life(t, table), t.dialect.id_text)
    steps += _scope_column(t.words, _scopes_of_words(t), t.dialect.id_text)
    # What is not indexed by life or scope would be looked through for all tenants.
    for table in (t.words, t.unindexed):
        steps.append(f"CREATE INDEX {table.rpartition('.')[2]}_scope ON {table} (scope)")
    for table in schema.tables:
        steps += _policies(table, f"scope = {_SCOPE}", operators, "SELECT")
    steps.append(_close_partitions(schema.tables))
    return _with_security(schema, steps, schema.tables, _scope_fence, required)


def secured_items(
    schema: Schema, t: ItemTables, *, required: bool = False, operators: str | None = None
) -> Schema:
    """The schema of a store's tables, or of an index over them, with namespaces as tenants."""
    empty = f"NOT EXISTS (SELECT 1 FROM {t.items})"
    steps = [] if t.items not in schema.tables else [_note_analyser(schema, empty)]
    tables = [table for table in schema.tables if table != t.counters]
    for table in tables:
        steps += _policies(table, _namespace_policy(t, table), operators, "ALL")
    steps.append(_close_partitions(tables))
    return _with_security(schema, steps, (t.items, *tables), _namespaces_fence, required)


def _namespace_policy(t: ItemTables, table: str) -> str:
    name = table.rpartition(".")[2]
    if table in (t.items, t.namespaces):
        return f"ns ^@ ANY (CAST({_NAMESPACES} AS TEXT[]))"
    if table == t.terms:
        return f"EXISTS (SELECT 1 FROM {t.items} i WHERE i.id = {name}.item_id)"
    return f"EXISTS (SELECT 1 FROM {t.namespaces} n WHERE n.ns_id = {name}.ns_id)"


def _with_security(
    schema: Schema,
    steps: Sequence[str],
    watched: Sequence[str],
    fence: Callable[[Sequence[Any] | None], Statement],
    required: bool,
) -> Schema:
    """``watched``: if one of these is secured, so must be the others."""
    tables = tuple(table for table in watched if table in schema.tables)
    own = replace(
        schema, component=f"{schema.component}:tenants", steps=(tuple(steps),), tables=tables, security=None
    )
    security = Security(
        own, required, lambda: _secured(own), lambda: _state(tuple(dict.fromkeys(watched))), fence
    )
    return replace(schema, security=security)


# ── what a transaction begins with ────────────────────────────────────────────────────────────────────


def _scope_fence(places: Sequence[Any] | None) -> Statement:
    if places is None:
        return _AS_OPERATOR
    return Statement("rows", "SELECT set_config('holdfast.scope', ?, true)", tuple(places) or ("",))


def _namespaces_fence(places: Sequence[Any] | None) -> Statement:
    if places is None:
        return _AS_OPERATOR
    quoted = (key_of(place).replace("\\", "\\\\").replace('"', '\\"') for place in places)
    value = "{" + ",".join(f'"{one}"' for one in quoted) + "}"
    return Statement("rows", "SELECT set_config('holdfast.namespaces', ?, true)", (value,))


# ── what makes the tables so ──────────────────────────────────────────────────────────────────────────


def _policies(table: str, condition: str, operators: str | None, allowed: str) -> Iterator[str]:
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield f"DROP POLICY IF EXISTS {_TENANT_POLICY} ON {table}"
    yield f"CREATE POLICY {_TENANT_POLICY} ON {table} USING ({condition}) WITH CHECK ({condition})"
    if operators is not None:
        yield f"DROP POLICY IF EXISTS {_OPERATOR_POLICY} ON {table}"
        yield f"CREATE POLICY {_OPERATOR_POLICY} ON {table} FOR {allowed} TO {operators} USING ({_OPERATOR})"


def _close_partitions(tables: Sequence[str]) -> str:
    """Partitions are seen through their table, whose policies hold then. Themselves they have none, and show none."""
    names = ", ".join(f"'{table}'" for table in tables)
    return (
        "DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT inhrelid FROM pg_inherits"
        f" WHERE inhparent = ANY (CAST(ARRAY[{names}] AS regclass[])) LOOP"
        " EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', part);"
        " EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', part); END LOOP; END $$"
    )


def _scope_column(table: str, filling: str, text: str) -> Iterator[str]:
    """A column that no statement names: what is inserted is the tenant's whom the transaction is about."""
    yield f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS scope {text}"
    yield filling
    yield f"ALTER TABLE {table} ALTER COLUMN scope SET DEFAULT current_setting('holdfast.scope')"
    yield f"ALTER TABLE {table} ALTER COLUMN scope SET NOT NULL"


def _scopes_by_life(t: Tables, table: str) -> str:
    """All lives of a scope begin with the same bytes. Should two scopes ever have the same, none is guessed."""
    prefix = f"substring({{}} FROM 1 FOR {SCOPE_BYTES})"
    known = (
        f"SELECT {prefix.format('life')} AS prefix, MIN(scope) AS scope FROM {t.threads}"
        " GROUP BY 1 HAVING MIN(scope) = MAX(scope)"
    )
    return (
        f"UPDATE {table} SET scope = s.scope FROM ({known}) s"
        f" WHERE {prefix.format('life')} = s.prefix AND {table.rpartition('.')[2]}.scope IS NULL"
    )


def _scopes_of_words(t: Tables) -> str:
    name = t.words.rpartition(".")[2]
    return f"UPDATE {t.words} SET scope = e.scope FROM {t.entries} e WHERE e.id = {name}.id AND {name}.scope IS NULL"


def _begin_the_index(schema: Schema, t: Tables) -> Iterator[str]:
    """No tenant may index for the others: if nobody has begun, it is begun for all."""
    unknown = _no_analyser(schema)
    listed = f"SELECT 1 FROM {t.unindexed} u WHERE u.life = e.life AND u.log = e.log AND u.pos = e.pos"
    yield f"DELETE FROM {t.words} WHERE {unknown}"
    yield (
        f"INSERT INTO {t.unindexed} (life, log, pos) SELECT life, log, pos FROM {t.entries} e"
        f" WHERE e.searchable = 1 AND NOT EXISTS ({listed}) AND {unknown}"
    )
    yield _note_analyser(schema, "TRUE")


def _note_analyser(schema: Schema, condition: str) -> str:
    """If it is not known yet, and under that condition, all words are this analyser's."""
    return (
        f"INSERT INTO {schema.meta} (name, value) SELECT 'text:analyser', '{analyser()}'"
        f" WHERE {condition} AND {_no_analyser(schema)}"
    )


def _no_analyser(schema: Schema) -> str:
    """Nor is this done again: then it would not see the rows."""
    names = f"'text:analyser', 'schema:{schema.component}:tenants'"
    return f"NOT EXISTS (SELECT 1 FROM {schema.meta} WHERE name IN ({names}))"


# ── what the database says ────────────────────────────────────────────────────────────────────────────


def _secured(schema: Schema) -> Plan[set[str]]:
    """Which tables are secured in full, and the table of versions if it is there."""
    wanted = ", ".join(["(?)"] * len(schema.tables))
    found = yield from fetch(
        f"SELECT n FROM (VALUES {wanted}) v (n) JOIN pg_class c ON c.oid = to_regclass(n)"
        " WHERE c.relrowsecurity AND c.relforcerowsecurity"
        f" AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = '{_TENANT_POLICY}')"
        " UNION ALL SELECT n FROM (VALUES (?)) m (n) WHERE to_regclass(n) IS NOT NULL",
        *(*schema.tables, schema.meta),
    )
    return {name for (name,) in found}


def _state(tables: Sequence[str]) -> Plan[SecurityState]:
    wanted = ", ".join(["(?)"] * len(tables))
    ((*state,),) = yield from fetch(
        f"""WITH watched AS (SELECT c.* FROM (VALUES {wanted}) v (n) JOIN pg_class c ON c.oid = to_regclass(n))
        SELECT (SELECT COALESCE(BOOL_OR(relrowsecurity), false) FROM watched), CAST(r.rolname AS TEXT),
        r.rolsuper OR r.rolbypassrls,
        EXISTS (SELECT 1 FROM pg_policy p JOIN watched w ON p.polrelid = w.oid, unnest(p.polroles) o (role)
            WHERE p.polname = '{_OPERATOR_POLICY}' AND pg_has_role(o.role, 'USAGE'))
        FROM pg_roles r WHERE r.rolname = current_user""",
        *tables,
    )
    return SecurityState(*state)

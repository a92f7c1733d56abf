"""The tables of a store.

::

    items       one row an item; its number is the version of the put that created it
    namespaces  one row a namespace that holds items: its number, its vector space, what changed in it
    postings    which items have which term, and how often: clustered by namespace, so that a search reads, a
                put writes and a clearing deletes neighbouring rows
    terms       the terms of each item as they were indexed: what to take out of the postings again
    vectors     the embeddings, float32
    counters    where versions come from: see `items_versions`

Versions never repeat, so neither do the numbers of items and namespaces: what was cached for a number is never
taken for something else.
"""

from dataclasses import dataclass

from holdfast.memory.backends.sql.dialect import Dialect, checked_identifier, qualified
from holdfast.memory.backends.sql.items_versions import ONE_COUNTER, Versions
from holdfast.memory.backends.sql.schema import Schema

ANALYSER_MARK = "text:analyser"


@dataclass(frozen=True, slots=True)
class ItemTables:
    """The names of a store's tables: exactly the given one for the items, the others begin with it.

    ``versions``: where versions come from, and how writers keep out of each other's way. ``schema``: where the tables
    are, if not where the database looks first. ``documents``: the database's own type for JSON, if it can look into the
    metadata itself; see `items_documents`.
    """

    dialect: Dialect
    name: str = "holdfast_items"
    versions: Versions = ONE_COUNTER
    schema: str | None = None
    documents: str | None = None

    def __post_init__(self) -> None:
        checked_identifier(self.name, "table_name")
        if self.schema is not None:
            checked_identifier(self.schema, "schema")

    def table(self, part: str) -> str:
        """The table for that, beside the items."""
        return qualified(self.schema, f"{self.name}_{part}")

    @property
    def items(self) -> str:
        return qualified(self.schema, self.name)

    @property
    def meta(self) -> str:
        return self.table("meta")

    @property
    def namespaces(self) -> str:
        return self.table("namespaces")

    @property
    def postings(self) -> str:
        return self.table("postings")

    @property
    def terms(self) -> str:
        return self.table("terms")

    @property
    def vectors(self) -> str:
        return self.table("vectors")

    @property
    def counters(self) -> str:
        return self.table("counters")


def items_schema(t: ItemTables) -> Schema:
    """The schema of a store's tables."""
    return Schema(
        component="items",
        meta=t.meta,
        dialect=t.dialect,
        steps=((*_version_1(t), *_reconcile(t), *t.versions.ddl(t.counters, t.items, t.dialect)),),
        tables=(t.items, t.namespaces, t.postings, t.terms, t.vectors, t.counters),
    )


def _version_1(t: ItemTables) -> tuple[str, ...]:
    d = t.dialect
    path = d.path_text or d.id_text
    document = "" if t.documents is None else f", document {t.documents}"
    return (
        f"""CREATE TABLE {t.items} (
            id {d.number} NOT NULL PRIMARY KEY, ns {path} NOT NULL, item_key {d.id_text} NOT NULL,
            version {d.number} NOT NULL, created_at {d.number} NOT NULL, updated_at {d.number} NOT NULL,
            expires_at {d.number}, length {d.number} NOT NULL, group_key {d.id_text}, ordinal {d.number},
            metadata {d.text} NOT NULL, value {d.text} NOT NULL{document}{d.place("ns", "item_key")})""",
        *d.unique_index(f"{t.name}_place", t.items, "ns", "item_key"),
        # The statistics of a namespace are counted from this index alone.
        f"CREATE INDEX {t.name}_version ON {t.items} ({d.part('ns')}, version, expires_at, length)",
        f"CREATE INDEX {t.name}_expiry ON {t.items} (expires_at){d.where('expires_at IS NOT NULL')}",
        f"CREATE INDEX {t.name}_group ON {t.items} ({d.part('ns')}, {d.part('group_key')}, ordinal)"
        + d.where("group_key IS NOT NULL"),
        f"""CREATE TABLE {t.namespaces} (
            ns_id {d.number} NOT NULL PRIMARY KEY, ns {path} NOT NULL,
            dimension {d.number}, metric {d.id_text}, embedder {d.id_text},
            vector_version {d.number} NOT NULL, removals {d.number} NOT NULL{d.place("ns")})""",
        *d.unique_index(f"{t.name}_namespaces_ns", t.namespaces, "ns"),
        f"""CREATE TABLE {t.postings} (
            ns_id {d.number} NOT NULL, term {d.id_text} NOT NULL, item_id {d.number} NOT NULL,
            tf {d.number} NOT NULL, PRIMARY KEY (ns_id, term, item_id)){d.clustered}""",
        f"CREATE TABLE {t.terms} (item_id {d.number} NOT NULL PRIMARY KEY, terms {d.text} NOT NULL)",
        f"""CREATE TABLE {t.vectors} (
            item_id {d.number} NOT NULL PRIMARY KEY, ns_id {d.number} NOT NULL, version {d.number} NOT NULL,
            vector {d.binary} NOT NULL)""",
        f"CREATE INDEX {t.name}_vectors_version ON {t.vectors} (ns_id, version)",
    )


def _reconcile(t: ItemTables) -> tuple[str, ...]:
    """Make the tables agree. Nothing happens where all are new; if one was dropped by hand, nothing that belonged
    to its rows comes back, and the words are indexed anew."""
    return (
        f"DELETE FROM {t.namespaces} WHERE ns NOT IN (SELECT ns FROM {t.items})",
        f"""INSERT INTO {t.namespaces} (ns_id, ns, vector_version, removals)
            SELECT MIN(id), ns, 0, 0 FROM {t.items} WHERE ns NOT IN (SELECT ns FROM {t.namespaces}) GROUP BY ns""",
        f"DELETE FROM {t.terms} WHERE item_id NOT IN (SELECT id FROM {t.items})",
        f"DELETE FROM {t.postings} WHERE item_id NOT IN (SELECT id FROM {t.items})",
        f"""DELETE FROM {t.vectors} WHERE item_id NOT IN (SELECT id FROM {t.items})
            OR ns_id NOT IN (SELECT ns_id FROM {t.namespaces} WHERE dimension IS NOT NULL)""",
        f"DELETE FROM {t.meta} WHERE name = '{ANALYSER_MARK}'",
    )

"""The index of pgvector over the vectors of large namespaces: what it is, and its upkeep. `pgvector_search` asks it.

The vectors themselves are where they always are. Those of namespaces with thousands of them are also in the table
``..._nearest``, in the type that pgvector indexes, up to some version; a put adds nothing to it, a vector that goes
takes its copy along (``ON DELETE CASCADE``). Upkeep adds what is newer.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.memory.backends.sql import items_nearest
from holdfast.memory.backends.sql.items_nearest import NEWER, PORTION
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_vectors import matrix_of
from holdfast.memory.backends.sql.plan import Plan, Statement, fetch, heavy, many, rows
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.store_requests import Namespace
from holdfast.memory.vectors import Metric, VectorSpace

if TYPE_CHECKING:
    from holdfast.memory.vectors import Floats

LARGE: Final = items_nearest.LARGE
MAX_DIMENSION: Final = 2000  # of an HNSW index

# Vectors of length 1 have the order of their cosines by their inner product, which is quicker.
_OPERATORS: Final = {
    Metric.COSINE: ("<#>", "vector_ip_ops"),
    Metric.DOT: ("<#>", "vector_ip_ops"),
    Metric.EUCLIDEAN: ("<->", "vector_l2_ops"),
    Metric.MANHATTAN: ("<+>", "vector_l1_ops"),
}


@dataclass(frozen=True, slots=True)
class Index:
    """The index of one vector space, over the table that all spaces of a store share."""

    tables: ItemTables
    space: VectorSpace
    large: int = LARGE

    @property
    def table(self) -> str:
        return self.tables.table("nearest")

    @property
    def vector(self) -> str:
        return f"vector({self.space.dimension})"

    @property
    def mark(self) -> str:
        return f"{self.space.metric.value}_{self.space.dimension}"

    @property
    def operator(self) -> str:
        return _OPERATORS[self.space.metric][0]


def index_for(tables: ItemTables, space: VectorSpace | None, large: int = LARGE) -> Index | None:
    """The index that pgvector can have for that space, if it can; for namespaces with more vectors than ``large``."""
    if space is None or space.metric not in _OPERATORS or space.dimension > MAX_DIMENSION:
        return None
    return Index(tables, space, large)


def index_schema(index: Index) -> Schema:
    """The extension, the table and the index."""
    t, operators = index.tables, _OPERATORS[index.space.metric][1]
    indexed = f"((embedding::{index.vector}) {operators}) WHERE space = '{index.mark}'"
    return Schema(
        component=f"nearest:{index.mark}",
        meta=t.meta,
        dialect=t.dialect,
        steps=(
            (
                "CREATE EXTENSION IF NOT EXISTS vector",
                f"""CREATE TABLE {index.table} (
                    item_id BIGINT NOT NULL PRIMARY KEY REFERENCES {t.vectors} (item_id) ON DELETE CASCADE,
                    ns_id BIGINT NOT NULL, version BIGINT NOT NULL, space TEXT COLLATE "C" NOT NULL,
                    embedding vector NOT NULL)""",
                f"CREATE INDEX {t.name}_nearest_version ON {index.table} (ns_id, version)",
                f"CREATE INDEX {t.name}_nearest_{index.mark.lower()} ON {index.table} USING hnsw {indexed}",
            ),
        ),
        tables=(index.table,),
    )


def is_installed() -> Plan[bool]:
    """Whether the database has pgvector, or could have it, with iterative scans."""
    found = yield from fetch(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        " UNION ALL SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    )
    return bool(found) and tuple(map(int, found[0][0].split(".")[:2])) >= (0, 8)


def is_allowed(index: Index) -> Plan[bool]:
    """Whether this role may use the table."""
    ((allowed,),) = yield from fetch(
        "SELECT has_table_privilege(?, 'SELECT') AND has_table_privilege(?, 'INSERT')",
        index.table,
        index.table,
    )
    return bool(allowed)


def select_state(index: Index, key: str) -> Statement:
    """Up to which version the index is, and how many vectors are newer."""
    t = index.tables
    number = f"(SELECT ns_id FROM {t.namespaces} WHERE ns = ?)"
    return rows(
        f"SELECT newest, (SELECT COUNT(*) FROM (SELECT 1 FROM {t.vectors} WHERE ns_id = {number}"
        f" AND version > COALESCE(newest, 0) LIMIT {max(index.large, NEWER) + 1}) v)"
        f" FROM (SELECT MAX(version) AS newest FROM {index.table} WHERE ns_id = {number}) n",
        *(key, key),
    )


def is_indexed(index: Index, namespace: Namespace) -> Plan[bool]:
    """Whether searches in that namespace ask the index."""
    ((newest, behind),) = (yield [select_state(index, key_of(namespace))])[0]
    return newest is not None and behind <= NEWER


# ── upkeep ────────────────────────────────────────────────────────────────────────────────────────────


def add_newer(index: Index, ns_id: int, portion: int = PORTION) -> Plan[int]:
    """Add the oldest vectors that the index does not have; returns how many these were."""
    t = index.tables
    ((free,),) = yield from fetch(
        "SELECT pg_try_advisory_xact_lock(hashtextextended(?, ?))", index.table, ns_id
    )
    if not free:
        return 0  # somebody is at it
    # Locked against deletion only: whoever replaces one of these waits for this portion.
    sql = (
        f"SELECT item_id, version, vector FROM {t.vectors} WHERE ns_id = ? AND version >"
        f" (SELECT COALESCE(MAX(version), 0) FROM {index.table} WHERE ns_id = ?)"
        " ORDER BY version LIMIT ? FOR KEY SHARE"
    )
    (found,) = yield heavy([rows(sql, ns_id, ns_id, portion)])
    if found:
        written = texts(matrix_of(t, found, index.space))
        yield [
            many(
                f"INSERT INTO {index.table} (item_id, ns_id, version, space, embedding)"
                f" VALUES (?, ?, ?, '{index.mark}', CAST(? AS vector))",
                [(row[0], ns_id, row[1], text) for row, text in zip(found, written, strict=True)],
            )
        ]
    return len(found)


def texts(matrix: "Floats") -> list[str]:
    """Vectors as pgvector reads them."""
    return [f"[{','.join(map('{:.9g}'.format, row))}]" for row in matrix.tolist()]

"""The approximate index of Oracle 23ai over the vectors of large namespaces; `sql.items_nearest` says how it is used.

Copies of the vectors are in a table for each vector space, as ``VECTOR(dimension, FLOAT32)``; a vector that goes takes
its copy along. Partitions are found from what the table holds when its index is made: so that is done when the copies
are there. Before, and on a server that can't make it, the database compares all copies of a namespace.
"""

from array import array
from dataclasses import dataclass
from typing import ClassVar, Final

from holdfast.memory.backends.sql.items_nearest import LARGE, NEWER, PORTION
from holdfast.memory.backends.sql.items_rows import key_of, narrowed
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_vectors import matrix_of
from holdfast.memory.backends.sql.plan import Batch, Plan, Statement, heavy, many, rows
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.store_requests import Namespace, VectorRequest
from holdfast.memory.vectors import Metric, VectorSpace, prepare, unpack

WITH_VECTORS: Final = 23
"""The first release that has them."""
ORGANIZATIONS: Final = {"partitions": "NEIGHBOR PARTITIONS", "graph": "INMEMORY NEIGHBOR GRAPH"}
_METRICS: Final = (Metric.COSINE, Metric.DOT, Metric.EUCLIDEAN, Metric.MANHATTAN)
_MAX_DIMENSION = 65_535
_ACCURACY = 95


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """The index of one vector space. ``organization``: a name of `ORGANIZATIONS`."""

    tables: ItemTables
    space: VectorSpace
    large: int = LARGE
    organization: str = "partitions"
    looks_on: ClassVar[bool] = False  # a filter may be applied to what the index has found

    @property
    def mark(self) -> str:
        return f"{self.space.metric.value}_{self.space.dimension}".lower()

    @property
    def table(self) -> str:
        return self.tables.table(f"near_{self.mark}")

    def select_state(self, key: str) -> Statement:
        t = self.tables
        number = f"(SELECT ns_id FROM {t.namespaces} WHERE ns = ?)"
        newest = f"FROM {self.table} x WHERE x.ns_id = {number}"
        newer = (
            f"SELECT 1 AS one FROM {t.vectors} v WHERE v.ns_id = {number}"
            f" AND v.version > (SELECT COALESCE(MAX(x.version), 0) {newest}) LIMIT {max(self.large, NEWER) + 1}"
        )
        return rows(
            f"SELECT (SELECT MAX(x.version) {newest}), (SELECT COUNT(*) FROM ({newer}) c) FROM DUAL",
            *(key, key, key),
        )

    def select_candidates(self, ns_id: int, request: VectorRequest, wanted: int) -> Batch:
        t, metric = self.tables, self.space.metric
        extra, params = narrowed(t, request.filter)
        chosen = f" AND n.item_id IN (SELECT id FROM {t.items} WHERE id = n.item_id{extra})" if extra else ""
        query = prepare(metric, unpack(request.vector, self.space.dimension))
        # How many is part of the text, so that the index is chosen for it: few numbers, few texts.
        count = 1 << (wanted - 1).bit_length()
        return [
            rows(
                f"SELECT v.item_id, v.version, v.vector FROM (SELECT n.item_id FROM {self.table} n"
                f" WHERE n.ns_id = ?{chosen} ORDER BY VECTOR_DISTANCE(n.embedding, ?, {metric.value})"
                f" FETCH APPROX FIRST {count} ROWS ONLY) c JOIN {t.vectors} v ON v.item_id = c.item_id",
                *(ns_id, *params, array("f", query[0].tolist())),
            )
        ]


def index_for(
    tables: ItemTables, space: VectorSpace | None, large: int, organization: str
) -> VectorIndex | None:
    """The index that Oracle can have for that space, if it can."""
    if space is None or space.metric not in _METRICS or space.dimension > _MAX_DIMENSION:
        return None
    return VectorIndex(tables, space, large, organization)


def copies_schema(index: VectorIndex) -> Schema:
    """The table of the copies."""
    t = index.tables
    return Schema(
        component=f"near:{index.mark}",
        meta=t.meta,
        dialect=t.dialect,
        steps=(
            (
                f"""CREATE TABLE {index.table} (
                    item_id NUMBER(19) NOT NULL PRIMARY KEY REFERENCES {t.vectors} (item_id) ON DELETE CASCADE,
                    ns_id NUMBER(19) NOT NULL, version NUMBER(19) NOT NULL,
                    embedding VECTOR({index.space.dimension}, FLOAT32) NOT NULL)""",
                f"CREATE INDEX {t.name}_near_{index.mark}_version ON {index.table} (ns_id, version)",
            ),
        ),
        tables=(index.table,),
    )


def index_schema(index: VectorIndex) -> Schema:
    """The index itself, over what the table then holds."""
    t = index.tables
    made = f"CREATE VECTOR INDEX {t.name}_near_{index.mark}_vector ON {index.table} (embedding)"
    organized = f"ORGANIZATION {ORGANIZATIONS[index.organization]} DISTANCE {index.space.metric.value}"
    return Schema(
        component=f"near:{index.mark}:index",
        meta=t.meta,
        dialect=t.dialect,
        steps=((f"{made} {organized} WITH TARGET ACCURACY {_ACCURACY}",),),
        tables=(index.table,),
    )


def is_indexed(index: VectorIndex, namespace: Namespace) -> Plan[bool]:
    """Whether searches in that namespace ask the index."""
    ((newest, behind),) = (yield [index.select_state(key_of(namespace))])[0]
    return newest is not None and behind <= NEWER


def add_newer(index: VectorIndex, ns_id: int, portion: int = PORTION) -> Plan[int]:
    """Copy the oldest vectors that the index does not have; returns how many these were. Of two who do it at once, or
    of one whose vector goes meanwhile, the second tries again."""
    t = index.tables
    sql = (
        f"SELECT item_id, version, vector FROM {t.vectors} WHERE ns_id = ? AND version >"
        f" (SELECT COALESCE(MAX(version), 0) FROM {index.table} WHERE ns_id = ?) ORDER BY version LIMIT ?"
    )
    (found,) = yield heavy([rows(sql, ns_id, ns_id, portion)])
    if found:
        copies = matrix_of(t, found, index.space).tolist()
        yield [
            many(
                f"INSERT INTO {index.table} (item_id, ns_id, version, embedding) VALUES (?, ?, ?, ?)",
                [(row[0], ns_id, row[1], array("f", copy)) for row, copy in zip(found, copies, strict=True)],
            )
        ]
    return len(found)

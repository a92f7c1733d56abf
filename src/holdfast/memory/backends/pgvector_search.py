"""How pgvector's index is asked: see `sql.items_nearest`. A scan that finds too few of a namespace goes on."""

from dataclasses import dataclass
from typing import ClassVar

from holdfast.memory.backends.pgvector import Index, select_state, texts
from holdfast.memory.backends.sql import items_nearest
from holdfast.memory.backends.sql.items_matrix import MatrixCache
from holdfast.memory.backends.sql.items_nearest import Answer
from holdfast.memory.backends.sql.items_rows import narrowed
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Batch, Plan, Statement, rows
from holdfast.memory.store_requests import VectorRequest
from holdfast.memory.vectors import prepare, unpack

_LONGEST_LIST = 1000  # the most that hnsw.ef_search can be
_SCANNED = 40_000  # entries of the index that are looked at for one search


def nearest(index: Index, cache: MatrixCache, request: VectorRequest) -> Plan[Answer]:
    """See :class:`VectorRequest`."""
    return (yield from items_nearest.nearest(_Asked(index), cache, request))


@dataclass(frozen=True, slots=True)
class _Asked:
    index: Index
    looks_on: ClassVar[bool] = True

    @property
    def tables(self) -> ItemTables:
        return self.index.tables

    @property
    def large(self) -> int:
        return self.index.large

    def select_state(self, key: str) -> Statement:
        return select_state(self.index, key)

    def select_candidates(self, ns_id: int, request: VectorRequest, wanted: int) -> Batch:
        return [*_settings(wanted), _select_candidates(self.index, ns_id, request, wanted)]


def _settings(wanted: int) -> list[Statement]:
    """For this transaction: look at enough, and go on while too little is found."""
    values = {
        "hnsw.ef_search": min(max(2 * wanted, 300), _LONGEST_LIST),
        "hnsw.iterative_scan": "strict_order",
        "hnsw.max_scan_tuples": _SCANNED,
    }
    return [rows("SELECT set_config(?, ?, TRUE)", name, str(value)) for name, value in values.items()]


def _select_candidates(index: Index, ns_id: int, request: VectorRequest, wanted: int) -> Statement:
    """What of the filter the database can answer is tested while the index is scanned."""
    t = index.tables
    extra, params = narrowed(t, request.filter)
    items = f" JOIN {t.items} i ON i.id = n.item_id" if extra else ""
    query = prepare(request.space.metric, unpack(request.vector, request.space.dimension))
    return rows(
        f"SELECT v.item_id, v.version, v.vector FROM (SELECT n.item_id FROM {index.table} n{items}"
        f" WHERE n.space = '{index.mark}' AND n.ns_id = ?{extra}"
        f" ORDER BY n.embedding::{index.vector} {index.operator} CAST(? AS {index.vector}) LIMIT ?) c"
        f" JOIN {t.vectors} v ON v.item_id = c.item_id",
        *(ns_id, *params, texts(query)[0], wanted),
    )

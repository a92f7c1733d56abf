"""Nearest neighbours by pgvector: an HNSW index over the vectors of large namespaces.

The vectors themselves are where they always are. Those of namespaces with thousands of them are also in the table
``..._nearest``, in the type that pgvector indexes, up to some version; a put adds nothing to it, a vector that goes
takes its copy along (``ON DELETE CASCADE``). A search asks the index for candidates, reads the few vectors that are
newer than what it holds, and compares both exactly. Upkeep moves the newer ones into the index.

An index that is asked for one namespace may find too few of it: then it looks further (iterative scan), and if that
does not give enough either, all vectors of the namespace are compared. So a search never returns fewer than there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.memory.backends.sql.items_matrix import MatrixCache
from holdfast.memory.backends.sql.items_rows import best_items, key_of
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_spaces import NamespaceRow, namespace_rows, select_namespaces
from holdfast.memory.backends.sql.items_vectors import exact, matrix_of
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, fetch, heavy, many, rows
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.store_requests import Namespace, StoredHit, VectorRequest
from holdfast.memory.vectors import Metric, VectorSpace, prepare, score_all, unpack

if TYPE_CHECKING:
    from holdfast.memory.vectors import Floats

LARGE: Final = 10_000
"""Vectors of a namespace from which on it pays to index them."""
PORTION: Final = 250
"""Vectors that one step of upkeep adds."""
_NEWER: Final = 5000
"""Vectors that the index does not have yet are compared one by one, up to that many."""
MAX_DIMENSION: Final = 2000  # of an HNSW index

# Vectors of length 1 have the order of their cosines by their inner product, which is quicker.
_OPERATORS: Final = {
    Metric.COSINE: ("<#>", "vector_ip_ops"),
    Metric.DOT: ("<#>", "vector_ip_ops"),
    Metric.EUCLIDEAN: ("<->", "vector_l2_ops"),
    Metric.MANHATTAN: ("<+>", "vector_l1_ops"),
}
_FEWEST, _MOST = 64, 2048  # candidates that are asked for
_LONGEST_LIST = 1000  # the most that hnsw.ef_search can be
_SCANNED = 40_000  # entries of the index that are looked at for one search


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
        dialect_text=t.dialect.id_text,
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


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────


class Answer(NamedTuple):
    """``ns_id_to_index``: the namespace, if its index should be given what it does not have; else 0."""

    hits: list[StoredHit]
    ns_id_to_index: int = 0


class _Scored(NamedTuple):
    scores: "Floats"
    distances: "Floats"
    ranking: list[int]  # rows, best first
    item_ids: list[int]


def nearest(index: Index, cache: MatrixCache, request: VectorRequest) -> Plan[Answer]:
    """See :class:`VectorRequest`."""
    t, key = index.tables, key_of(request.namespace)
    *results, ((newest, behind),) = yield heavy([*select_namespaces(t, [key]), _select_state(index, key)])
    namespace = namespace_rows(results).get(key)
    if namespace is None or namespace.space is None:
        return Answer([])
    request.space.check(namespace.space, request.namespace)
    wanting = namespace.ns_id if behind >= (index.large + 1 if newest is None else PORTION) else 0
    if newest is not None and behind <= _NEWER:
        found = yield from _by_index(index, namespace, newest, request)
        if found is not None:
            return Answer(found, wanting)
    return Answer((yield from exact(t, cache, namespace, request)), wanting)


def is_indexed(index: Index, namespace: Namespace) -> Plan[bool]:
    """Whether searches in that namespace ask the index."""
    ((newest, behind),) = (yield [_select_state(index, key_of(namespace))])[0]
    return newest is not None and behind <= _NEWER


def _select_state(index: Index, key: str) -> Statement:
    """Up to which version the index is, and how many vectors are newer."""
    t = index.tables
    number = f"(SELECT ns_id FROM {t.namespaces} WHERE ns = ?)"
    return rows(
        f"SELECT newest, (SELECT COUNT(*) FROM (SELECT 1 FROM {t.vectors} WHERE ns_id = {number}"
        f" AND version > COALESCE(newest, 0) LIMIT {max(index.large, _NEWER) + 1}) v)"
        f" FROM (SELECT MAX(version) AS newest FROM {index.table} WHERE ns_id = {number}) n",
        *(key, key),
    )


def _by_index(
    index: Index, namespace: NamespaceRow, newest: int, request: VectorRequest
) -> Plan[list[StoredHit] | None]:
    """``None``: the index does not tell enough."""
    t = index.tables
    sql = f"SELECT item_id, version, vector FROM {t.vectors} WHERE ns_id = ? AND version > ?"
    newer = yield from fetch(sql, namespace.ns_id, newest)
    wanted = min(max(_FEWEST, 2 * request.limit), _MOST)
    while wanted <= _MOST and request.limit <= wanted:
        asked = [*_settings(wanted), _select_candidates(index, namespace.ns_id, request, wanted)]
        *_, candidates = yield heavy(asked)
        scored = _scored(t, [*candidates, *newer], request)
        items = yield from best_items(
            t, (scored.item_ids[row] for row in scored.ranking), request.limit, request.filter, request.now_us
        )
        if len(items) == request.limit or _reach_the_threshold(scored, len(candidates), request):
            places = {number: row for row, number in enumerate(scored.item_ids)}
            return [
                StoredHit(item, float(scored.scores[places[number]]), float(scored.distances[places[number]]))
                for number, item in items.items()
            ]
        if len(candidates) < wanted:
            break
        wanted *= 8
    return None


def _settings(wanted: int) -> list[Statement]:
    """For this transaction: look at enough, and go on while too little is found."""
    values = {
        "hnsw.ef_search": min(max(2 * wanted, 300), _LONGEST_LIST),
        "hnsw.iterative_scan": "strict_order",
        "hnsw.max_scan_tuples": _SCANNED,
    }
    return [rows("SELECT set_config(?, ?, TRUE)", name, str(value)) for name, value in values.items()]


def _select_candidates(index: Index, ns_id: int, request: VectorRequest, wanted: int) -> Statement:
    t = index.tables
    return rows(
        f"SELECT v.item_id, v.version, v.vector FROM (SELECT item_id FROM {index.table}"
        f" WHERE space = '{index.mark}' AND ns_id = ?"
        f" ORDER BY embedding::{index.vector} {index.operator} CAST(? AS {index.vector}) LIMIT ?) n"
        f" JOIN {t.vectors} v ON v.item_id = n.item_id",
        *(
            ns_id,
            _texts(prepare(request.space.metric, unpack(request.vector, request.space.dimension)))[0],
            wanted,
        ),
    )


def _scored(t: ItemTables, candidates: Sequence[Row], request: VectorRequest) -> _Scored:
    """Compare exactly. Of equal ones the newest is first; what is below the threshold is left out."""
    import numpy as np

    space = request.space
    matrix = matrix_of(t, candidates, space)
    scores, distances = score_all(space.metric, matrix, request.vector)
    versions = np.array([row[1] for row in candidates], dtype=np.int64)
    ranking = [
        int(row)
        for row in np.lexsort((-versions, -scores))
        if request.threshold is None or scores[row] >= request.threshold
    ]
    return _Scored(scores, distances, ranking, [row[0] for row in candidates])


def _reach_the_threshold(scored: _Scored, candidates: int, request: VectorRequest) -> bool:
    """Whether what the index gave ends below the threshold: what it did not give is farther still."""
    return request.threshold is not None and bool((scored.scores[:candidates] < request.threshold).any())


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
        texts = _texts(matrix_of(t, found, index.space))
        yield [
            many(
                f"INSERT INTO {index.table} (item_id, ns_id, version, space, embedding)"
                f" VALUES (?, ?, ?, '{index.mark}', CAST(? AS vector))",
                [(row[0], ns_id, row[1], text) for row, text in zip(found, texts, strict=True)],
            )
        ]
    return len(found)


def large_namespaces(index: Index) -> Plan[list[int]]:
    """Those of this space that have, or should have, vectors in the index."""
    t, space = index.tables, index.space
    found = yield from fetch(
        f"SELECT n.ns_id FROM {t.namespaces} n WHERE n.dimension = ? AND n.metric = ? AND"
        f" (EXISTS (SELECT 1 FROM {index.table} x WHERE x.ns_id = n.ns_id)"
        f" OR {index.large} < (SELECT COUNT(*) FROM {t.vectors} v WHERE v.ns_id = n.ns_id)) ORDER BY n.ns_id",
        *(space.dimension, space.metric.value),
    )
    return [ns_id for (ns_id,) in found]


def _texts(matrix: "Floats") -> list[str]:
    """Vectors as pgvector reads them."""
    return [f"[{','.join(map('{:.9g}'.format, row))}]" for row in matrix.tolist()]

"""Nearest neighbours by pgvector's index.

A search asks the index for candidates, reads the few vectors that are newer than what it holds, and compares both
exactly. An index that is asked for one namespace may find too few of it: then it looks further (iterative scan), and if
that does not give enough either, all vectors of the namespace are compared. So a search never returns fewer than there
are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.memory.backends.pgvector import NEWER, PORTION, Index, select_state, texts
from holdfast.memory.backends.sql.items_matrix import MatrixCache
from holdfast.memory.backends.sql.items_rows import best_items, key_of, narrowed
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_spaces import NamespaceRow, namespace_rows, select_namespaces
from holdfast.memory.backends.sql.items_vectors import exact, matrix_of
from holdfast.memory.backends.sql.plan import Plan, Row, Statement, fetch, heavy, rows
from holdfast.memory.store_requests import StoredHit, VectorRequest
from holdfast.memory.vectors import prepare, score_all, unpack

if TYPE_CHECKING:
    from holdfast.memory.vectors import Floats

_FEWEST, _MOST = 64, 2048  # candidates that are asked for
_LONGEST_LIST = 1000  # the most that hnsw.ef_search can be
_SCANNED = 40_000  # entries of the index that are looked at for one search


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
    *results, ((newest, behind),) = yield heavy([*select_namespaces(t, [key]), select_state(index, key)])
    namespace = namespace_rows(results).get(key)
    if namespace is None or namespace.space is None:
        return Answer([])
    request.space.check(namespace.space, request.namespace)
    wanting = namespace.ns_id if behind >= (index.large + 1 if newest is None else PORTION) else 0
    if newest is not None and behind <= NEWER:
        found = yield from _by_index(index, namespace, newest, request)
        if found is not None:
            return Answer(found, wanting)
    return Answer((yield from exact(t, cache, namespace, request)), wanting)


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

"""Nearest neighbours by an index of the database over the vectors of large namespaces.

The vectors themselves are where they always are; the index has copies of them, up to some version. A search asks it for
candidates, reads the few vectors that are newer than what it holds, and compares both exactly. An index that is asked
for one namespace may find too few of it: then it is asked for more, and if that does not give enough either, all
vectors of the namespace are compared. So a search never returns fewer than there are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from holdfast.memory.backends.sql.items_matrix import MatrixCache
from holdfast.memory.backends.sql.items_rows import best_items, key_of
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_spaces import NamespaceRow, namespace_rows, select_namespaces
from holdfast.memory.backends.sql.items_vectors import exact, matrix_of
from holdfast.memory.backends.sql.plan import Batch, Plan, Row, Statement, fetch, heavy
from holdfast.memory.store_requests import StoredHit, VectorRequest
from holdfast.memory.vectors import VectorSpace, score_all

if TYPE_CHECKING:
    from holdfast.memory.vectors import Floats

LARGE: Final = 10_000
"""Vectors of a namespace from which on it pays to index them."""
PORTION: Final = 250
"""Vectors that one step of upkeep adds."""
NEWER: Final = 5000
"""Vectors that the index does not have yet are compared one by one, up to that many."""
_FEWEST, _MOST = 64, 2048  # candidates that are asked for


class NearestIndex(Protocol):
    """An index, and how it is asked. ``large``: it is for namespaces with more vectors than that. ``looks_on``: it
    gives fewer candidates than it was asked for only if there are no more."""

    @property
    def tables(self) -> ItemTables: ...
    @property
    def large(self) -> int: ...
    @property
    def looks_on(self) -> bool: ...

    def select_state(self, key: str) -> Statement:
        """Up to which version of a namespace the index is, if it is, and how many vectors are newer."""
        ...

    def select_candidates(self, ns_id: int, request: VectorRequest, wanted: int) -> Batch:
        """The last statement gives so many candidates, or a few more: item, version, vector."""
        ...


class SpaceIndex(Protocol):
    """The index of one vector space, in a table of copies."""

    @property
    def tables(self) -> ItemTables: ...
    @property
    def table(self) -> str: ...
    @property
    def space(self) -> VectorSpace: ...
    @property
    def large(self) -> int: ...


def large_namespaces(index: SpaceIndex) -> Plan[list[int]]:
    """Those of its space that have, or should have, copies in the index."""
    t, space = index.tables, index.space
    found = yield from fetch(
        f"SELECT n.ns_id FROM {t.namespaces} n WHERE n.dimension = ? AND n.metric = ? AND"
        f" (EXISTS (SELECT 1 FROM {index.table} x WHERE x.ns_id = n.ns_id)"
        f" OR {index.large} < (SELECT COUNT(*) FROM {t.vectors} v WHERE v.ns_id = n.ns_id)) ORDER BY n.ns_id",
        *(space.dimension, space.metric.value),
    )
    return [ns_id for (ns_id,) in found]


class Answer(NamedTuple):
    """``ns_id_to_index``: the namespace, if its index should be given what it does not have; else 0."""

    hits: list[StoredHit]
    ns_id_to_index: int = 0


class _Scored(NamedTuple):
    scores: "Floats"
    distances: "Floats"
    ranking: list[int]  # rows, best first
    item_ids: list[int]


def nearest(index: NearestIndex, cache: MatrixCache, request: VectorRequest) -> Plan[Answer]:
    """See :class:`VectorRequest`."""
    t, key = index.tables, key_of(request.namespace)
    *results, ((newest, behind),) = yield heavy([*select_namespaces(t, [key]), index.select_state(key)])
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
    index: NearestIndex, namespace: NamespaceRow, newest: int, request: VectorRequest
) -> Plan[list[StoredHit] | None]:
    """``None``: the index does not tell enough."""
    t = index.tables
    sql = f"SELECT item_id, version, vector FROM {t.vectors} WHERE ns_id = ? AND version > ?"
    newer = yield from fetch(sql, namespace.ns_id, newest)
    wanted = min(max(_FEWEST, 2 * request.limit), _MOST)
    while wanted <= _MOST and request.limit <= wanted:
        *_, candidates = yield heavy(index.select_candidates(namespace.ns_id, request, wanted))
        scored = _scored(t, [*candidates, *newer], request)
        items = yield from best_items(
            t, (scored.item_ids[row] for row in scored.ranking), request.limit, request.filter, request.now_us
        )
        enough = len(items) == request.limit and (index.looks_on or len(candidates) >= wanted)
        if enough or _reach_the_threshold(scored, len(candidates), request):
            places = {number: row for row, number in enumerate(scored.item_ids)}
            return [
                StoredHit(item, float(scored.scores[places[number]]), float(scored.distances[places[number]]))
                for number, item in items.items()
            ]
        if len(candidates) < wanted:
            break
        wanted *= 8
    return None


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

"""Exact nearest neighbours in the vectors of a namespace: from memory, or streamed if they don't fit.

What memory holds is checked against the namespace's row in the same transaction, since other processes write too.
All arithmetic happens inside the plan, after a batch that is marked as heavy: never on an event loop.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Corrupt
from holdfast.memory.backends.sql.items_matrix import GONE, Changes, Matrix, MatrixCache, Stamp
from holdfast.memory.backends.sql.items_rows import best_items, key_of
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.items_spaces import NamespaceRow, namespace_rows, select_namespaces
from holdfast.memory.backends.sql.plan import Plan, Row, fetch, heavy, rows
from holdfast.memory.store_requests import StoredHit, VectorRequest
from holdfast.memory.vectors import VectorSpace, prepare, score_all, top, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holdfast.memory.vectors import Floats

    Numbers = NDArray[np.int64]

_BLOCK_BYTES = 1_000_000  # what is made of a block stays in the processor's cache
_FLOAT_BYTES = 4
_NUMBER_BYTES = 8


class _Scores(NamedTuple):
    """Of every row of a namespace, oldest first."""

    item_ids: "Numbers"
    scores: "Floats"
    distances: "Floats"


class _Block(NamedTuple):
    """Some vectors of a namespace, oldest first; ``last`` is the version of the newest."""

    item_ids: "Numbers"
    rows: "Floats"
    last: int


def nearest(t: ItemTables, cache: MatrixCache, request: VectorRequest) -> Plan[list[StoredHit]]:
    """See :class:`VectorRequest`."""
    key = key_of(request.namespace)
    namespace = namespace_rows((yield heavy(select_namespaces(t, [key])))).get(key)
    if namespace is None or namespace.space is None:
        return []
    request.space.check(namespace.space, request.namespace)
    return (yield from exact(t, cache, namespace, request))


def exact(
    t: ItemTables, cache: MatrixCache, namespace: NamespaceRow, request: VectorRequest
) -> Plan[list[StoredHit]]:
    """The nearest of a namespace with vectors, by comparing all of them."""
    stamp = Stamp(namespace.ns_id, namespace.vector_version, namespace.removals)
    matrix = yield from _matrix(t, cache, stamp, request.space)
    if matrix is None:
        scored = yield from _scores_from_storage(t, stamp, request)
    else:
        scored = _scores_from_memory(matrix, request)
    places: dict[int, int] = {}
    ranking = _ranking(scored, request, places)
    items = yield from best_items(t, ranking, request.limit, request.filter, request.now_us)
    return [
        StoredHit(item, float(scored.scores[places[number]]), float(scored.distances[places[number]]))
        for number, item in items.items()
    ]


def _ranking(scored: _Scores, request: VectorRequest, places: dict[int, int]) -> Iterator[int]:
    """The items' numbers, nearest first, as far as anybody asks; notes the row of each."""
    import numpy as np

    count = len(scored.scores)
    order = np.arange(count, 0, -1)
    done, wanted = 0, min(count, request.limit)
    while done < wanted:
        for row in top(scored.scores, wanted, order)[done:]:
            score = scored.scores[row]
            if score == -np.inf or (request.threshold is not None and score < request.threshold):
                return
            number = int(scored.item_ids[row])
            places[number] = int(row)
            yield number
        done, wanted = wanted, min(count, max(8 * wanted, 512))


# ── from memory ───────────────────────────────────────────────────────────────────────────────────────


def _scores_from_memory(matrix: Matrix, request: VectorRequest) -> _Scores:
    import numpy as np

    scores, distances = score_all(request.space.metric, matrix.rows, request.vector)
    if matrix.gone:
        scores[matrix.item_ids == GONE] = -np.inf
    return _Scores(matrix.item_ids, scores, distances)


def _matrix(t: ItemTables, cache: MatrixCache, stamp: Stamp, space: VectorSpace) -> Plan[Matrix | None]:
    """The vectors of the namespace in this state; ``None`` if they are too many to hold."""
    known = cache.get(stamp.ns_id)
    if known is not None and known.stamp == stamp:
        return known
    if known is not None and known.stamp.version <= stamp.version and known.stamp.removals <= stamp.removals:
        return (yield from _update(t, cache, known, stamp, space))
    ((count,),) = yield from fetch(f"SELECT COUNT(*) FROM {t.vectors} WHERE ns_id = ?", stamp.ns_id)
    if count * (space.dimension * _FLOAT_BYTES + _NUMBER_BYTES) > cache.budget:
        return None
    import numpy as np

    item_ids = np.empty(count, dtype=np.int64)
    rows = np.empty((count, space.dimension), dtype=np.float32)
    filled = last = 0
    while filled < count:
        block = yield from _block(t, stamp.ns_id, last, space)
        end = filled + len(block.item_ids)
        item_ids[filled:end], rows[filled:end] = block.item_ids, block.rows
        filled, last = end, block.last
    return cache.add(stamp, item_ids, rows)


def _update(
    t: ItemTables, cache: MatrixCache, known: Matrix, stamp: Stamp, space: VectorSpace
) -> Plan[Matrix | None]:
    import numpy as np

    blocks: list[_Block] = []
    last = known.stamp.version
    while last < stamp.version:
        block = yield from _block(t, stamp.ns_id, last, space)
        if not len(block.item_ids):
            break  # the newest vectors are gone again
        blocks.append(block)
        last = block.last
    left = None
    if known.stamp.removals != stamp.removals:
        found = yield from fetch(f"SELECT item_id FROM {t.vectors} WHERE ns_id = ?", stamp.ns_id)
        left = np.fromiter((number for (number,) in found), dtype=np.int64, count=len(found))
    item_ids = np.concatenate([np.empty(0, dtype=np.int64), *(block.item_ids for block in blocks)])
    rows = np.concatenate([known.rows[:0], *(block.rows for block in blocks)])
    return cache.update(known, Changes(stamp, item_ids, rows, left))


# ── from storage ──────────────────────────────────────────────────────────────────────────────────────


def _scores_from_storage(t: ItemTables, stamp: Stamp, request: VectorRequest) -> Plan[_Scores]:
    import numpy as np

    parts: list[_Scores] = []
    last = 0
    while last < stamp.version:
        block = yield from _block(t, stamp.ns_id, last, request.space)
        if not len(block.item_ids):
            break
        parts.append(_Scores(block.item_ids, *score_all(request.space.metric, block.rows, request.vector)))
        last = block.last
    item_ids, scores, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Scores(item_ids, scores, distances)


def _block(t: ItemTables, ns_id: int, after: int, space: VectorSpace) -> Plan[_Block]:
    """The oldest vectors that are newer than that version, a block of them."""
    import numpy as np

    size = space.dimension * _FLOAT_BYTES
    sql = f"SELECT item_id, version, vector FROM {t.vectors} WHERE ns_id = ? AND version > ? ORDER BY version LIMIT ?"
    (found,) = yield heavy([rows(sql, ns_id, after, max(1, _BLOCK_BYTES // size))])
    if not found:
        return _Block(np.empty(0, dtype=np.int64), np.empty((0, space.dimension), dtype=np.float32), after)
    item_ids = np.array([row[0] for row in found], dtype=np.int64)
    return _Block(item_ids, matrix_of(t, found, space), found[-1][1])


def matrix_of(t: ItemTables, found: Sequence[Row], space: VectorSpace) -> "Floats":
    """The vectors of rows with item, version and vector, ready to be compared."""
    size = space.dimension * _FLOAT_BYTES
    vectors = [row[2] for row in found]
    if not set(map(len, vectors)) <= {size}:
        place = f"{t.vectors} {next(number for number, _, vector in found if len(vector) != size)}"
        raise Corrupt(f"{place}: the vector has not {space.dimension} components", place=place)
    return prepare(space.metric, unpack(vectors, space.dimension))

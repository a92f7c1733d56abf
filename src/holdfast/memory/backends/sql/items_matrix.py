"""Vectors of namespaces as matrices in memory: a bounded cache that is brought up to date by what changed.

A matrix never changes under its reader: newer ones share its rows and add theirs behind them. Rows ascend by
version, so of equal scores the last row is the newest.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holdfast.memory.vectors import Floats

    Numbers = NDArray[np.int64]

GONE = -1
_LEAST_SLACK = 64


class Stamp(NamedTuple):
    """The state of a namespace that a matrix shows."""

    ns_id: int
    version: int
    removals: int


@dataclass(slots=True)
class _Buffer:
    """Room for rows. ``used`` grows: what is written stays."""

    rows: "Floats"
    used: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """``item_ids`` has the item of each row, `GONE` for rows that were replaced or removed since."""

    stamp: Stamp
    item_ids: "Numbers"
    gone: int
    buffer: _Buffer

    @property
    def rows(self) -> "Floats":
        return self.buffer.rows[: len(self.item_ids)]

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return int(self.buffer.rows.nbytes + self.item_ids.nbytes)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that are newer than a matrix; ``left``: the items that have a vector, if some may have gone."""

    stamp: Stamp
    item_ids: "Numbers"
    rows: "Floats"
    left: "Numbers | None"


class MatrixCache:
    """The most recently used matrices, up to so many bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._matrices: OrderedDict[int, Matrix] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ns_id: int) -> Matrix | None:
        with self._lock:
            if ns_id in self._matrices:
                self._matrices.move_to_end(ns_id)
            return self._matrices.get(ns_id)

    def add(self, stamp: Stamp, item_ids: "Numbers", rows: "Floats") -> Matrix:
        """A matrix of all vectors of a namespace."""
        matrix = Matrix(stamp, item_ids, 0, _Buffer(rows, len(item_ids)))
        with self._lock:
            self._keep(matrix)
        return matrix

    def update(self, matrix: Matrix, changes: Changes) -> Matrix:
        """The matrix with these changes."""
        with self._lock:
            updated = _updated(matrix, changes)
            self._keep(updated)
        return updated

    def clear(self) -> None:
        with self._lock:
            self._matrices.clear()

    def _keep(self, matrix: Matrix) -> None:
        ns_id = matrix.stamp.ns_id
        known = self._matrices.get(ns_id)
        if known is not None and known.stamp > matrix.stamp:
            return  # another reader has seen a later state
        self._matrices[ns_id] = matrix
        self._matrices.move_to_end(ns_id)
        total = sum(kept.size for kept in self._matrices.values())
        while total > self.budget:
            _, dropped = self._matrices.popitem(last=False)
            total -= dropped.size


def _updated(matrix: Matrix, changes: Changes) -> Matrix:
    import numpy as np

    before = matrix.item_ids
    replaced = np.isin(before, changes.item_ids)
    if changes.left is not None:
        replaced |= ~np.isin(before, changes.left)
    replaced &= before != GONE
    gone = matrix.gone + int(np.count_nonzero(replaced))
    item_ids = np.concatenate((np.where(replaced, GONE, before), changes.item_ids))
    buffer = _appended(matrix, changes.rows)
    if gone > len(item_ids) // 2:
        kept = np.flatnonzero(item_ids != GONE)
        item_ids, gone = item_ids[kept], 0
        buffer = _Buffer(buffer.rows[kept], len(kept))
    return Matrix(changes.stamp, item_ids, gone, buffer)


def _appended(matrix: Matrix, rows: "Floats") -> _Buffer:
    import numpy as np

    buffer, start = matrix.buffer, len(matrix.item_ids)
    end = start + len(rows)
    # Behind an older matrix there may be rows of newer ones.
    if buffer.used != start or end > len(buffer.rows):
        room = end + max(_LEAST_SLACK, end // 8) if len(rows) else end
        grown = np.empty((room, buffer.rows.shape[1]), dtype=np.float32)
        grown[:start] = buffer.rows[:start]
        buffer = _Buffer(grown, start)
    buffer.rows[start:end] = rows
    buffer.used = end
    return buffer

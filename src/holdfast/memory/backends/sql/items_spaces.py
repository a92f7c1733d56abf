"""Rows of namespaces: their numbers, and the vector space that the first embedding fixes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.memory.backends.sql.items_rows import lists
from holdfast.memory.backends.sql.items_schema import ItemTables
from holdfast.memory.backends.sql.plan import Row, Statement, rows
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.vectors import Metric, VectorSpace


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """``vector_version`` is the newest version with a vector; ``removals`` grows when an item or a vector goes."""

    ns_id: int
    ns: str
    space: VectorSpace | None = None
    vector_version: int = 0
    removals: int = 0

    def with_vector(self, space: VectorSpace | None, version: int) -> "NamespaceRow":
        """The row after a put with a vector of that space, which is recorded if it is the first."""
        return replace(self, space=self.space or space, vector_version=max(version, self.vector_version))

    def vector_columns(self) -> tuple[int | None, str | None, str | None, int]:
        """Dimension, metric, embedder and version, as they are stored."""
        if self.space is None:
            return None, None, None, self.vector_version
        embedder = self.space.embedder
        return (
            self.space.dimension,
            self.space.metric.value,
            None if embedder is None else encode_id(embedder),
            self.vector_version,
        )


_COLUMNS = "ns_id, ns, dimension, metric, embedder, vector_version, removals"


def select_namespaces(t: ItemTables, namespaces: Sequence[str]) -> list[Statement]:
    """Queries for the rows of those namespaces that hold items."""
    return [
        rows(
            f"SELECT {_COLUMNS} FROM {t.namespaces} WHERE ns IN {marks}",
            *values,
        )
        for marks, values in lists(namespaces)
    ]


def select_first_space(t: ItemTables, low: str, high: str) -> Statement:
    """A query for the row of the first of these namespaces that has a vector space."""
    return rows(
        f"SELECT {_COLUMNS} FROM {t.namespaces} WHERE ns >= ? AND ns < ? AND dimension IS NOT NULL"
        " ORDER BY ns LIMIT ?",
        *(low, high, 1),
    )


def namespace_rows(results: Iterable[Iterable[Row]]) -> dict[str, NamespaceRow]:
    """What the queries gave, by namespace."""
    return {row[1]: _namespace_row(*row) for result in results for row in result}


def _namespace_row(
    ns_id: int, ns: str, dimension: int | None, metric: str, embedder: str | None, version: int, removals: int
) -> NamespaceRow:
    space = None
    if dimension is not None:
        space = VectorSpace(dimension, Metric[metric], None if embedder is None else decode_id(embedder))
    return NamespaceRow(ns_id, ns, space, version, removals)

"""How Holdfast's tables are made in PostgreSQL: plain, in partitions, with tenants that the server keeps apart."""

from dataclasses import dataclass

from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.pgvector import Index, index_schema
from holdfast.memory.backends.postgres_partitions import (
    checked_partitions,
    distribution_of_items,
    distribution_of_threads,
    partitioned,
)
from holdfast.memory.backends.postgres_security import secured_items, secured_threads
from holdfast.memory.backends.sql.dialect import Tables, checked_identifier
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.schema import Schema, checkpoint_schema


@dataclass(frozen=True, slots=True)
class Layout:
    """``row_security``: tenants must be kept apart by the server; ``operators``: the role that may see all of them.
    ``partitions``: how many."""

    row_security: bool = False
    partitions: int | None = None
    operators: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.row_security, bool):
            raise InvalidInput(f"row_security must be True or False, got {type(self.row_security).__name__}")
        checked_partitions(self.partitions)
        if self.operators is not None:
            checked_identifier(self.operators, "operators")

    def threads(self, t: Tables) -> Schema:
        """The tables of a checkpointer and a saver."""
        plain = checkpoint_schema(t, t.text.ddl(t.words))
        made = partitioned(plain, distribution_of_threads(t), self.partitions)
        return secured_threads(made, t, required=self.row_security, operators=self.operators)

    def items(self, t: ItemTables) -> Schema:
        """The tables of a store."""
        made = partitioned(items_schema(t), distribution_of_items(t), self.partitions)
        return secured_items(made, t, required=self.row_security, operators=self.operators)

    def index(self, index: Index) -> Schema:
        """The table that pgvector indexes."""
        made = index_schema(index)
        return secured_items(made, index.tables, required=self.row_security, operators=self.operators)

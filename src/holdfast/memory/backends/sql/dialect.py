"""What differs between SQL databases. Everything else is the same text everywhere."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.sql.plan import Row, Statement, change, many

if TYPE_CHECKING:
    from holdfast.memory.backends.sql.text_index import TextIndex

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """Types and clauses of one database."""

    name: str
    key: str  # type of a 16-byte key
    id_text: str  # type of an encoded id, compared by code point
    text: str  # type of unbounded text
    number: str  # type of a 64-bit integer
    binary: str  # type of unbounded bytes
    row_number: str  # column definition of a number that the database assigns to each row
    find: str  # function that gives the place of a text in another, 0 if it is not there
    substring: str  # function that cuts characters out of a text
    greatest: str  # function that gives the greatest of its arguments
    clustered: str  # suffix of a table that is stored in the order of its primary key
    partial_indexes: bool = False  # whether an index may leave rows out
    small: str = ""  # type of a 32-bit integer, where that takes less space
    bind_key: Callable[[bytes], bytes | bytearray] = bytes  # how its driver takes a key the quickest
    bind_document: Callable[[str], str | None] = (
        str  # how it takes JSON that the database looks into, if it can hold it
    )
    lock: str = ""  # suffix of a query whose rows nobody else may change until the transaction ends
    # Where many write at once, numbers of saves come from the database, and a listing waits for those that are drawn
    # but not yet committed: the column's suffix, a condition that holds the scope's number, a query that waits.
    numbering: str = ""
    holding: str = ""
    settling: str = ""
    # What the column `c.lists` leads through, as rows: life, log, first_pos, end_pos; with it, one batch reads a state.
    spans: str = ""
    # One value for many entries, which takes less time to read: the bytes of their bodies, with line breaks between.
    joined: str = ""
    # Metadata as the database's own JSON: its indexes (of ``{table}``, names begin with ``{prefix}``), and a condition
    # on the column `c.metadata`, with a JSON object as parameter, that all rows which contain it meet.
    metadata_indexes: tuple[str, ...] = ()
    metadata_contains: str = ""
    # What makes the tables smaller: statements about the table ``{entries}``.
    tuning: tuple[str, ...] = ()
    # What is to be indexed is listed in a table: row numbers may be committed out of order.
    queued: bool = False
    # The numbers of saves come from a table of ours instead, in the order of the commits.
    counted: bool = False
    # A query that tells whether the database shows this transaction a tenant's rows only, where it can.
    fenced: str = ""
    path_text: str = ""  # type of an encoded namespace of any depth, if it is not that of an id

    @property
    def count(self) -> str:
        """The type of a number that is never large: a position in a list, a mark."""
        return self.small or self.number

    def where(self, condition: str) -> str:
        """Leave other rows out of an index, where the database can; the index is right either way."""
        return f" WHERE {condition}" if self.partial_indexes else ""

    def contains(self, column: str, wanted: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """A condition that a document meets if it contains these values; where there are documents."""
        return f"{column} @> CAST(? AS JSONB)", (json.dumps(wanted, ensure_ascii=False),)

    def put_row(self, table: str, keys: Sequence[str], columns: Sequence[str], *row: Any) -> list[Statement]:
        """Statements after which the table has this row, whatever it has under its keys now. Keys come first in it."""
        return [
            change(_delete(table, keys), *row[: len(keys)]),
            change(_insert(table, (*keys, *columns)), *row),
        ]

    def put_rows(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        there: Sequence[Row],
        rows: Sequence[Row],
    ) -> list[Statement]:
        """Statements after which the table has these rows, and no others of those that are ``there`` now, of which the
        keys are given. Of the rows nothing else is there."""
        statements = (many(_delete(table, keys), there), many(_insert(table, (*keys, *columns)), rows))
        return [statement for statement in statements if statement.params]

    # What follows is for databases whose indexes don't take columns of long texts as they are.

    def primary(self, *columns: str) -> str:
        """The primary key over texts, in a table's definition."""
        return f"PRIMARY KEY ({', '.join(columns)})"

    def place(self, *columns: str) -> str:
        """What a table's definition needs besides for :meth:`unique_index`."""
        return ""

    def unique_index(self, name: str, table: str, *columns: str) -> tuple[str, ...]:
        """No two rows have the same texts in these columns, and rows are found by them."""
        return (f"CREATE UNIQUE INDEX {name} ON {table} ({', '.join(columns)})",)

    def part(self, column: str) -> str:
        """A column of texts in an index over several."""
        return column


def _delete(table: str, keys: Sequence[str]) -> str:
    return f"DELETE FROM {table} WHERE {' AND '.join(f'{key} = ?' for key in keys)}"


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def checked_identifier(value: object, field: str) -> str:
    """A name that is safe to put into SQL text."""
    if not isinstance(value, str) or _IDENTIFIER.fullmatch(value) is None:
        raise InvalidInput(
            f"{field} must be a plain SQL identifier (letters, digits, _; up to 63), got {value!r}"
        )
    return value


def qualified(schema: str | None, table: str) -> str:
    """A table's name with that of the schema that it is in. Names of indexes must not have it."""
    return table if schema is None else f"{schema}.{table}"


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of the checkpoint tables under one prefix, and the dialect that they are in."""

    dialect: Dialect
    text: "TextIndex"
    prefix: str = "holdfast"
    schema: str | None = None

    def __post_init__(self) -> None:
        checked_identifier(self.prefix, "table_name")
        if self.schema is not None:
            checked_identifier(self.schema, "schema")

    @property
    def meta(self) -> str:
        return qualified(self.schema, f"{self.prefix}_meta")

    @property
    def threads(self) -> str:
        return qualified(self.schema, f"{self.prefix}_threads")

    @property
    def lives(self) -> str:
        return qualified(self.schema, f"{self.prefix}_lives")

    @property
    def ghosts(self) -> str:
        return qualified(self.schema, f"{self.prefix}_ghosts")

    @property
    def hidden(self) -> str:
        return qualified(self.schema, f"{self.prefix}_hidden")

    @property
    def checkpoints(self) -> str:
        return qualified(self.schema, f"{self.prefix}_checkpoints")

    @property
    def entries(self) -> str:
        return qualified(self.schema, f"{self.prefix}_entries")

    @property
    def writes(self) -> str:
        return qualified(self.schema, f"{self.prefix}_writes")

    @property
    def numbers(self) -> str:
        return qualified(self.schema, f"{self.prefix}_numbers")

    @property
    def unindexed(self) -> str:
        return qualified(self.schema, f"{self.prefix}_unindexed")

    @property
    def words(self) -> str:
        return qualified(self.schema, f"{self.prefix}_words")

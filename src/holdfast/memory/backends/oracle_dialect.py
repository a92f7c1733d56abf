"""What Oracle Database writes in another way than the core does: conditions on documents, and rows that may be there.

A MERGE has its keys in the source and its values in its branches. A value in the source would be one of a select list,
where a text ends at 4,000 bytes whatever the column takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.memory.backends.oracle_json import Condition, has_values, leaves
from holdfast.memory.backends.oracle_sql import LONGEST_TEXT, exceeds
from holdfast.memory.backends.sql.dialect import Dialect
from holdfast.memory.backends.sql.plan import Row, Statement, change, many


@dataclass(frozen=True, slots=True)
class OracleDialect(Dialect):
    """Documents are asked by `JSON_EXISTS`, which every release has, for text as for the type JSON. Rows that may be
    there are merged: in one statement, and who comes second at the same new key is told so (ORA-00001)."""

    def contains(self, column: str, wanted: Mapping[str, Any]) -> Condition:
        return has_values(column, dict(leaves(wanted)))

    def put_row(self, table: str, keys: Sequence[str], columns: Sequence[str], *row: Any) -> list[Statement]:
        return [change(merge_text(table, keys, columns), *row)]

    def put_rows(
        self,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str],
        there: Sequence[Row],
        rows: Sequence[Row],
    ) -> list[Statement]:
        """New rows alone are inserted. Long texts too, behind what they replace: an INSERT sends them along, a MERGE
        would have to make a temporary LOB of each first, which takes round trips of its own."""
        written = {row[: len(keys)] for row in rows}
        is_long = any(exceeds(value, LONGEST_TEXT) for row in rows for value in row)
        if is_long or written.isdisjoint(there):
            return Dialect.put_rows(self, table, keys, columns, there, rows)
        gone = [key for key in there if key not in written]
        return [
            *Dialect.put_rows(self, table, keys, columns, gone, ()),
            many(merge_text(table, keys, columns), rows),
        ]


def merge_text(table: str, keys: Sequence[str], columns: Sequence[str]) -> str:
    """A MERGE of one row. What it sets is bound once, and used in both branches."""
    marks = {column: f"?{number}" for number, column in enumerate((*keys, *columns), 1)}
    source = ", ".join(f"{marks[key]} AS {key}" for key in keys)
    found = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    assigned = ", ".join(f"t.{column} = {marks[column]}" for column in columns)
    values = ", ".join([*(f"s.{key}" for key in keys), *(marks[column] for column in columns)])
    return (
        f"MERGE INTO {table} t USING (SELECT {source} FROM DUAL) s ON ({found})"
        f" WHEN MATCHED THEN UPDATE SET {assigned}"
        f" WHEN NOT MATCHED THEN INSERT ({', '.join((*keys, *columns))}) VALUES ({values})"
    )

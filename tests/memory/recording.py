"""An engine that notes what a store asks it, and what the tests of the SQLite store share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast.memory.backends.sql.plan import Plan, PlanFactory, Statement
from holdfast.memory.backends.sql.schema import Schema
from holdfast.memory.backends.sqlite_engine import SqliteEngine

T = TypeVar("T")


def keys(found: Any) -> list[str]:
    """The keys of items or hits, in order."""
    return [getattr(entry, "item", entry).key for entry in found]


class RecordingEngine(SqliteEngine):
    """Notes the statements, and the number of rows that each query gave."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.statements: list[tuple[Statement, int]] = []

    def run(self, plan: PlanFactory[T], schema: Schema, *, write: bool) -> T:
        return super().run(lambda: self._noted(plan()), schema, write=write)

    def _noted(self, plan: Plan[T]) -> Plan[T]:
        results: list[Any] | None = None
        while True:
            try:
                batch = next(plan) if results is None else plan.send(results)
            except StopIteration as stop:
                value: T = stop.value
                return value
            results = yield batch
            for statement, result in zip(batch, results, strict=False):
                self.statements.append((statement, len(result) if statement.kind == "rows" else result))

    @contextmanager
    def noting(self) -> Iterator[list[tuple[Statement, int]]]:
        self.statements = []
        yield self.statements

    def vectors_read(self) -> int:
        return sum(count for statement, count in self.statements if "vector FROM" in statement.sql)

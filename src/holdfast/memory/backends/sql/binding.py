"""An engine for one component's tables."""

from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, Self, TypeVar

from holdfast.memory.backends.sql.plan import PlanFactory
from holdfast.memory.backends.sql.schema import Schema

T = TypeVar("T")


class SchemaEngine(Protocol):
    """Runs plans on tables, which it sees to before the first one."""

    def read(self, plan: PlanFactory[T], schema: Schema) -> Awaitable[T]: ...
    def write(self, plan: PlanFactory[T], schema: Schema) -> Awaitable[T]: ...
    def later(self, plan: PlanFactory[Any], schema: Schema) -> None: ...
    def scrub(self) -> Coroutine[Any, Any, None]: ...
    def close(self) -> Coroutine[Any, Any, None]: ...


class BoundEngine:
    """An engine for plans on one component's tables, which exist before the first plan runs."""

    __slots__ = ("_schema", "engine")

    def __init__(self, engine: SchemaEngine, schema: Schema) -> None:
        self.engine = engine
        self._schema = schema

    def within(self, *places: Any) -> Self:
        """See `Engine.within`. There is nothing to tell a database that doesn't see to it itself."""
        return self

    def read(self, plan: PlanFactory[T]) -> Awaitable[T]:
        return self.engine.read(plan, self._schema)

    def write(self, plan: PlanFactory[T]) -> Awaitable[T]:
        return self.engine.write(plan, self._schema)

    def later(self, plan: PlanFactory[Any]) -> None:
        self.engine.later(plan, self._schema)

    def scrub(self) -> Coroutine[Any, Any, None]:
        return self.engine.scrub()

    def close(self) -> Coroutine[Any, Any, None]:
        return self.engine.close()

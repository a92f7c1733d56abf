"""Plans: SQL operations without I/O.

A plan is a generator. It yields batches of statements, receives their results, and returns a value. An engine runs
a plan in one transaction: SQLite in one hop to a thread, a server with one round trip for each batch.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]


GUARD = 1
"""A statement that, if it changes nothing, ends its batch: what follows in the batch has no effect, and the results
end with its 0. On a server it may take with it what the plan locked before, never what it wrote before."""
LAST = 2
"""On a batch's first statement: the plan ends with this batch, unless a guard in it fails or the plan only reads.
A server commits in the same round trip. What such a plan does after all is done in another transaction."""
LAST_GUARD = GUARD | LAST
FRESH = 4
"""On the first statement of a plan that reads: each statement sees what is committed when it begins."""
HEAVY = 8
"""On a batch's first statement: what the plan does with the results takes time. Where plans run on an event loop, it
is done in a thread."""

REPEATABLE = 16
"""On a batch's first statement: the plan may be run again though it was done, if it is not known whether it was."""


class Statement(NamedTuple):
    """``kind``: "rows" answers with a list of rows, "change" and "many" with the number of rows changed.

    ``mark``: a sum of :data:`GUARD`, :data:`LAST`, :data:`FRESH`, :data:`HEAVY` and :data:`REPEATABLE`.
    """

    kind: str
    sql: str
    params: Sequence[Any]
    mark: int = 0


Batch = list[Statement]
Plan = Generator[Batch, list[Any], T]
PlanFactory = Callable[[], Plan[T]]


def rows(sql: str, *params: Any) -> Statement:
    return Statement("rows", sql, params)


def change(sql: str, *params: Any) -> Statement:
    return Statement("change", sql, params)


def guard(sql: str, *params: Any) -> Statement:
    return Statement("change", sql, params, GUARD)


def many(sql: str, params: Sequence[Sequence[Any]]) -> Statement:
    return Statement("many", sql, params)


def last(batch: Batch) -> Batch:
    """The batch, marked as the plan's last one. It must not be empty."""
    first = batch[0]
    return [first._replace(mark=first.mark | LAST), *batch[1:]]


def heavy(batch: Batch) -> Batch:
    """The batch, marked as one whose results take time. It must not be empty."""
    first = batch[0]
    return [first._replace(mark=first.mark | HEAVY), *batch[1:]]


def fetch(sql: str, *params: Any) -> Plan[list[Row]]:
    """All rows of one query."""
    (found,) = yield [Statement("rows", sql, params)]
    return list(found)


def fetch_one(sql: str, *params: Any) -> Plan[Row | None]:
    """The first row of one query, if there is one."""
    (found,) = yield [Statement("rows", sql, params)]
    return found[0] if found else None


def execute(*statements: Statement) -> Plan[list[Any]]:
    """Run statements for their effect."""
    return (yield list(statements))


class Engine(Protocol):
    """Runs plans against one database."""

    def within(self, *places: Any) -> "Engine":
        """This engine for plans about these tenants alone. Where the database itself keeps tenants apart, a plan sees
        nothing else and can write nothing else; a plan that is not within anything is one over all tenants.

        Places are what tells a component's tenants: the scope as it is stored, or namespaces."""
        ...

    def read(self, plan: PlanFactory[T]) -> Awaitable[T]:
        """Run a plan that only reads, on one consistent snapshot."""
        ...

    def write(self, plan: PlanFactory[T]) -> Awaitable[T]:
        """Run a plan in a transaction: all of it, or nothing."""
        ...

    def later(self, plan: PlanFactory[Any]) -> None:
        """Run upkeep in a transaction of its own; its failure is nobody's failure."""
        ...

    async def scrub(self) -> None:
        """See to it that what was deleted is no longer in the database's files, as far as that is ours to do."""
        ...

    async def close(self) -> None: ...

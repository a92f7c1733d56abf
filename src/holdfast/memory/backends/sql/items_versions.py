"""Versions of items, and how writers keep out of each other's way.

Writers of one namespace take turns: what a put reads (versions to compare, terms to take out, the vector space) is
what it finds when it writes, and the versions of a namespace are committed in their order. So what a reader has seen
up to a version it never has to look at again. Writers of different namespaces need not wait for each other; then their
versions may be committed in any order, and who lists many namespaces by version first lets those in flight `settle`.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol
from zlib import crc32

from holdfast.memory.backends.sql.dialect import Dialect
from holdfast.memory.backends.sql.plan import Statement, change, rows
from holdfast.memory.backends.sql.slots import SLOTS

_NAME = "versions"


class Versions(Protocol):
    """Where versions come from. They never repeat, and grow; what is locked stays so until the transaction ends."""

    @property
    def shared(self) -> bool:
        """Whether others may write while a plan does; if not, there is nothing to lock."""
        ...

    def ddl(self, counters: str, items: str, dialect: Dialect) -> tuple[str, ...]:
        """Make the table, and fill it: behind what the items have. Harmless if it is there."""
        ...

    def take(self, counters: str, namespaces: Sequence[str], count: int) -> list[Statement]:
        """Lock the namespaces, and take so many versions. What is read behind these statements is up to date."""
        ...

    def taken(self, results: Sequence[Any], count: int) -> list[int]:
        """The versions, ascending, from the answers to `take`."""
        ...

    def lock(self, counters: str, namespaces: Sequence[str] | None) -> list[Statement]:
        """Lock these namespaces, or with ``None`` all of them, also those that don't exist yet."""
        ...

    def settle(self, counters: str, root: str) -> list[Statement]:
        """Wait until what has a version under that root is committed, and let nobody take one until the transaction
        ends. Each statement behind it must see what is committed when it begins (see `plan.FRESH`). Nothing, where
        versions are committed in their order."""
        ...

    def newest(self, counters: str) -> Statement:
        """A query for a version that none that was committed so far is above, if there is any."""
        ...


class OneCounter:
    """One row that counts. Nothing to lock in a database with one writer at a time; with ``lock``, the suffix of a
    query that locks its rows, the writers of a store take turns on any server."""

    def __init__(self, lock: str = "") -> None:
        self._lock = lock
        self.shared = bool(lock)

    def ddl(self, counters: str, items: str, dialect: Dialect) -> tuple[str, ...]:
        return (
            f"CREATE TABLE {counters} (name {dialect.id_text} NOT NULL PRIMARY KEY, value {dialect.number} NOT NULL)",
            f"""INSERT INTO {counters} (name, value)
            SELECT '{_NAME}', newest FROM (SELECT COALESCE(MAX(version), 0) AS newest FROM {items}) v
            WHERE NOT EXISTS (SELECT 1 FROM {counters})""",
        )

    def take(self, counters: str, namespaces: Sequence[str], count: int) -> list[Statement]:
        return [
            change(f"UPDATE {counters} SET value = value + ? WHERE name = ?", count, _NAME),
            rows(f"SELECT value FROM {counters} WHERE name = ?", _NAME),
        ]

    def taken(self, results: Sequence[Any], count: int) -> list[int]:
        _, ((last,),) = results
        return list(range(last - count + 1, last + 1))

    def lock(self, counters: str, namespaces: Sequence[str] | None) -> list[Statement]:
        if not self._lock:
            return []
        return [rows(f"SELECT value FROM {counters} WHERE name = ?{self._lock}", _NAME)]

    def settle(self, counters: str, root: str) -> list[Statement]:
        return []

    def newest(self, counters: str) -> Statement:
        return rows(f"SELECT value FROM {counters} WHERE name = ?", _NAME)


ONE_COUNTER: Final = OneCounter()


class Slots:
    """For many writers at once: those whose namespaces fall into the same of 256 slots take turns.

    A slot is a row. Who writes locks the rows of its namespaces, in their order, before it reads anything. At READ
    COMMITTED each statement sees what was committed before it began, so all that it reads is up to date.
    """

    shared = True

    def lock(self, counters: str, namespaces: Sequence[str] | None) -> list[Statement]:
        slots = range(SLOTS) if namespaces is None else self.slots(namespaces)
        marks = ", ".join("?" * len(slots))
        return [rows(f"SELECT slot FROM {counters} WHERE slot IN ({marks}) ORDER BY slot FOR UPDATE", *slots)]

    @staticmethod
    def slots(namespaces: Sequence[str]) -> list[int]:
        """The slots of these namespaces, ascending."""
        return sorted({crc32(namespace.encode()) % SLOTS for namespace in namespaces})

    @staticmethod
    def spare(slots: Sequence[int]) -> int:
        """The first of some four billion numbers of rows that nobody else uses while the slots are locked."""
        return -(slots[0] + 1) << 32

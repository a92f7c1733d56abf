"""Working memory in a database: by URL, by store, and through a connection of an asynchronous driver."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import connect
from holdfast.core.errors import InvalidInput
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.working import DatabaseMemoryManager, WorkingMemoryAgent
from tests.memory.working.support import Appender, message

TABLE = "CREATE TABLE {} (conversation_id TEXT PRIMARY KEY, memory TEXT, updated_at TEXT NOT NULL)"


class Cursor:
    """A cursor of `Driver`: SQLite's, with coroutines, and with rows and counts as other drivers have them."""

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver
        self._real = driver.real.cursor()

    @property
    def rowcount(self) -> int:
        return self._real.rowcount if self._driver.counts else -1

    async def execute(self, sql: str, parameters: Any) -> None:
        await asyncio.sleep(0)
        self._driver.statements.append(sql)
        self._real.execute(sql.replace("%s", "?"), parameters)

    async def fetchone(self) -> Any:
        row = self._real.fetchone()
        if row is None or not self._driver.dicts:
            return row
        return {column[0]: value for column, value in zip(self._real.description, row, strict=True)}


class Driver:
    """A real SQLite database behind what asynchronous drivers have in common. One cursor at a time, as most."""

    def __init__(self, path: Path | str, *, dicts: bool = False, counts: bool = True) -> None:
        self.real = sqlite3.connect(path)
        self.dicts, self.counts = dicts, counts
        self.statements: list[str] = []
        self.ends: list[str] = []
        self._open = False

    @asynccontextmanager
    async def cursor(self) -> AsyncIterator[Cursor]:
        assert not self._open
        self._open = True
        try:
            yield Cursor(self)
        finally:
            self._open = False

    async def commit(self) -> None:
        self.ends.append("commit")
        self.real.commit()

    async def rollback(self) -> None:
        self.ends.append("rollback")
        self.real.rollback()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as database:
        database.execute(TABLE.format("conversation_memory"))
    database.close()
    return path


def rows(path: Path, table: str = "conversation_memory") -> dict[str, str]:
    """What another connection sees."""
    database = sqlite3.connect(path)
    try:
        return dict(database.execute(f"SELECT conversation_id, memory FROM {table}").fetchall())
    finally:
        database.close()


def turns(manager: DatabaseMemoryManager, *texts: str, conversation_id: str = "c1") -> list[str]:
    agent = WorkingMemoryAgent(Appender(), manager)

    async def work() -> list[str]:
        return [await agent.process(message(text, conversation_id)) for text in texts]

    return asyncio.run(work())


@pytest.mark.parametrize("dicts", [False, True])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("style", [None, "qmark", "numeric", "named"])
def test_a_connection_of_any_driver_keeps_memories_in_the_table(
    path: Path, dicts: bool, counts: bool, style: str | None
) -> None:
    driver = Driver(path, dicts=dicts, counts=counts)
    manager = DatabaseMemoryManager(driver, paramstyle=style)
    assert turns(manager, "one", "two", "it's 100%") == ["success"] * 3
    assert turns(manager, "uno", conversation_id="c2") == ["success"]
    assert rows(path) == {"c1": "one\ntwo\nit's 100%", "c2": "uno"}
    mark = {None: "%s", "qmark": "?", "numeric": ":1", "named": ":p1"}[style]
    assert all(mark in statement for statement in driver.statements)
    driver.real.close()


def test_the_driver_says_how_it_marks_parameters(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tests"], "paramstyle", "qmark", raising=False)
    driver = Driver(path)
    assert turns(DatabaseMemoryManager(driver), "one") == ["success"]
    assert "?" in driver.statements[0]
    driver.real.close()


def test_every_call_ends_its_transaction_unless_that_is_not_wanted(path: Path) -> None:
    driver = Driver(path)
    turns(DatabaseMemoryManager(driver), "one")
    assert driver.ends == ["commit", "commit"]
    mine = Driver(path)
    turns(DatabaseMemoryManager(mine, commit=False), "two")
    assert mine.ends == []
    assert rows(path) == {"c1": "one"}
    mine.real.rollback()
    for database in (driver, mine):
        database.real.close()


def test_a_failed_statement_is_an_error_and_its_transaction_is_undone(path: Path) -> None:
    driver = Driver(path)
    manager = DatabaseMemoryManager(driver, table="no_such_table")
    assert turns(manager, "one") == ["error: reading failed - no such table: no_such_table"]
    assert driver.ends == ["rollback"]
    driver.real.execute("CREATE TRIGGER full BEFORE INSERT ON conversation_memory"
                        " BEGIN SELECT RAISE(ABORT, 'quota exceeded'); END")  # fmt: skip
    assert turns(DatabaseMemoryManager(driver), "one") == ["error: storage failed - quota exceeded"]
    assert rows(path) == {}
    driver.real.close()


def test_conversations_and_managers_share_a_connection_one_call_at_a_time(path: Path) -> None:
    driver = Driver(path)
    agents = [WorkingMemoryAgent(Appender(), DatabaseMemoryManager(driver)) for _ in range(2)]

    async def work() -> Sequence[str]:
        talk = [agents[turn % 2].process(message(str(turn), f"c{turn % 3}")) for turn in range(12)]
        return await asyncio.gather(*talk)

    assert asyncio.run(work()) == ["success"] * 12
    assert rows(path) == {
        f"c{name}": "\n".join(str(turn) for turn in range(name, 12, 3)) for name in range(3)
    }
    driver.real.close()


def test_by_url_it_is_a_store_that_compares_versions(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'holdfast.db'}"
    manager = DatabaseMemoryManager(url)
    assert manager.compares_versions
    assert turns(manager, "one", "two") == ["success"] * 2
    asyncio.run(manager.aclose())

    async def read() -> Any:
        async with connect(url) as database:
            return await database.store.get(("working_memory",), "c1")

    assert asyncio.run(read()) == {"working_memory": "one\ntwo"}


def test_a_store_is_taken_too_and_stays_open() -> None:
    store = InMemoryStore()
    manager = DatabaseMemoryManager(store)
    assert turns(manager, "one") == ["success"]
    asyncio.run(manager.aclose())
    assert asyncio.run(store.get(("working_memory",), "c1")) == {"working_memory": "one"}


@pytest.mark.parametrize(
    ("connection", "options", "named"),
    [
        (object(), {}, "db_connection"),
        ("oracel://:secret@host", {}, "database"),
        (Driver(":memory:"), {"table": "x; DROP TABLE y"}, "table"),
        (Driver(":memory:"), {"paramstyle": "dollar"}, "paramstyle"),
    ],
)
def test_what_can_not_work_is_refused(connection: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named) as caught:
        DatabaseMemoryManager(connection, **options)
    assert "secret" not in str(caught.value)
    if isinstance(connection, Driver):
        connection.real.close()

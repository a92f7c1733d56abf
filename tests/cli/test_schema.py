"""`schema`: tables for a database in which programs may not create any."""

import asyncio
import json
import sqlite3
from pathlib import Path

from click.testing import CliRunner

from holdfast import connect
from holdfast.cli.commands import app
from holdfast.core.state import AgentState
from holdfast.memory.store_backends import SQLiteSyncStore
from tests.cli.conftest import Database
from tests.servers.fixtures import MariaDatabase


def test_what_it_prints_makes_a_database_that_works_without_creating_tables(nowhere: Database) -> None:
    result = nowhere.run("schema", "sqlite")
    assert result.exit_code == 0, result.output
    assert not nowhere.path.exists()
    for _ in range(2):  # it can be run again
        connection = sqlite3.connect(nowhere.path)
        connection.executescript(result.stdout)
        connection.close()

    async def scenario() -> None:
        async with connect(nowhere.url, auto_create_table=False) as database:
            await database.checkpointer.save(AgentState(), "thread")
            await database.store.put(("notes",), "k", "some words")
            assert len(await database.store.search(("notes",), "words")) == 1

    asyncio.run(scenario())
    connection = sqlite3.connect(nowhere.path)
    connection.executescript(result.stdout)
    connection.close()
    assert nowhere.json("threads")[0]["thread_id"] == "thread"


def test_names_can_be_given_and_json_asked_for(nowhere: Database, tmp_path: Path) -> None:
    document = nowhere.json("schema", "sqlite", "--table-name", "mine", "--items-table", "things")
    assert document["database"] == "sqlite"
    connection = sqlite3.connect(nowhere.path)
    for statement in document["statements"]:
        connection.execute(statement)
    connection.commit()
    connection.close()
    with SQLiteSyncStore(nowhere.path, table_name="things", auto_create_table=False) as store:
        store.put(("notes",), "k", 1)
    wrong = nowhere.run("schema", "sqlite", "--table-name", "a b")
    assert (wrong.exit_code, "table_name" in wrong.stderr) == (2, True)


def test_a_database_that_is_not_known_is_refused_with_those_that_are() -> None:
    result = CliRunner().invoke(app, ["schema", "excel"])
    assert result.exit_code == 2
    assert "sqlite" in result.output


def test_row_security_is_printed_for_postgresql_and_refused_elsewhere(nowhere: Database) -> None:
    plain = nowhere.json("schema", "postgresql")["statements"]
    secured = nowhere.json("schema", "postgresql", "--row-security", "--operators", "auditor")["statements"]
    assert secured[: len(plain)] == plain
    more = "\n".join(secured[len(plain) :])
    assert "ALTER TABLE holdfast_entries FORCE ROW LEVEL SECURITY" in more
    assert "ON holdfast_items FOR ALL TO auditor" in more
    assert not any("POLICY" in statement for statement in plain)
    indexed = nowhere.json("schema", "postgresql", "--dimension", "3", "--metric", "dot", "--partitions", "2")
    assert any("USING hnsw" in statement for statement in indexed["statements"])
    assert sum("PARTITION OF holdfast_entries " in statement for statement in indexed["statements"]) == 2
    for wrong in (
        ("schema", "postgresql", "--dimension", "5000"),
        ("schema", "postgresql", "--metric", "DOT"),
        ("schema", "postgresql", "--partitions", "1"),
        ("schema", "sqlite", "--partitions", "4"),
        ("schema", "sqlite", "--row-security"),
        ("schema", "postgresql", "--operators", "auditor"),
        ("schema", "postgresql", "--row-security", "--operators", "a; b"),
    ):
        assert nowhere.run(*wrong).exit_code == 2


def test_what_is_printed_for_mysql_is_enough_on_mariadb(mariadb: MariaDatabase) -> None:
    statements = json.loads(CliRunner().invoke(app, ["--json", "schema", "mysql"]).stdout)["statements"]

    async def scenario() -> None:
        async with connect(mariadb.url, auto_create_table=False) as database:
            await database.checkpointer.save(AgentState(), "thread")
            await database.store.put(("notes",), "k", "some words")
            assert len(await database.store.search(("notes",), "words")) == 1

    for _ in range(2):  # it can be run again, also on what is used
        for statement in statements:
            mariadb.sql(statement)
        asyncio.run(scenario())

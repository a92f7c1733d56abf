"""`migrate`: what it copies, what it prints, and when it says no."""

import asyncio
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.connection import connect
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from tests.cli.conftest import Database
from tests.servers.fixtures import Database as PostgresDatabase


@pytest.fixture
def source(database: Database) -> Database:
    """The threads of `database`, and two items."""

    async def fill() -> None:
        async with connect(database.url) as connection:
            await connection.store.put(("memory", "u:a"), "k1", {"text": "sails"})
            await connection.store.put(("odd", "\x1b[31m"), "k/2", "x", ttl=3600)

    asyncio.run(fill())
    return database


@pytest.fixture
def target(tmp_path: Path) -> Database:
    return Database(tmp_path / "target.db")


def counts(*numbers: int) -> dict[str, int]:
    return dict(
        zip(("found", "copied", "replaced", "skipped", "conflicts", "verified"), numbers, strict=True)
    )


DONE = {
    "dry_run": False,
    "threads": counts(3, 3, 0, 0, 0, 3),
    "checkpoints": counts(9, 9, 0, 0, 0, 9),
    "items": counts(2, 2, 0, 0, 0, 2),
    "conflicts": 0,
    "differences": 0,
    "different": [],
}


def test_everything_is_copied_and_verified_as_a_process_and_again_skipped(
    source: Database, target: Database
) -> None:
    before = source.path.read_bytes()
    done = source.process("migrate", source.url, target.url, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["threads"]["verified"] == json.loads(done.stdout)["threads"]["found"] > 0
    assert source.path.read_bytes() == before
    for thread in ("parcel", "other"):
        assert target.json("history", thread) == source.json("history", thread)
        assert target.json("show", thread) == source.json("show", thread)
    again = source.run("migrate", source.url, target.url)
    assert again.exit_code == 0
    fields = [line.split("\t") for line in again.stdout.splitlines()]
    assert [row[0] for row in fields] == ["threads", "checkpoints", "items"]
    assert all(row[2] == "0" and row[1] == row[4] == row[6] for row in fields)
    assert again.stderr == "both sides were read, and are the same\n"


KILLED = """
import os, signal, sys
from holdfast.cli import main
from holdfast.memory.backends.{module} import {name} as Target

hook, calls = Target.{hook}, iter(range({count}))

async def call(self, request):
    if next(calls, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return await hook(self, request)

Target.{hook} = call
main(["migrate", *sys.argv[1:]])
"""
HOOKS = {
    "a thread": {"module": "sqlite", "name": "SQLiteCheckpointer", "hook": "_restore"},
    "items": {"module": "sqlite_store", "name": "SQLiteStore", "hook": "_write"},
}


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("before", HOOKS)
def test_a_killed_process_is_completed_by_the_next(
    source: Database, target: Database, before: str, count: int
) -> None:
    script = KILLED.format(**HOOKS[before], count=count)
    killed = subprocess.run([sys.executable, "-c", script, source.url, target.url], check=False)
    assert killed.returncode == -signal.SIGKILL
    done = source.json("migrate", source.url, target.url)
    skipped = {"a thread": (count, 0), "items": (3, count)}[before]
    assert (done["threads"]["skipped"], done["items"]["skipped"]) == skipped
    assert (done["threads"]["verified"], done["items"]["verified"], done["differences"]) == (3, 2, 0)


def test_json_says_what_was_done(source: Database, target: Database) -> None:
    assert source.json("migrate", source.url, target.url) == DONE


def test_to_a_server_and_back(source: Database, target: Database, postgres: PostgresDatabase) -> None:
    assert source.json("migrate", source.url, postgres.url, "--dry-run") == {
        **DONE,
        "dry_run": True,
        "threads": counts(3, 3, 0, 0, 0, 0),
        "checkpoints": counts(9, 9, 0, 0, 0, 0),
        "items": counts(2, 2, 0, 0, 0, 0),
    }
    assert postgres.sql("SELECT COUNT(*) FROM pg_tables WHERE tablename LIKE 'holdfast%%'") == [(0,)]
    assert source.json("migrate", source.url, postgres.url) == DONE
    assert source.json("migrate", postgres.url, target.url) == DONE
    assert target.json("show", "parcel") == source.json("show", "parcel")


def test_a_dry_run_makes_no_file(source: Database, target: Database) -> None:
    result = source.run("migrate", source.url, target.url, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "this is what would be done\n")
    assert not target.path.exists()


def test_a_difference_is_named_and_the_exit_code_says_so(source: Database, target: Database) -> None:
    source.json("migrate", source.url, target.url)
    assert target.run("rm", "parcel", "c4000", "--yes").exit_code == 0
    result = source.run("migrate", source.url, target.url)
    assert result.exit_code == 3
    assert 'thread "parcel" differs\n' in result.stderr
    assert "1 difference, 1 conflict" in result.stderr
    planned = source.run("migrate", source.url, target.url, "--dry-run")
    assert (planned.exit_code, "--overwrite" in planned.stderr) == (3, True)
    assert source.json("migrate", source.url, target.url, "--overwrite")["threads"] == counts(
        3, 0, 1, 2, 0, 3
    )


TYPES = """
from dataclasses import dataclass
from holdfast.core import codec

@codec.register(name="tests.cli.Boat")
@dataclass
class Boat:
    name: str
"""
SAVING = """
import sys
from boats_of_a_test import Boat
from holdfast.core.state import AgentState
from holdfast.memory.backends import SQLiteSyncCheckpointer

with SQLiteSyncCheckpointer(sys.argv[1]) as threads:
    threads.save(AgentState(), "boats", metadata={"boat": Boat("Albatross")})
"""


def test_types_of_the_users_own_are_registered_by_a_module(source: Database, target: Database) -> None:
    folder = source.path.parent
    (folder / "boats_of_a_test.py").write_text(TYPES, "utf-8")
    subprocess.run([sys.executable, "-c", SAVING, str(source.path)], cwd=folder, check=True)
    unknown = source.process("migrate", source.url, target.url, cwd=folder)
    assert (unknown.returncode, b"'tests.cli.Boat', which is not registered" in unknown.stderr) == (2, True)
    known = source.process("migrate", source.url, target.url, "--types", "boats_of_a_test", cwd=folder)
    assert (known.returncode, known.stdout.splitlines()[0].split()[-1]) == (0, b"4")
    missing = source.run("migrate", source.url, target.url, "--types", "no_such_module")
    assert (missing.exit_code, "--types no_such_module: there is no module" in missing.stderr) == (2, True)


def test_only_threads_or_only_items(source: Database, tmp_path: Path) -> None:
    threads = source.json("migrate", source.url, f"sqlite:{tmp_path / 'a.db'}", "--threads-only")
    assert threads == {name: value for name, value in DONE.items() if name != "items"}
    items = source.json("migrate", source.url, f"sqlite:{tmp_path / 'b.db'}", "--memory-only")
    assert items == {name: value for name, value in DONE.items() if name not in ("threads", "checkpoints")}
    with sqlite3.connect(tmp_path / "a.db") as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "holdfast_items" not in tables


def test_a_database_that_was_only_used_for_threads_has_no_items(tmp_path: Path, source: Database) -> None:
    file = tmp_path / "without-items.db"
    shutil.copy(source.path, file)
    with sqlite3.connect(file) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%items%'"
        )
        for (name,) in names.fetchall():
            connection.execute(f"DROP TABLE {name}")
    done = source.json("migrate", f"sqlite:{file}", f"sqlite:{tmp_path / 'c.db'}")
    assert (done["threads"], done["items"]) == (DONE["threads"], counts(0, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["sqlite:nowhere.db", "memory:"], 1, "no database at nowhere.db"),
        (["{db}"], 2, "two URLs"),
        (["{db}", "postgresql://u:secret@h/d", "postgresql://u:secret@h/e"], 2, "two URLs"),
        (["{db}", "{db}"], 2, "same database"),
        (["{db}", "chroma::memory:"], 2, "--memory-only"),
        (["{db}", "memory:", "--threads-only", "--memory-only"], 2, "give one"),
        (["{db}", "memory:", "--user", "a"], 2, "all scopes"),
        (["{db}", "what://u:secret@h/d"], 2, "can't tell the database"),
    ],
)
def test_what_can_not_be_done_is_said_without_secrets(
    source: Database, args: list[str], code: int, message: str
) -> None:
    result = source.run("migrate", *(arg.format(db=source.url) for arg in args))
    assert result.exit_code == code
    assert message in result.stderr
    assert "secret" not in result.output


def test_a_terminal_shows_a_table(source: Database, target: Database) -> None:
    code, seen = source.terminal("migrate", source.url, target.url)
    assert code == 0
    for word in ("found", "copied", "skipped", "conflicts", "verified", "threads", "checkpoints", "items"):
        assert word in seen
    assert asyncio.run(_threads(target.path)) == asyncio.run(_threads(source.path))


async def _threads(path: Path) -> list[str]:
    async with SQLiteCheckpointer(path) as checkpointer:
        return list(await checkpointer.list_threads())

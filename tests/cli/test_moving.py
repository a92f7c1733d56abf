"""`export` and `import`: out of one database, into another, and what can go wrong on the way."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Database


@pytest.fixture
def target(tmp_path: Path) -> Database:
    return Database(tmp_path / "target.db")


@pytest.mark.parametrize("name", ["backup.jsonl", "backup.jsonl.gz"])
def test_an_export_restores_every_thread_exactly(
    database: Database, target: Database, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    assert database.json("export", "-o", str(file)) == {"threads": 2, "checkpoints": 8, "file": str(file)}
    assert (file.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert target.json("import", str(file)) == {"threads": 2, "checkpoints": 8, "skipped": []}
    for thread in ("parcel", "other"):
        assert target.json("history", thread) == database.json("history", thread)
        assert target.json("show", thread) == database.json("show", thread)


def test_export_writes_json_lines_to_stdout_and_import_reads_stdin(
    database: Database, target: Database
) -> None:
    exported = database.run("export", "par*")
    assert exported.stderr == "exported 1 thread with 4 checkpoints\n"
    assert json.loads(exported.stdout.splitlines()[0]) == {"holdfast_export": 1}
    result = target.run("import", "-", input=exported.stdout)
    assert (result.exit_code, result.stdout) == (0, "1\t4\t[]\n")


def test_a_compressed_export_is_known_by_its_bytes_not_its_name(database: Database, target: Database) -> None:
    packed = gzip.compress(database.run("export").stdout.encode())
    assert target.run("import", "-", input=packed).exit_code == 0


def test_import_into_a_scope_stays_in_it(database: Database, target: Database) -> None:
    exported = database.run("export").stdout
    assert target.run("import", "-", "--user", "user-9", input=exported).exit_code == 0
    assert target.run("threads").exit_code == 1
    assert len(target.lines("threads", "--user", "user-9")) == 2


def test_a_thread_that_exists_is_a_conflict_or_skipped(database: Database, target: Database) -> None:
    assert target.run("import", "-", input=database.run("export", "other").stdout).exit_code == 0
    everything = database.run("export").stdout
    conflict = target.run("import", "-", input=everything)
    assert conflict.exit_code == 3
    assert "--on-conflict skip" in conflict.stderr
    skipped = target.run("import", "-", "--on-conflict", "skip", "--json", input=everything)
    assert json.loads(skipped.stdout) == {"threads": 1, "checkpoints": 4, "skipped": ["other"]}


def damaged(exported: str) -> dict[str, bytes]:
    packed = gzip.compress(exported.encode())
    return {
        "changed": exported.replace("Monday", "Friday").encode(),
        "cut off": exported[: len(exported) // 2].encode(),
        "cut off between lines": "\n".join(exported.splitlines()[:-1]).encode(),
        "cut off when compressed": packed[: len(packed) // 2],
        "changed when compressed": packed[:40] + bytes(60) + packed[100:],
        "not text": b"\xff\xfe\x00\x00",
        "another format": b'{"hello": "world"}\n',
        "empty": b"",
    }


@pytest.mark.parametrize("damage", damaged("x"))
def test_a_damaged_export_is_refused(database: Database, target: Database, damage: str) -> None:
    result = target.run("import", "-", input=damaged(database.run("export").stdout)[damage])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_no_export_creates_no_database(target: Database) -> None:
    assert target.run("import", "-", input="hello\n").exit_code == 2
    assert not target.path.exists()


def test_a_missing_file_is_exit_code_1(target: Database, tmp_path: Path) -> None:
    result = target.run("import", str(tmp_path / "missing.jsonl"))
    assert result.exit_code == 1
    assert "missing.jsonl: No such file or directory" in result.stderr


def test_a_failed_export_leaves_the_old_file_as_it_was(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    file.write_text("the old one")
    with database.path.open("r+b") as damage:  # the pages behind the first are gone
        damage.truncate(4096)
    assert database.run("export", "-o", str(file)).exit_code == 4
    assert file.read_text() == "the old one"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_an_export_into_a_device_writes_to_it_and_does_not_replace_it(database: Database) -> None:
    result = database.process("export", "-o", "/dev/stdout")
    assert result.returncode == 0
    assert result.stdout.startswith(b'{"holdfast_export":1}\n')
    assert Path("/dev/stdout").exists()


def test_an_export_of_nothing_is_exit_code_1_only_if_something_was_asked_for(database: Database) -> None:
    assert database.run("export", "nothing-*").exit_code == 1
    empty = database.run("export", "--user", "user-2")
    assert empty.exit_code == 0
    assert json.loads(empty.stdout.splitlines()[-1]) == {"end": "export", "threads": 0}


def test_a_bar_is_drawn_on_stderr_in_a_terminal(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    code, seen = database.terminal("export", "-o", str(file))
    assert (code, "exporting threads" in seen) == (0, True)
    assert "✓ exported 2 threads with 8 checkpoints" in re.sub(r"\x1b\[[0-9;]*m", "", seen)
    code, seen = Database(tmp_path / "new.db").terminal("import", str(file))
    assert (code, "importing" in seen) == (0, True)
    assert "✓ restored 2 threads with 8 checkpoints" in re.sub(r"\x1b\[[0-9;]*m", "", seen)

"""The command as a process: exit codes, streams, signals."""

import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Database, environment

READING = [
    ["threads"],
    ["history", "parcel"],
    ["show", "parcel"],
    ["diff", "parcel", "head"],
    ["search", "parcel"],
    ["fork", "parcel", "new"],
    ["rm", "parcel", "--yes"],
    ["vacuum", "--keep-last", "1", "--yes"],
    ["export"],
    ["stats"],
    ["memory", "list"],
    ["memory", "facts", "--user", "alice"],
    ["memory", "forget", "--user", "alice", "--yes"],
    ["reembed", "--embedder", "hash"],
]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_database_that_does_not_exist_is_said_so_and_not_created(
    nowhere: Database, command: list[str]
) -> None:
    result = nowhere.run(*command)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: no database at {nowhere.path}")
    assert list(nowhere.path.parent.iterdir()) == []


def test_the_installed_command_runs(database: Database) -> None:
    command = shutil.which("holdfast", path=str(Path(sys.executable).parent))
    assert command is not None
    result = subprocess.run(
        [command, "threads"], capture_output=True, check=False, env=environment(database.url)
    )
    assert (result.returncode, result.stdout.count(b"\n")) == (0, 2)


def test_the_database_is_holdfast_db_in_this_folder_unless_named(database: Database, tmp_path: Path) -> None:
    database.path.rename(tmp_path / "holdfast.db")
    env = {name: value for name, value in os.environ.items() if name != "HOLDFAST_DB"}
    result = subprocess.run([*COMMAND, "threads"], capture_output=True, check=False, env=env, cwd=tmp_path)
    assert (result.returncode, result.stdout.count(b"\n")) == (0, 2)


@pytest.mark.parametrize("form", ["sqlite:{}", "sqlite://{}", "{}"])
def test_every_form_of_a_url_is_taken_before_and_after_the_command(database: Database, form: str) -> None:
    url = form.format(database.path)
    other = Database(database.path.with_name("not-this-one.db"))
    assert other.run("--db", url, "threads").exit_code == 0
    assert other.run("threads", "--db", url).exit_code == 0
    assert other.run("--db", other.url, "threads", "--db", url).exit_code == 0


def test_a_file_that_is_no_database_is_exit_code_4(nowhere: Database) -> None:
    nowhere.path.write_bytes(b"this is not a database, but long enough to be one" * 100)
    result = nowhere.process("threads")
    assert result.returncode == 4
    assert result.stderr.startswith(b"error: ")
    assert result.stderr.count(b"\n") == 1


def test_a_folder_is_exit_code_4(nowhere: Database) -> None:
    nowhere.path.mkdir()
    assert nowhere.process("threads").returncode == 4


def test_a_database_of_a_newer_version_is_exit_code_4(database: Database) -> None:
    with sqlite3.connect(database.path) as connection:
        connection.execute("UPDATE holdfast_meta SET value = '999' WHERE name LIKE 'schema:%'")
    connection.close()
    result = database.process("threads")
    assert result.returncode == 4
    assert b"newer" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["show"],
        ["threads", "--limit", "many"],
        ["threads", "--limit", "0"],
        ["--db", "ftp://x", "threads"],
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_line(database: Database, arguments: list[str]) -> None:
    result = database.process(*arguments)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith(b"error: ")
    assert result.stderr.count(b"\n") == 1


def test_a_traceback_is_shown_only_when_asked_for(database: Database) -> None:
    command = [*COMMAND, "fork", "parcel", "other"]
    quiet = subprocess.run(command, capture_output=True, check=False, env=environment(database.url))
    loud = subprocess.run(
        command, capture_output=True, check=False, env=environment(database.url, HOLDFAST_DEBUG="1")
    )
    assert (quiet.returncode, loud.returncode) == (3, 3)
    assert b"Traceback" not in quiet.stderr
    assert b"Traceback" in loud.stderr


def test_a_reader_that_leaves_early_is_no_error(database: Database) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = subprocess.run(
            [*COMMAND, "export"],
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
            env=environment(database.url),
        )
    finally:
        os.close(write)
    assert result.returncode == 141
    assert result.stderr.replace(b"exported 2 threads with 8 checkpoints\n", b"") == b""


def test_ctrl_c_at_a_question_is_exit_code_130_and_deletes_nothing(database: Database) -> None:
    main, side = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "rm", "parcel"], stdin=side, stdout=side, stderr=side, env=environment(database.url)
    )
    os.close(side)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(main, 1024)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 130
    os.close(main)
    assert database.run("show", "parcel").exit_code == 0


def test_ctrl_c_while_stdin_is_awaited_is_exit_code_130_and_keeps_what_was_complete(
    database: Database, nowhere: Database
) -> None:
    unfinished = database.run("export").stdout.rpartition('{"end":"export"')[0]
    with subprocess.Popen(
        [*COMMAND, "import", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(nowhere.url),
    ) as child:
        assert child.stdin is not None
        child.stdin.write(unfinished.encode())
        child.stdin.flush()
        while nowhere.run("show", "parcel").exit_code != 0:  # it reads what there is, then waits for more
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130
    assert len(nowhere.lines("threads")) == 2


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ImportError('no click here', name='click')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([*COMMAND, "threads"], capture_output=True, check=False, env=env)
    assert result.returncode == 4
    assert result.stderr == b"error: the command line needs click: pip install 'holdfast[cli]'\n"


def test_importing_the_package_alone_needs_neither_click_nor_rich() -> None:
    code = "import holdfast.cli, sys; print([name for name in ('click', 'rich') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout == b"[]\n"


def test_help_has_exit_codes_and_every_command_has_an_example(nowhere: Database) -> None:
    overview = nowhere.run("--help")
    assert overview.exit_code == 0
    assert "Exit codes:" in overview.stdout
    assert nowhere.run().stdout == overview.stdout

    def names(of: str) -> list[str]:
        listed = of.partition("Commands:\n")[2].partition("\n\n")[0]
        return [line.split()[0] for line in listed.splitlines()]

    commands = (
        "chat threads history show diff search fork rm vacuum export import migrate stats memory reembed"
    )
    assert names(overview.stdout) == [*commands.split(), "schema", "version"]
    group = names(nowhere.run("memory", "--help").stdout)
    assert group == "list search facts blame forget export import".split()
    for name in [
        *(name for name in commands.split() if name != "memory"),
        *(f"memory {name}" for name in group),
    ]:
        shown = nowhere.run(*name.split(), "--help")
        assert f"Examples:\n    holdfast {name}" in shown.stdout

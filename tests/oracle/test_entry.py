"""`make test-oracle`: the command that it runs leads the suites to the server that `ORACLE_*` names, and tidies up."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.database import OracleDatabase
from tests.oracle.place import REAL

ROOT = Path(__file__).parents[2]
NAMED = {"ORACLE_DSN": "db.example/service", "ORACLE_USER": "", "ORACLE_PASSWORD": "secret"}
SAMPLE = "tests/oracle/test_json.py::test_a_filter_finds_the_same_whatever_the_database_can_hold[real]"

pytestmark = pytest.mark.skipif(REAL, reason="it is what runs")


def recipe() -> list[str]:
    """The commands of the target, as the shell gets them."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^test-oracle: .*\n((?:\t.*\n)+)", text, re.M)
    assert found is not None
    lines = found[1].replace("\\\n", "").splitlines()
    return [line.strip().removeprefix("@").replace("$$", "$") for line in lines if "$(call" not in line]


def environment(user: str = "", url: str = "") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORACLE_", "PYTEST_"))}
    return {**kept, **NAMED, "ORACLE_USER": user, "ORACLE_WALLET": str(ROOT), "ORACLE_REHEARSAL": url}


def test_a_variable_that_is_missing_is_named() -> None:
    check, _ = recipe()
    for name in NAMED:
        given = environment("app")
        assert subprocess.run(["sh", "-c", check], env=given, check=False).returncode == 0
        del given[name]
        ended = subprocess.run(["sh", "-c", check], env=given, check=False, capture_output=True, text=True)
        assert (ended.returncode, name in ended.stdout) == (1, True)


def run(oracle: OracleDatabase, tests: str) -> str:
    """The command on the double, with these tests alone; the tables that it leaves are none."""
    _, command = recipe()
    user = oracle.add_user()
    assert "pytest -q" in command
    others = "-p tests.oracle.rehearsal -p no:cacheprovider -n 0 --no-summary"
    words = f"{shlex.quote(sys.executable)} -m pytest {others} -q"
    command = command.replace("$(BIN)/python -m pytest -q", words).replace("tests/oracle", tests, 1)
    command = command.replace("$(PYTEST_ARGS)", "")
    given = environment(user, oracle.url)
    given["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    ended = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=given, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    left = oracle.sql(f"SELECT relname FROM pg_class WHERE relnamespace = '{user}'::regnamespace")
    assert left == []
    return ended.stdout


@pytest.mark.parametrize("release", [23])
def test_the_suites_run_on_the_server_that_the_environment_names(oracle: OracleDatabase) -> None:
    shown = run(oracle, shlex.quote(SAMPLE))
    assert re.search(r"^1 passed", shown, re.M), shown


@pytest.mark.long
@pytest.mark.parametrize("release", [23])
def test_more_of_them_run_there(oracle: OracleDatabase) -> None:
    suites = ("test_checkpointer", "test_store", "test_saver", "test_documents")
    others = ("test_json", "test_merge", "test_vectors", "test_migrating", "test_notebooks")
    run(oracle, " ".join(f"tests/oracle/{name}.py" for name in (*suites, *others)))

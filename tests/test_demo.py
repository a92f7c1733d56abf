"""The demo does what it promises, in front of the reader."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo.py"


@pytest.fixture(scope="module")
def shown() -> str:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run([sys.executable, str(DEMO)], capture_output=True, check=False, env=env)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def test_it_goes_through_every_section_in_order(shown: str) -> None:
    sections = re.findall(r"^([A-Z][a-z]+)  \S", shown, re.MULTILINE)
    assert sections == "Save Crash Resume Rewind Fork Diff Search Remember Cost Yours".split()


def test_a_process_is_killed_and_nothing_acknowledged_is_lost(shown: str) -> None:
    assert "2 saves acknowledged, then killed by signal 9" in shown
    resumed = re.search(r"resumed with (\d+) messages; acknowledged saves lost: 0", shown)
    assert resumed is not None
    # Eight before the crash, four acknowledged in the child, and one more if the save that was cut short got through.
    assert int(resumed[1]) in (12, 13)


def test_it_rewinds_forks_and_shows_how_the_branches_differ(shown: str) -> None:
    assert "the conversation as it was: 4 messages" in shown
    assert "thread 'trip-cheaper' shares its past with 'trip'" in shown
    assert "4 messages in common" in shown
    assert "- user: Book Casa do Rio, please." in shown
    assert "+ user: Take the cheaper one instead." in shown


def test_it_searches_all_threads_and_remembers_across_them(shown: str) -> None:
    found = re.search(r"(\d+) messages found", shown)
    assert found is not None
    assert int(found[1]) >= 4
    assert "diet: Eats vegetarian" in shown
    assert "Conflict: " in shown


def test_a_late_save_costs_what_an_early_one_does(shown: str) -> None:
    rows = re.findall(r"^ +(\d+)  █+ (\d+) KB +░+ (\d+) KB", shown, re.MULTILINE)
    assert len(rows) == 10
    first, last = rows[0], rows[-1]
    assert int(last[1]) < 2 * int(first[1])
    assert int(last[2]) > 8 * int(first[2])


def test_the_code_that_it_shows_is_the_code_that_it_runs(shown: str) -> None:
    assert 'await checkpointer.save(state, "trip", parent=head, metadata={"turn": turn})' in shown
    assert "os.kill(os.getpid(), signal.SIGKILL)" in shown
    assert 'await checkpointer.fork("trip", checkpoint_id, "trip-cheaper")' in shown


def test_piped_output_is_plain_and_the_file_is_gone(shown: str) -> None:
    assert "\x1b" not in shown
    path = re.search(r"One SQLite file: (\S+)", shown)
    assert path is not None
    assert not Path(path[1]).parent.exists()

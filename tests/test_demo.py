"""The demo does what it promises, in front of the reader."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.support import EXAMPLES, bare_environment

DEMO = EXAMPLES / "demo.py"


@pytest.fixture(scope="module")
def shown() -> str:
    result = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, check=False, env=bare_environment()
    )
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


@pytest.fixture(scope="module")
def sections(shown: str) -> dict[str, str]:
    parts = re.split(r"^([A-Z][a-z]+)  (?=\S)", shown, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_it_goes_through_every_section_in_order(sections: dict[str, str]) -> None:
    assert list(sections) == "Work Crash Resume Rewind Fork Diff Search Yours".split()


def test_an_agent_works_with_a_tool(sections: dict[str, str]) -> None:
    assert "→ find_hotels(city='Lisbon', most=150)" in sections["Work"]
    assert '✓ find_hotels: ["Casa do Rio, 140 euros","Torre Azul, 95 euros"]' in sections["Work"]
    assert "assistant  Two fit: Casa do Rio for 140 euros a night, and Torre Azul for 95." in sections["Work"]


def test_a_process_is_killed_while_two_of_its_three_tools_run(sections: dict[str, str]) -> None:
    crash = sections["Crash"]
    started = re.findall(r"→ (\w+)\(", crash)
    assert started == ["book_hotel", "pay_deposit", "get_weather"]
    assert re.findall(r"✓ (\w+):", crash) == ["book_hotel"]
    assert "kill -9: the process is dead (signal 9), two tools were still running" in crash
    assert "assistant  " not in crash


def test_a_new_process_finishes_the_turn_and_pays_once(sections: dict[str, str]) -> None:
    resumed = sections["Resume"]
    assert "1 call had finished, 1 may run again, 1 has an unknown outcome" in resumed
    assert "✓ book_hotel: Casa do Rio, 3 nights, confirmation LX-001  (kept, not run again)" in resumed
    assert "? pay_deposit: the model is told: the outcome of this call is unknown" in resumed
    assert re.findall(r"→ (\w+)\(", resumed) == ["get_weather", "list_payments"]
    assert '✓ list_payments: ["90 euros to Casa do Rio"]' in resumed
    assert "I did not pay it twice" in resumed
    assert "in all, book_hotel, pay_deposit ran once; get_weather ran twice" in resumed


def test_it_rewinds_to_where_the_turn_before_ended(sections: dict[str, str]) -> None:
    rewound = sections["Rewind"]
    assert "Arr!" in rewound
    steps = re.findall(r"^ +(\d+)  (\w+) +\w{26}  (◀?)", rewound, re.MULTILINE)
    assert [step for _, step, _ in steps] == ["answer", "prompt", "answer", "tools", "intent"]
    assert [bool(mark) for _, _, mark in steps] == [False, False, True, False, False]
    assert "the thread has 12 messages again" in rewound


def test_it_forks_and_shows_how_the_branches_differ(sections: dict[str, str]) -> None:
    assert "→ book_hotel(name='Torre Azul', nights=3)" in sections["Fork"]
    assert "'trip-cheaper' shares its past with 'trip'" in sections["Fork"]
    differs = sections["Diff"]
    assert "4 messages in common" in differs
    assert "- user: Take Casa do Rio for three nights" in differs
    assert "+ user: Take the cheaper one instead" in differs
    assert (differs.count("\n    - "), differs.count("\n    + ")) == (8, 4)
    assert "Arr!" not in differs


def test_it_searches_what_was_said(sections: dict[str, str]) -> None:
    hits = re.findall(r"^ +\d+\.\d\d  (\S+)  (.+)$", sections["Search"], re.MULTILINE)
    assert "3 messages found" in sections["Search"]
    assert hits[0][0] == "trip"
    assert "The deposit had left" in hits[0][1]


def test_the_code_that_it_shows_is_the_code_that_it_runs(shown: str) -> None:
    assert 'agent = Agent("You plan trips.", model=model, tools=tools, checkpointer=url)' in shown
    assert 'run = agent.resume("trip")' in shown
    assert 'await agent.fork("trip", checkpoint_id, "trip-cheaper")' in shown


def test_piped_output_is_plain_and_the_file_is_gone(shown: str) -> None:
    assert "\x1b" not in shown
    path = re.search(r"One SQLite file: (\S+)", shown)
    assert path is not None
    assert not Path(path[1]).parent.exists()


def test_the_file_can_be_kept_and_looked_into(tmp_path: Path) -> None:
    env = bare_environment(TMPDIR=str(tmp_path))
    kept = subprocess.run(
        [sys.executable, str(DEMO), "--keep"], capture_output=True, check=True, env=env, encoding="utf-8"
    )
    command = re.search(r"holdfast (--db \S+ show trip)$", kept.stdout, re.MULTILINE)
    assert command is not None
    look = [sys.executable, "-m", "holdfast.cli", *command[1].split()]
    found = subprocess.run(look, capture_output=True, check=True, env=env, encoding="utf-8")
    assert "I did not pay it twice" in found.stdout

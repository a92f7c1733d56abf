"""The crash example: a real kill in the middle of a tool, and no tool that runs twice."""

import re

import pytest

from tests.examples.support import run_example


@pytest.fixture(scope="module")
def shown() -> str:
    return run_example("crash_and_resume.py")


def test_the_first_process_is_killed_while_the_courier_is_booked(shown: str) -> None:
    before, _, after = shown.partition("[process 1 was killed by signal 9]")
    assert "charge_card: Charged 45 euros" in before
    assert "-> book_courier(city='Lisbon')" in before
    assert "book_courier:" not in before
    assert "agent.resume('order-1')" in after


def test_the_second_process_runs_only_what_had_not_begun(shown: str) -> None:
    resumed = shown.partition("agent.resume('order-1')")[2]
    assert "1 had finished, 0 will run again, 1 may or may not have taken effect" in resumed
    assert "charge_card: Charged 45 euros  [ran in process 1, not run again]" in resumed
    started = re.findall(r"-> (\w+)\(", resumed)
    assert started == ["send_receipt"]


def test_the_model_was_told_that_the_outcome_of_the_running_call_is_unknown(shown: str) -> None:
    told = shown.partition("What the model was told of the courier\n")[2].partition("\n\n")[0]
    assert "the outcome of this call is unknown" in " ".join(told.split())


def test_every_tool_ran_once_in_one_of_the_processes(shown: str) -> None:
    rows = re.findall(r"^ +(\w+) +(\d) +(\d)$", shown, re.MULTILINE)
    assert rows == [
        ("check_stock", "1", "0"),
        ("charge_card", "1", "0"),
        ("book_courier", "1", "0"),
        ("send_receipt", "0", "1"),
    ]

"""The memory notebook: each of its five parts shows what it claims."""

import re
from pathlib import Path

import pytest

from tests.examples.support import run_example

SCRIPT = "notebook_16_agent_memory.py"
ORACLE = {
    "ORACLE_DSN": "mydb_low",
    "ORACLE_USER": "app",
    "ORACLE_PASSWORD": "secret",
    "ORACLE_WALLET": "wallet",
}


@pytest.fixture(scope="module")
def parts() -> list[str]:
    """What is printed before the first part, then each part."""
    return re.split(r"^=== Part \d: .*===$", run_example(SCRIPT), flags=re.MULTILINE)


def test_it_says_where_it_runs_and_what_would_put_it_on_oracle(parts: list[str]) -> None:
    assert len(parts) == 6
    assert re.search(
        r"Database: SQLite, .*notebook_16\.db \(to run on Oracle, set "
        r"ORACLE_DSN, ORACLE_USER, ORACLE_PASSWORD, ORACLE_WALLET\)",
        parts[0],
    )
    assert "Model: MockModel('mock')" in parts[0]


def test_part_1_recalls_the_name_from_the_turn_before(parts: list[str]) -> None:
    assert re.search(r"User: +What's my name\?\nAgent: .*Alice", parts[1])
    assert "The thread holds 4 messages." in parts[1]


def test_part_2_calls_tools_lists_the_note_and_saves_each_step(parts: list[str]) -> None:
    assert [int(count) for count in re.findall(r"Tool calls: (\d+)", parts[2])] == [1, 1]
    assert "You have 1 note(s):\n- Buy groceries" in parts[2]
    steps = "prompt, intent, tools, answer, prompt, intent, tools, answer"
    assert f"Checkpoints of these two turns: {steps}" in parts[2]


def test_part_3_another_process_knows_the_code(parts: list[str]) -> None:
    first, second = re.findall(r"process (?:is number )?(\d+)", parts[3], re.IGNORECASE)
    assert first != second
    assert re.search(r"User: +What was the secret code\?\nAgent: .*42", parts[3])


def test_part_4_keeps_alice_and_bob_apart(parts: list[str]) -> None:
    alice, bob = parts[4].split("[thread_bob]")
    assert "pizza" in alice
    assert "sushi" not in alice
    assert "sushi" in bob
    assert "pizza" not in bob


def test_part_5_shows_a_confidence_that_rises_with_each_tool_call(parts: list[str]) -> None:
    history = re.search(r"Confidence history: \[([\d., ]+)\]", parts[5])
    assert history is not None
    first, second = (float(value) for value in history[1].split(","))
    assert 0 < first < second <= 1
    assert f"Confidence:         {second:.2f}" in parts[5]
    assert "Tool calls:         2 (record_fact, record_fact)" in parts[5]
    roles = re.findall(r"^  \d\. \[(\w+)\]", parts[5], re.MULTILINE)
    assert roles == ["user", "assistant", "tool", "assistant"] * 2
    assert "Facts in the tool's own list: ['My name is Charlie', 'I work as a data scientist']" in parts[5]


def test_in_a_folder_of_yours_the_file_stays_and_a_second_run_remembers_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    run_example(SCRIPT, str(folder))
    assert (folder / "notebook_16.db").is_file()
    again = run_example(SCRIPT, str(folder))
    assert "The thread holds 8 messages." in again
    assert "Iterations:         8" in again


def test_with_oracle_half_configured_it_names_only_what_is_missing() -> None:
    shown = run_example(SCRIPT, ORACLE_DSN="mydb_low", ORACLE_USER="app")
    assert "(to run on Oracle, set ORACLE_PASSWORD, ORACLE_WALLET)" in shown


def test_with_oracle_configured_but_out_of_reach_that_is_said_plainly() -> None:
    pytest.importorskip("oracledb", reason="needs oracledb: the package is not installed")
    shown = run_example(SCRIPT, code=1, **ORACLE)
    assert "Oracle mydb_low: DPY-" in shown
    assert "Unset ORACLE_DSN to run on SQLite." in shown
    assert "Traceback" not in shown
    assert "secret" not in shown

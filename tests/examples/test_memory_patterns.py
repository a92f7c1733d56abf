"""The example of working memory: each of its six scenarios shows what it claims."""

import re

import pytest

from tests.examples.support import run_example

SCRIPT = "agents/03_memory_patterns.py"


@pytest.fixture(scope="module")
def scenarios() -> list[str]:
    """What is printed before the first scenario, then each one."""
    return re.split(r"^=== Scenario \d: .*===$", run_example(SCRIPT), flags=re.MULTILINE)


def memory(shown: str, conversation_id: str) -> list[str]:
    """The lines of the memory that is shown of a conversation."""
    found = re.search(rf"^\[{conversation_id}\] stored \d+ times?\n((?:- .*\n)+)", shown, re.MULTILINE)
    assert found is not None
    return found[1].splitlines()


def test_it_says_which_model_writes_and_takes_every_message_of_the_six_scenarios(
    scenarios: list[str],
) -> None:
    assert len(scenarios) == 7
    assert "Model: MockModel('mock')" in scenarios[0]
    assert "".join(scenarios).count("-> success") == 4 + 3 + 1 + 5 + 3


def test_scenario_1_builds_a_memory_of_four_messages(scenarios: list[str]) -> None:
    first, *_, last = kept = memory(scenarios[1], "user_alice_session_001")
    assert len(kept) == 4
    assert "Alice" in first
    assert last == "- Show me examples rather than theory"


def test_scenario_2_keeps_conversations_apart(scenarios: list[str]) -> None:
    bob, alice = memory(scenarios[2], "user_bob_session_002"), memory(scenarios[2], "user_alice_session_003")
    assert (len(bob), len(alice)) == (2, 1)
    assert "Alice" not in "".join(bob)
    assert "Conversations: 3, stored: 7 times" in scenarios[2]


def test_scenario_3_shows_the_errors_and_the_text_that_was_not_lost(scenarios: list[str]) -> None:
    assert scenarios[3].count("error: no conversation_id provided") == 3
    assert "a full disk: error: storage failed - no space left on device" in scenarios[3]
    assert "not lost: - The order number is 77" in scenarios[3]


def test_scenario_4_works_without_a_manager(scenarios: list[str]) -> None:
    assert "agent.last_memory: - Nobody keeps this" in scenarios[4]


def test_scenario_5_keeps_the_details_of_the_case(scenarios: list[str]) -> None:
    kept = "\n".join(memory(scenarios[5], "support_ticket_12345"))
    for detail in ("#4567", "TXN001", "TXN002", "$99.99", "closed"):
        assert detail in kept


def test_scenario_6_remembers_the_customer_in_another_program(scenarios: list[str]) -> None:
    known, now = scenarios[6].split("And now:\n")
    assert "What is known already:\n- Bob ordered a blue kettle\n- He prefers mail to calls" in known
    assert now.splitlines() == [
        "- Bob ordered a blue kettle",
        "- He prefers mail to calls",
        "- Bob asks whether the kettle also comes in red",
    ]

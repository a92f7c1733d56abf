"""The approval example: a payment waits across a restart, runs once if it is approved, and not at all if refused."""

from pathlib import Path

import pytest

from tests.examples.support import run_example

SCRIPT = "approval.py"


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """A database in which a payment waits, as arguments. The process that asked is gone."""
    db = ["--db", str(tmp_path / "shop.db")]
    shown = run_example(SCRIPT, "ask", *db)
    assert "wants to call pay(euros=250, to='Alice')" in shown
    assert "stop reason: approval; payments made: none" in shown
    return db


def test_another_process_sees_what_waits_and_approves_it_once(asked: list[str]) -> None:
    assert run_example(SCRIPT, "list", *asked) == "Waits: pay(euros=250, to='Alice')\n"
    shown = run_example(SCRIPT, "approve", *asked)
    assert shown.startswith("Waits: pay(euros=250, to='Alice')\nAgent: Paid 250 euros to Alice.\n")
    assert "stop reason: complete; payments made: ['250 euros to Alice']" in shown
    # Approving again finds nothing, and pays nothing.
    assert run_example(SCRIPT, "approve", *asked) == "Nothing waits.\n"
    assert Path(asked[1]).with_suffix(".payments").read_text() == "250 euros to Alice\n"


def test_a_refusal_reaches_the_model_with_its_reason_and_nothing_is_paid(asked: list[str]) -> None:
    shown = run_example(SCRIPT, "refuse", *asked, "--reason", "the invoice is not ours")
    assert "the call was not approved: the invoice is not ours" in shown
    assert "payments made: none" in shown
    assert not Path(asked[1]).with_suffix(".payments").exists()


def test_without_arguments_it_shows_both_ends(tmp_path: Path) -> None:
    shown = run_example(SCRIPT, TMPDIR=str(tmp_path))
    assert shown.count("wants to call pay(euros=250, to='Alice')") == 2
    assert shown.count("payments made: ['250 euros to Alice']") == 1
    assert "$ python examples/approval.py refuse --reason 'the invoice is not ours'" in shown
    assert list(tmp_path.iterdir()) == []

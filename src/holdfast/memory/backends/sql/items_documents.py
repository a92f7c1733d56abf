"""Metadata in the database's own JSON, so that it can leave out by itself what a filter would not pass.

Beside the text that comes back byte for byte, and only narrowing: what the database lets through is tested again. A
document is left out where JSON would not tell the same: typed values, and characters that databases refuse.
"""

from typing import Any

from holdfast.core import codec
from holdfast.memory.filters import Condition, Filter

_EXACT = 2**53  # whole numbers up to here are the same as int and as float, in every notation


def document(metadata: str) -> str | None:
    """What of the metadata the database may look into; all or nothing."""
    return None if "\\u" in metadata or codec.has_mark(metadata) else metadata


def contained(condition: Filter) -> dict[str, Any] | None:
    """What the document of an item must contain if it has one and passes the filter; ``None`` tells nothing."""
    wanted: dict[str, Any] = {}
    for test in condition.conditions:
        if test.source == "metadata" and test.op == "$eq" and _tells(test):
            _merge(wanted, test)
    return wanted or None


def _tells(test: Condition) -> bool:
    operand = test.operand
    if isinstance(operand, int | float) and not isinstance(operand, bool) and not abs(operand) < _EXACT:
        return False
    if operand is not None and not isinstance(operand, bool | int | float | str):
        return False
    return document(codec.dumps([*test.path, operand])) is not None


def _merge(wanted: dict[str, Any], test: Condition) -> None:
    """One more test; of two about the same place the second is left to the test of the items."""
    *above, key = test.path
    within: Any = wanted
    for step in above:
        within = within.setdefault(step, {})
        if not isinstance(within, dict):
            return
    within.setdefault(key, test.operand)

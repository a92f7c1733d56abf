"""The difference between two checkpoints: pure."""

from collections.abc import Sequence
from typing import Any

from holdfast.core import codec
from holdfast.core.state import LOGGED_FIELDS, AgentState
from holdfast.memory.records import Checkpoint, CheckpointDiff, FieldChange, ListChange


def diff_checkpoints(before: Checkpoint, after: Checkpoint) -> CheckpointDiff:
    """What must change in ``before`` to get ``after``."""
    fields: dict[str, FieldChange] = {}
    lists: dict[str, ListChange] = {}
    for name in AgentState.model_fields:
        old, new = getattr(before.state, name), getattr(after.state, name)
        if name in LOGGED_FIELDS:
            common = common_length(old, new)
            if common < len(old) or common < len(new):
                lists[name] = ListChange(common, tuple(old[common:]), tuple(new[common:]))
        elif not (old is new or codec.same(old, new)):
            fields[name] = FieldChange(old, new)
    return CheckpointDiff(before.info, after.info, fields, lists)


def common_length(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many leading elements are equal."""
    shorter = min(len(first), len(second))
    for index in range(shorter):
        if first[index] is not second[index] and first[index] != second[index]:
            return index
    return shorter

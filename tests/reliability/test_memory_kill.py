"""An agent with a memory that is killed at any moment: each turn is learned, and learned once."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.memory_jobs import MemoryChildren

FIRST, SECOND = "I like figs.", "I live in Oslo."


@pytest.fixture(scope="module")
def agents() -> Iterator[MemoryChildren]:
    with MemoryChildren() as server:
        yield server


def complaints(found: dict[str, Any], kind: str) -> list[str]:
    """All that is wrong, if the thread has both prompts."""
    wrong = [f"the thread has {found['thread']}"] if len(found["thread"]) != 4 else []
    if kind == "memory":
        if found["episodes"] != found["thread"]:
            wrong.append(f"episodes: {found['episodes']}")
        if sorted(found["stored"]) != sorted(found["thread"]):
            wrong.append(f"stored: {found['stored']}")
        if found["facts"] != ["likes figs 1", "lives_in Oslo 1"]:
            wrong.append(f"facts: {found['facts']}")
    elif found["memories"] != ["The user likes figs.", "The user lives in Oslo."]:
        wrong.append(f"memories: {found['memories']}")
    return wrong


class Killing:
    """A conversation of two turns, the second of which is killed."""

    def __init__(self, agents: MemoryChildren, folder: Path, kind: str) -> None:
        self._agents, self._folder, self._kind = agents, folder, kind
        self._base = folder / "base.db"
        agents.must("talk", path=str(self._base), kind=kind, prompt=FIRST)
        lines = agents.must("talk", path=self._copy("whole"), kind=kind, prompt=SECOND)
        self.statements = int(lines[-1].split()[1])
        """How many there are in a turn, up to the end of what is learned from it."""
        self.killed = 0

    def _copy(self, name: str) -> str:
        return str(shutil.copy(self._base, self._folder / f"{name}.db"))

    def before(self, statement: int) -> list[str]:
        """What is wrong after a kill there, and two more processes."""
        path, resumes = self._copy(str(statement)), statement % 2 == 0
        outcome = self._agents.run("talk", path=path, kind=self._kind, prompt=SECOND, die_at=statement)
        self.killed += outcome.killed
        (line,) = self._agents.must("go_on", path=path, kind=self._kind, prompt=SECOND, resumes=resumes)
        return [
            f"before statement {statement}: {found}" for found in complaints(json.loads(line), self._kind)
        ]


@pytest.mark.parametrize("kind", ["memory", "manager"])
def test_a_turn_is_learned_once_wherever_its_process_was_killed(
    kind: str, agents: MemoryChildren, tmp_path: Path
) -> None:
    killing = Killing(agents, tmp_path, kind)
    places = range(killing.statements, 0, -max(1, killing.statements // 14))
    assert [found for place in places for found in killing.before(place)] == []
    assert killing.killed >= 10


@pytest.mark.long
@pytest.mark.parametrize("kind", ["memory", "manager"])
def test_a_turn_is_learned_once_whichever_statement_its_process_was_killed_before(
    kind: str, agents: MemoryChildren, tmp_path: Path
) -> None:
    killing = Killing(agents, tmp_path, kind)
    places = range(killing.statements, 0, -1)
    assert [found for place in places for found in killing.before(place)] == []
    assert killing.killed >= killing.statements - 5


def test_memories_follow_a_rewound_thread_wherever_the_process_was_killed(
    agents: MemoryChildren, tmp_path: Path
) -> None:
    base = tmp_path / "base.db"
    for prompt in (FIRST, SECOND):
        agents.must("talk", path=str(base), kind="memory", prompt=prompt)
    whole = str(shutil.copy(base, tmp_path / "whole.db"))
    statements = int(agents.must("rewind", path=whole)[-1].split()[1])
    seen: set[str] = set()
    for number in range(statements, 0, -max(1, statements // 14)):
        path = str(shutil.copy(base, tmp_path / f"{number}.db"))
        agents.run("rewind", path=path, die_at=number)
        (line,) = agents.must("follow_up", path=path)
        found = json.loads(line)
        seen.add(_one_of(found))
    assert seen == {"rewound", "not rewound"}


def _one_of(found: dict[str, Any]) -> str:
    """The thread and its memories are either what they were, or both rewound."""
    assert found["episodes"] == found["thread"], found
    assert sorted(found["stored"]) == sorted(found["thread"]), found
    if len(found["thread"]) == 4:
        assert found["facts"] == ["likes figs 1", "lives_in Oslo 1"], found
        return "not rewound"
    assert found["facts"] == ["likes figs 1"], found
    return "rewound"

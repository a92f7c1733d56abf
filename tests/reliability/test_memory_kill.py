"""An agent with a memory that is killed at any moment: each turn is learned, and learned once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reliability.memory_jobs import MemoryChildren
from tests.reliability.places import SERVERS, Place, Places, everywhere

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

    def __init__(self, agents: MemoryChildren, places: Places, kind: str) -> None:
        self._agents, self._places, self._kind = agents, places, kind
        self._base = places.new("base")
        self._first(self._base)
        lines = agents.must("talk", url=self._copy("whole"), kind=kind, prompt=SECOND)
        self.statements = int(lines[-1].split()[1])
        """How many there are in a turn, up to the end of what is learned from it."""
        self.killed = 0

    def _first(self, place: Place) -> None:
        self._agents.must("talk", url=place.url, kind=self._kind, prompt=FIRST)

    def _copy(self, name: str) -> str:
        return self._places.like(self._base, name, self._first).url

    def before(self, statement: int) -> list[str]:
        """What is wrong after a kill there, and two more processes."""
        url, resumes = self._copy(str(statement)), statement % 2 == 0
        outcome = self._agents.run("talk", url=url, kind=self._kind, prompt=SECOND, die_at=statement)
        self.killed += outcome.killed
        (line,) = self._agents.must("go_on", url=url, kind=self._kind, prompt=SECOND, resumes=resumes)
        return [
            f"before statement {statement}: {found}" for found in complaints(json.loads(line), self._kind)
        ]


@pytest.mark.parametrize(
    ("kind", "places", "kills"),
    [
        *(("memory", "sqlite", 14), ("manager", "sqlite", 14)),
        # A sample of what is run for longer.
        *(("memory", "postgres", 3), ("memory", "mariadb", 3), ("memory", "oracle", 2)),
    ],
    indirect=["places"],
)
def test_a_turn_is_learned_once_wherever_its_process_was_killed(
    kind: str, agents: MemoryChildren, places: Places, kills: int
) -> None:
    killing = Killing(agents, places, kind)
    stops = range(killing.statements, 0, -max(1, killing.statements // kills))
    assert [found for stop in stops for found in killing.before(stop)] == []
    assert killing.killed >= 0.7 * kills


@pytest.mark.long
@everywhere()
@pytest.mark.parametrize("kind", ["memory", "manager"])
def test_a_turn_is_learned_once_whichever_statement_its_process_was_killed_before(
    kind: str, agents: MemoryChildren, places: Places
) -> None:
    killing = Killing(agents, places, kind)
    stops = range(killing.statements, 0, -1)
    assert [found for stop in stops for found in killing.before(stop)] == []
    assert killing.killed >= killing.statements - 5


@pytest.mark.parametrize(
    ("places", "kills"),
    [
        ("sqlite", 14),
        ("postgres", 3),
        ("mariadb", 3),
        *(pytest.param(server, 14, marks=pytest.mark.long) for server in SERVERS),
    ],
    indirect=["places"],
)
def test_memories_follow_a_rewound_thread_wherever_the_process_was_killed(
    agents: MemoryChildren, places: Places, kills: int
) -> None:
    def talk(place: Place) -> None:
        for prompt in (FIRST, SECOND):
            agents.must("talk", url=place.url, kind="memory", prompt=prompt)

    base = places.new("base")
    talk(base)
    whole = places.like(base, "whole", talk)
    statements = int(agents.must("rewind", url=whole.url)[-1].split()[1])
    seen: set[str] = set()
    for number in range(statements, 0, -max(1, statements // kills)):
        place = places.like(base, str(number), talk)
        agents.run("rewind", url=place.url, die_at=number)
        (line,) = agents.must("follow_up", url=place.url)
        seen.add(_one_of(json.loads(line)))
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

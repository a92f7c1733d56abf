"""An agent that is killed at any moment of a turn goes on with it in a new process: nothing runs twice that must not,
nothing that finished is lost, and the conversation is one that a provider takes."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from holdfast.agent.progress import unfinished
from tests.reliability.agent_checks import Effects, asked, badly_told, is_unsafe, left_over, load, results
from tests.reliability.agent_jobs import AgentChildren, plan_of
from tests.reliability.children import Outcome
from tests.reliability.places import SERVERS, Place, Places, everywhere

# The five places that matter most, by what a killed child came to last.
NAMED: Final[Mapping[str, Sequence[str]]] = {
    "before the intent": ["before intent"],
    "after the intent, before the tool": ["after intent"],
    "inside the tool": ["in tool, before effect", "in tool, after effect"],
    "after the tool, before its result": ["before result"],
    "between result and save": ["after result", "before tools"],
}
OTHERS: Final = [
    *("before prompt", "after prompt", "before takeover", "after takeover"),
    *("after tools", "before answer", "after answer"),
]
WHOLE: Final = ["await", "events", "blocking"]
PARTLY: Final = ["events tool_start", "events tool_complete"]  # the consumer leaves there
MOST_PROCESSES: Final = 8  # that don't come to the end, of one conversation


class Conversation:
    """One thread in one place, which one process after the other works on, and what they told."""

    def __init__(self, children: AgentChildren, place: Place, dice: random.Random, **options: Any) -> None:
        self._children = children
        self._place = place
        self._dice = dice
        self._options = options
        self._recorded: set[str] = set()
        self._exposed: set[str] = set()
        self._told: list[str] = []
        self.prompts = [f"ten things for {place.path.stem}"]

    def request(self) -> str | None:
        """What a new process does: resume, the same prompt again, or another one; ``None`` is to resume."""
        state = load(self._place)
        stored = asked(state)
        if state is None or not unfinished(state):
            return None if stored == self.prompts else self.prompts[len(stored)]
        if stored != self.prompts or (len(stored) == 1 and self._dice.random() < 0.25):
            self.prompts[1:] = [f"one things for {self._place.path.stem}+"]
            return self._dice.choice([None, self.prompts[1]])
        return self._dice.choice([None, stored[-1]])

    def process(self, **options: Any) -> Outcome:
        """One process: killed as the options say, or it comes to its end."""
        given = {"requests": [self.request()], "how": self._dice.choice(WHOLE), **self._options, **options}
        outcome = self._children.run("work", **self._place.arguments, **given)
        assert outcome.failure is None, outcome.failure
        assert "conflict" not in outcome.lines, "nobody else was there"
        self._take_in(outcome)
        return outcome

    def _take_in(self, outcome: Outcome) -> None:
        intended, recorded = set(_lines(outcome, "intended")), set(_lines(outcome, "recorded"))
        self._recorded |= recorded
        for result in map(json.loads, _lines(outcome, "result")):
            state = load(self._place)
            if state is None or result["message"] != state.messages[-1].content:
                self._told.append(f"the run's answer is not the thread's: {result['message']}")
        if outcome.killed:
            self._exposed |= intended - recorded
        if (
            _last_place(outcome) == "before tools"
            and intended & Effects(self._place).receipts.keys() - self._recorded
        ):
            self._told.append("a step is over and a result of it was not stored")

    def finish(self) -> None:
        """Let processes work undisturbed until every prompt is answered."""
        for _ in range(3):
            self.process()
            state = load(self._place)
            if state is not None and not unfinished(state) and asked(state) == self.prompts:
                return
        pytest.fail("three undisturbed processes did not come to the end")

    # ── what must hold at the end ─────────────────────────────────────────────────────────────────

    def complaints(self) -> list[str]:
        """All that is wrong with the conversation now. Empty: all is well."""
        state, effects = load(self._place), Effects(self._place)
        assert state is not None
        if asked(state) != self.prompts:
            self._told.append(f"asked {self.prompts}, stored {asked(state)}")
        told = dict(results(state.messages))
        planned = {key for prompt in self.prompts for step in plan_of(prompt) for _, key in step}
        if told.keys() != planned:
            self._told.append(f"calls that are missing, or not of the plan: {told.keys() ^ planned}")
        self._told += [
            f"{start.key} ran and is in no message" for start in effects.starts if start.key not in told
        ]
        for key, content in told.items():
            self._told += self._result(key, content, effects)
        return [*self._told, *badly_told(state.messages), *effects.repeated(), *left_over(self._place)]

    def _result(self, key: str, content: str, effects: Effects) -> Iterator[str]:
        if content in effects.real_results(key):
            return
        if "unknown" not in content:
            yield f"{key} has a made-up result: {content}"
        elif key in self._recorded:
            yield f"{key} had a stored result and is told as unknown"
        elif not is_unsafe(key):
            yield f"{key} may run again and is told as unknown"
        elif key not in self._exposed:
            yield f"{key} was not in flight in a killed process and is told as unknown"


def _lines(outcome: Outcome, word: str) -> list[str]:
    """What follows that word in the lines that begin with it."""
    return [line.removeprefix(f"{word} ") for line in outcome.lines if line.startswith(f"{word} ")]


# ── chaos ─────────────────────────────────────────────────────────────────────────────────────────


class Chaos:
    """Conversations whose processes are killed, and where."""

    def __init__(self, children: AgentChildren, places: Places, dice: random.Random) -> None:
        self._children = children
        self._places = places
        self._dice = dice
        self.places: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.left = 0
        self.conversations = 0

    @property
    def named(self) -> dict[str, int]:
        return {name: sum(self.places[place] for place in places) for name, places in NAMED.items()}

    def converse(self) -> None:
        """One conversation: killed a few times, brought to its end, and looked at."""
        place = self._places.new(f"c{self.conversations}")
        self.conversations += 1
        conversation = Conversation(
            self._children, place, self._dice, checkpoint_every_n_iterations=self._dice.choice([1, 1, 3])
        )
        for _ in range(MOST_PROCESSES):
            way, kill = self._kill()
            outcome = conversation.process(how=self._dice.choice(WHOLE + PARTLY), **kill)
            if _lines(outcome, "result"):
                break
            if outcome.killed:
                self.places[_last_place(outcome)] += 1
                self.ways[way] += 1
            else:
                self.left += 1
        conversation.finish()
        assert conversation.complaints() == []

    def _kill(self) -> tuple[str, dict[str, Any]]:
        """At any moment, before any statement of the database, or at a place that is due."""
        chance = self._dice.random()
        if chance < 0.2:
            return "by the clock", {"kill_after": self._dice.uniform(0.0, 0.08)}
        if chance < 0.35:
            return "before a statement", {"die_at_statement": self._dice.randint(1, 250)}
        if chance < 0.5:
            return "at a place", {"die_at": [self._dice.choice(OTHERS), 1]}
        places = [place for named in NAMED.values() for place in named]
        least = min(self.places[place] for place in places)
        due = [place for place in places if self.places[place] <= least + 1]
        return "at a place", {"die_at": [self._dice.choice(due), self._dice.choice([1, 1, 1, 2, 2, 3])]}

    def show(self) -> None:
        ways = ", ".join(f"{count} {way}" for way, count in self.ways.most_common())
        print(
            f"\n{self.places.total()} kills in {self.conversations} conversations ({ways}; {self.left} runs left):"
        )
        for name, count in self.named.items():
            print(f"  {count:4}  {name}")
        print("by what the process came to last:")
        for place, count in self.places.most_common():
            print(f"  {count:4}  {place}")


def _last_place(outcome: Outcome) -> str:
    return (_lines(outcome, "at") or ["no place"])[-1]


@pytest.fixture(scope="module")
def agents() -> Iterator[AgentChildren]:
    with AgentChildren() as server:
        yield server


@pytest.fixture
def chaos(agents: AgentChildren, places: Places) -> Iterator[Chaos]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    found = Chaos(agents, places, random.Random(seed))
    yield found
    found.show()


@pytest.mark.parametrize(
    ("places", "kills", "each"),
    [
        ("sqlite", 120, 10),
        *(("postgres", 12, 1), ("mariadb", 12, 1), ("oracle", 6, 0)),  # a sample of what is run for longer
        *(pytest.param(server, 120, 10, marks=pytest.mark.long) for server in SERVERS),
    ],
    indirect=["places"],
)
def test_a_ten_tool_turn_that_is_killed_anywhere_comes_to_its_end_and_runs_nothing_twice(
    chaos: Chaos, kills: int, each: int
) -> None:
    while chaos.conversations < 200 and (chaos.places.total() < kills or min(chaos.named.values()) < each):
        chaos.converse()
    assert chaos.places.total() >= kills
    assert min(chaos.named.values()) >= each


@pytest.mark.long
def test_a_ten_tool_turn_that_is_killed_two_thousand_times_runs_nothing_twice(chaos: Chaos) -> None:
    while chaos.places.total() < 2000:
        chaos.converse()
    assert min(chaos.named.values()) >= 150


# ── the test can fail ─────────────────────────────────────────────────────────────────────────────


@everywhere(short="sqlite")
@pytest.mark.parametrize(
    ("broken", "place", "complaint"),
    [
        ("calls in flight are run again", "in tool, after effect", "ran 2 times"),
        ("calls in flight are run again", "before result", "ran 2 times"),
        ("the intent is not stored", "in tool, after effect", "ran 2 times"),
        ("stored results are forgotten", "before tools", "had a stored result"),
        ("results are not stored at once", "before tools", "was not stored"),
        ("the same prompt is asked again", "after intent", "stored ['ten things for c', 'ten things for c']"),
    ],
)
def test_an_agent_that_is_broken_is_found_out(
    broken: str, place: str, complaint: str, agents: AgentChildren, places: Places
) -> None:
    conversation = Conversation(agents, places.new("c"), random.Random(1), broken=broken)
    assert conversation.process(die_at=[place, 2]).killed
    assert not conversation.process(requests=conversation.prompts).killed
    assert any(complaint in found for found in conversation.complaints()), conversation.complaints()

"""Live processes on one thread: one wins, the others are told, and no tool runs twice."""

import asyncio
import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.agent import Agent, AgentResult
from holdfast.core.messages import Message, ToolCall
from holdfast.testing import FunctionModel
from holdfast.tools import tool
from tests.reliability.agent_checks import Effects, asked, badly_told, left_over, load, results
from tests.reliability.agent_jobs import THREAD, AgentChildren
from tests.reliability.children import Outcome
from tests.reliability.places import SERVERS, Place, Places, everywhere

Script = Mapping[str, Sequence[Sequence[str]]]

A: Final = "two things for a"
B: Final = "two things for b"
SAFE: Final = "safe things for a"
BEFORE: Final = "one things for before"
IMPATIENT: Final = {"conflict_patience": 0.3}  # with a process that is dead, and doesn't come back


@pytest.fixture(scope="module")
def agents() -> Iterator[AgentChildren]:
    with AgentChildren() as server:
        yield server


class Meeting:
    """Two processes on one thread, which wait for each other at places of their runs."""

    def __init__(self, agents: AgentChildren, place: Place, folder: Path) -> None:
        self._agents = agents
        self.place = place
        self.ready, self.go = str(folder / "ready"), str(folder / "go")
        os.mkfifo(self.ready)
        os.mkfifo(self.go)

    def at(self, meeting: str) -> tuple[Script, Script]:
        """The scripts of both, by what the first is about to do when the second comes."""
        first: Script = {meeting: [["tell", self.ready], ["wait", self.go]]}
        if meeting == "before prompt":  # both have read the thread; neither has written
            return first, {meeting: [["wait", self.ready], ["tell", self.go]]}
        if meeting in ("before intent", "before answer"):  # both have asked the model what comes next
            return first, {"start": [["wait", self.ready]], meeting: [["tell", self.go]]}
        return first, {"start": [["wait", self.ready]], "after takeover": [["tell", self.go]]}

    def until_the_end(self, place: str) -> tuple[Script, Script]:
        """The first stays there until the second is done with everything."""
        first: Script = {place: [["tell", self.ready], ["wait", self.go]]}
        return first, {"start": [["wait", self.ready]], "end": [["tell", self.go]]}

    def work(
        self,
        scripts: tuple[Script, Script],
        requests: Sequence[str | None] = (A, B),
        how: Sequence[str] = ("await", "await"),
        **options: Any,
    ) -> tuple[Outcome, Outcome]:
        first, second = self._agents.run_all(
            "work",
            [
                {**self.place.arguments, "requests": [request], "script": script, "how": way, **options}
                for request, script, way in zip(requests, scripts, how, strict=True)
            ],
        )
        assert first.failure is None, first.failure
        assert second.failure is None, second.failure
        assert not first.killed
        assert not second.killed, "it was waited for in vain"
        return first, second

    def prepare(self) -> None:
        """An answered turn, so that the thread exists."""
        self._agents.must("work", **self.place.arguments, requests=[BEFORE])

    def assert_sound(self, *thread_ids: str) -> None:
        for thread_id in thread_ids or (THREAD,):
            state = load(self.place, thread_id)
            assert state is not None
            assert list(badly_told(state.messages)) == []
        assert list(left_over(self.place)) == []


@pytest.fixture
def meeting(agents: AgentChildren, places: Places, tmp_path: Path) -> Meeting:
    return Meeting(agents, places.new("agents"), tmp_path)


def _result(outcome: Outcome) -> dict[str, Any] | None:
    """What the process's run gave back, or ``None`` for `Conflict`."""
    told = _results(outcome)
    assert len(told) + outcome.lines.count("conflict") == 1
    return told[0] if told else None


def _results(outcome: Outcome) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("result ")) for line in outcome.lines if line.startswith("result ")]


MEETINGS: Final = [
    *("before prompt", "before intent", "before answer", "in tool, before effect", "in tool, after effect"),
    *("before result", "after result", "before tools"),
]


def _is_short(where: str, place: str) -> bool:
    """Whether it is run each time: on a file all of them, on a server one of each kind, on the double one."""
    return where == "sqlite" or place in ("before prompt", "in tool, after effect")[where == "oracle" :]


@pytest.mark.parametrize(
    ("places", "place"),
    [
        *((where, place) for where in ("sqlite", *SERVERS) for place in MEETINGS if _is_short(where, place)),
        *(
            pytest.param(server, place, marks=pytest.mark.long)
            for server in SERVERS
            for place in MEETINGS
            if not _is_short(server, place)
        ),
    ],
    indirect=["places"],
)
@pytest.mark.parametrize("new", [True, False], ids=["new thread", "old thread"])
def test_of_two_processes_that_meet_one_goes_on_and_the_other_gets_conflict(
    place: str, new: bool, meeting: Meeting
) -> None:
    if not new:
        meeting.prepare()
    outcomes = meeting.work(meeting.at(place))
    winners = [found for found in map(_result, outcomes) if found is not None]
    assert len(winners) == 1
    assert winners[0]["message"].startswith(winners[0]["prompt"])
    state = load(meeting.place)
    stored = asked(state)[0 if new else 1 :]
    assert stored in ([A], [B], [A, B])
    assert stored[-1] == winners[0]["prompt"]
    assert list(Effects(meeting.place).repeated()) == []
    meeting.assert_sound()


@everywhere(short="sqlite")
@pytest.mark.parametrize("place", MEETINGS)
@pytest.mark.parametrize("new", [True, False], ids=["new thread", "old thread"])
def test_with_retry_both_prompts_are_answered_once_and_each_process_gets_its_own_answer(
    place: str, new: bool, meeting: Meeting
) -> None:
    if not new:
        meeting.prepare()
    outcomes = meeting.work(meeting.at(place), on_conflict="retry")
    for prompt, result in zip((A, B), map(_result, outcomes), strict=True):
        assert result is not None
        assert result["message"].startswith(f"{prompt}: ")
        assert (result["iterations"], result["tool_calls"]) == (3, 2)
    assert sorted(asked(load(meeting.place))[0 if new else 1 :]) == [A, B]
    assert list(Effects(meeting.place).repeated()) == []
    meeting.assert_sound()


@everywhere(short="sqlite")
@pytest.mark.parametrize("place", ["before intent", "in tool, after effect", "before tools", "before answer"])
def test_with_retry_a_process_whose_turn_others_finished_gets_the_answer_to_its_own_prompt(
    place: str, meeting: Meeting
) -> None:
    outcomes = meeting.work(meeting.until_the_end(place), on_conflict="retry")
    for prompt, result in zip((A, B), map(_result, outcomes), strict=True):
        assert result is not None
        assert result["message"].startswith(f"{prompt}: ")
        assert (result["iterations"], result["tool_calls"]) == (3, 2)
    assert asked(load(meeting.place)) == [A, B]
    assert list(Effects(meeting.place).repeated()) == []
    meeting.assert_sound()


@everywhere()
def test_with_retry_a_turn_that_others_took_to_its_limit_is_told_as_such(meeting: Meeting) -> None:
    scripts = meeting.until_the_end("in tool, before effect")
    outcomes = meeting.work(scripts, (A, "no things for b"), on_conflict="retry", max_iterations=1)
    first, second = map(_result, outcomes)
    assert first is not None
    assert second is not None
    assert (first["message"], first["stop_reason"], first["tool_calls"]) == ("", "max_iterations", 1)
    assert second["message"] == "no things for b: 0 done, 0 unknown"
    assert first["run_id"] != second["run_id"]


def test_with_retry_a_prompt_that_was_rewound_away_is_asked_on_the_new_head(tmp_path: Path) -> None:
    path = f"sqlite:{tmp_path / 'rewound.db'}"
    targets: list[str] = []

    @tool
    async def work() -> str:
        """The first time, somebody puts the thread back to where it was before the prompt."""
        if targets:
            async with Agent(model=model, checkpointer=path) as other:
                await other.rewind(THREAD, targets.pop())
        return "done"

    def reply(messages: Sequence[Message], tools: object = None, **options: Any) -> Message:
        if messages[-1].content == "work":
            return Message.assistant(tool_calls=[ToolCall(name="work")])
        return Message.assistant(f"answer {len(messages)}")

    async def scenario() -> AgentResult:
        async with Agent(model=model, tools=[work], checkpointer=path, on_conflict="retry") as agent:
            before = await agent.run("hello", thread_id=THREAD)
            targets.append(str(before.checkpoint_id))
            return await agent.run("work", thread_id=THREAD)

    model = FunctionModel(reply)
    result = asyncio.run(scenario())
    assert result.message == "answer 5"
    assert asked(result.state) == ["hello", "work"]
    assert result.metrics.tool_calls == 1
    assert targets == []


@everywhere()
def test_with_retry_two_processes_that_ask_the_same_at_once_are_both_answered(meeting: Meeting) -> None:
    meeting.prepare()
    prompt = "no things for both"
    outcomes = meeting.work(meeting.at("before prompt"), (prompt, prompt), on_conflict="retry")
    told = [found for found in map(_result, outcomes) if found is not None]
    assert [result["message"] for result in told] == [f"{prompt}: 0 done, 0 unknown"] * 2
    assert told[0]["run_id"] != told[1]["run_id"]
    assert asked(load(meeting.place)) == [BEFORE, prompt, prompt]


@everywhere(short="sqlite")
@pytest.mark.parametrize("new", [True, False], ids=["new thread", "old thread"])
def test_with_fork_both_finish_and_the_loser_does_so_on_a_thread_of_its_own(
    new: bool, meeting: Meeting
) -> None:
    if not new:
        meeting.prepare()
    outcomes = meeting.work(meeting.at("before prompt"), on_conflict="fork")
    told = {result["prompt"]: result for result in map(_result, outcomes) if result is not None}
    assert set(told) == {A, B}
    threads = {prompt: result["thread_id"] for prompt, result in told.items()}
    assert len(set(threads.values())) == 2
    assert THREAD in threads.values()
    for prompt, thread_id in threads.items():
        assert asked(load(meeting.place, thread_id)) == [*([] if new else [BEFORE]), prompt]
        assert told[prompt]["message"] == f"{prompt}: 2 done, 0 unknown"
    effects = Effects(meeting.place)
    assert list(effects.repeated()) == []
    for start in effects.starts:  # a tool is told the thread that it works for
        wanted = next((thread for prompt, thread in threads.items() if start.key[0] == prompt[-1]), THREAD)
        assert start.thread_id == (THREAD if start.key.startswith("before") else wanted)
    meeting.assert_sound(*threads.values())


@everywhere()
def test_with_fork_a_turn_that_was_taken_over_goes_on_elsewhere_with_its_real_results(
    meeting: Meeting,
) -> None:
    outcomes = meeting.work(meeting.until_the_end("in tool, before effect"), (A, None), on_conflict="fork")
    first, second = map(_result, outcomes)
    assert first is not None
    assert second is not None
    assert second["thread_id"] == THREAD
    assert second["message"] == f"{A}: 1 done, 1 unknown"
    assert first["thread_id"] != THREAD
    assert first["message"] == f"{A}: 2 done, 0 unknown"
    effects = Effects(meeting.place)
    again = [start.thread_id for start in effects.starts if start.key == "a/1 pay"]
    assert sorted(again) == sorted([THREAD, first["thread_id"]])
    meeting.assert_sound(THREAD, first["thread_id"])


# ── resume while the first still runs ─────────────────────────────────────────────────────────────


@everywhere()
@pytest.mark.parametrize("how", ["await", "events", "blocking"])
def test_resume_takes_over_from_a_process_inside_a_tool_which_starts_no_further_one(
    how: str, meeting: Meeting
) -> None:
    outcomes = meeting.work(meeting.until_the_end("in tool, before effect"), (A, None), (how, how))
    first, second = map(_result, outcomes)
    assert first is None
    assert second is not None
    assert second["message"] == f"{A}: 1 done, 1 unknown"
    state = load(meeting.place)
    assert state is not None
    told = dict(results(state.messages))
    assert "unknown" in told["a/0 send"]
    effects = Effects(meeting.place)
    assert told["a/1 pay"] in effects.real_results("a/1 pay")
    assert len(effects.real_results("a/0 send")) == 1, "the first was inside and came to its end"
    one, two = effects.starts
    assert (one.key, two.key) == ("a/0 send", "a/1 pay")
    assert one.process != two.process
    meeting.assert_sound()


@everywhere(short="sqlite")
@pytest.mark.parametrize(
    ("prompt", "answer"),
    [(A, "1 done, 1 unknown"), (SAFE, "2 done, 0 unknown")],
    ids=["unsafe", "idempotent"],
)
def test_the_first_gets_conflict_while_the_second_is_still_at_it(
    prompt: str, answer: str, meeting: Meeting, tmp_path: Path
) -> None:
    over = str(tmp_path / "over")
    os.mkfifo(over)
    first, _ = meeting.until_the_end("in tool, before effect")
    second = {"start": [["wait", meeting.ready]], "after takeover": [["tell", meeting.go], ["wait", over]]}
    outcomes = meeting.work(({**first, "end": [["tell", over]]}, second), (prompt, None))
    lost, won = map(_result, outcomes)
    assert lost is None
    assert won is not None
    assert won["message"] == f"{prompt}: {answer}"
    effects = Effects(meeting.place)
    assert list(effects.repeated()) == []
    assert [start.process for start in effects.starts if start.key == "a/1 pay"] == [
        effects.starts[-1].process
    ]
    assert effects.starts[0].process != effects.starts[-1].process
    meeting.assert_sound()


@everywhere()
def test_a_result_that_was_stored_before_the_takeover_is_kept(meeting: Meeting) -> None:
    outcomes = meeting.work(meeting.until_the_end("after result"), (A, None))
    first, second = map(_result, outcomes)
    assert first is None
    assert second is not None
    assert second["message"] == f"{A}: 2 done, 0 unknown"
    meeting.assert_sound()


@everywhere(short="sqlite")
@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ("nothing is fenced", "a/1 pay ran 2 times"),
        ("results of an overtaken run are left", "1 pending writes are left behind"),
    ],
)
def test_agents_that_are_broken_are_found_out(broken: str, complaint: str, meeting: Meeting) -> None:
    meeting.work(meeting.until_the_end("in tool, before effect"), (A, None), broken=broken)
    assert complaint in [*Effects(meeting.place).repeated(), *left_over(meeting.place)]


@everywhere(short="sqlite")
@pytest.mark.parametrize(
    ("place", "event"), [("in tool, before effect", "tool_complete"), ("after intent", "tool_start")]
)
def test_a_run_that_is_left_after_it_was_overtaken_leaves_nothing_behind(
    place: str, event: str, meeting: Meeting
) -> None:
    scripts = meeting.until_the_end(place)
    first, second = meeting.work(scripts, (A, None), (f"events {event}", "await"))
    assert "left" in first.lines
    assert _result(second) is not None
    assert list(Effects(meeting.place).repeated()) == []
    meeting.assert_sound()


# ── many ──────────────────────────────────────────────────────────────────────────────────────────


@everywhere(short="sqlite postgres")
def test_eight_processes_with_retry_have_every_prompt_answered_once(
    agents: AgentChildren, places: Places
) -> None:
    place = places.new("many")
    prompts = [[f"one things for {who}{turn}" for turn in range(3)] for who in "abcdefgh"]
    outcomes = agents.run_all(
        "work",
        [{**place.arguments, "requests": mine, "on_conflict": "retry"} for mine in prompts],
    )
    for mine, outcome in zip(prompts, outcomes, strict=True):
        assert outcome.failure is None, outcome.failure
        assert "conflict" not in outcome.lines
        told = _results(outcome)
        assert [result["message"].split(": ")[0] for result in told] == mine
    state = load(place)
    assert state is not None
    assert sorted(asked(state)) == sorted(prompt for mine in prompts for prompt in mine)
    assert list(badly_told(state.messages)) == []
    assert list(Effects(place).repeated()) == []
    assert list(left_over(place)) == []
    with place.blocking() as twin:
        assert list(twin.list_threads()) == [THREAD]


KILLED_AT: Final = [
    *("after prompt", "before intent", "after intent", "in tool, before effect", "in tool, after effect"),
    *("before result", "after result", "before tools", "before takeover", "after takeover", "before answer"),
]


@pytest.mark.parametrize(
    ("places", "rounds"),
    [
        *(("sqlite", 10), ("postgres", 1), ("mariadb", 1), ("oracle", 1)),
        *(pytest.param(server, 10, marks=pytest.mark.long) for server in SERVERS),
    ],
    indirect=["places"],
)
def test_three_processes_of_which_some_are_killed_run_nothing_twice_and_answer_each_its_own(
    agents: AgentChildren, places: Places, rounds: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for number in range(rounds):
        place = places.new(f"{number}")
        prompts = [f"ten things for {who}" for who in "abc"]
        deaths = [
            [dice.choice(KILLED_AT), dice.randint(1, 6)] if dice.random() < 0.7 else None for _ in "abc"
        ]
        policies = [dice.choice(["raise", "retry", "retry"]) for _ in "abc"]
        outcomes = agents.run_all(
            "work",
            [
                {**place.arguments, "requests": [prompt], "die_at": death, "on_conflict": policy, **IMPATIENT}
                for prompt, death, policy in zip(prompts, deaths, policies, strict=True)
            ],
        )
        for prompt, outcome in zip(prompts, outcomes, strict=True):
            assert outcome.failure is None, outcome.failure
            assert all(result["message"].startswith(f"{prompt}: ") for result in _results(outcome))
        agents.must("work", **place.arguments, requests=[None])
        state = load(place)
        assert state is not None
        assert len(set(asked(state))) == len(asked(state))
        assert list(badly_told(state.messages)) == []
        assert list(Effects(place).repeated()) == []
        assert list(place.complaints()) == []

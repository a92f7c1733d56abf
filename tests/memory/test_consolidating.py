"""Putting in order what is known: facts are found where nobody looked, said once, and nothing is lost."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core.messages import Message
from holdfast.errors import ModelUnavailable
from holdfast.memory import AgentMemory, Consolidation, Episode, Fact
from holdfast.memory.learning import LEASE_US, Learner
from holdfast.memory.store import InMemoryStore
from holdfast.models import ModelResponse, Usage
from holdfast.testing import FrozenClock, FunctionModel, ScriptedModel

ALICE = "alice"


def run(scenario: Callable[[AgentMemory, FrozenClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = FrozenClock()
        async with AgentMemory(InMemoryStore(clock=clock), clock=clock) as memory:
            await scenario(memory, clock)

    asyncio.run(main())


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


async def known(memory: AgentMemory, user_id: str | None = ALICE, **when: Any) -> list[str]:
    assert memory.facts is not None
    found = await memory.facts.query(user_id=user_id, **when)
    return sorted(f"{fact.predicate} {fact.object}" for fact in found)


async def state(memory: AgentMemory, *facts: tuple[str, str], user_id: str | None = ALICE) -> None:
    assert memory.facts is not None
    for number, (predicate, thing) in enumerate(facts):
        await memory.facts.add(Fact("user", predicate, thing), user_id=user_id, source=f"episode-{number}")


def test_facts_are_found_in_what_was_kept_without_a_mark_but_not_in_what_others_said() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await memory.remember("I live in Oslo.", user_id=ALICE)
        for speaker in ("assistant", "Bob"):
            await memory.remember(Episode(text="I live in Rome.", speaker=speaker), user_id=ALICE)
        report = await memory.consolidate(user_id=ALICE)
        assert report == Consolidation(users=1, episodes=1, facts=1)
        assert await known(memory) == ["lives_in Oslo"]
        assert await memory.consolidate(user_id=ALICE) == Consolidation(users=1)

    run(scenario)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ([("likes", "figs"), ("likes", "Fig")], ["likes figs"]),
        ([("likes", "the piano"), ("likes", "piano"), ("loves", "a piano")], ["likes the piano"]),
        ([("resides_in", "New York City"), ("lives_in", "new york city!")], ["lives_in New York City"]),
        ([("works_for", "Acme"), ("employer", "ACME")], ["works_at Acme"]),
    ],
)
def test_what_was_said_in_several_ways_is_said_in_one_and_is_surer(
    said: list[tuple[str, str]], left: list[str]
) -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await state(memory, *said)
        clock.advance(60)
        before = clock.now
        clock.advance(60)
        report = await memory.consolidate(user_id=ALICE)
        assert report.merged >= 1
        assert await known(memory) == left
        assert memory.facts is not None
        (fact,) = await memory.facts.query(user_id=ALICE)
        assert fact.sources == tuple(f"episode-{number}" for number in range(len(said)))
        assert fact.confidence > 0.9
        assert len(await known(memory, known_at=before)) >= 1
        assert (await memory.consolidate(user_id=ALICE)).merged == 0

    run(scenario)


@pytest.mark.parametrize(
    "said",
    [
        [("likes", "tea"), ("likes", "coffee")],
        [("likes", "sugar"), ("likes", "no sugar")],
        [("likes", "universe"), ("likes", "university")],
        [("likes", "C"), ("likes", "C++"), ("likes", "C#")],
        [("likes", "chess"), ("dislikes", "chess")],
        [("knows", "Bob"), ("knows", "Bob Smith")],
        [("has_pet", "Rex"), ("has_friend", "Rex")],
    ],
)
def test_what_is_not_the_same_stays_apart(said: list[tuple[str, str]]) -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await state(memory, *said)
        assert (await memory.consolidate(user_id=ALICE)).merged == 0
        assert await known(memory) == sorted(f"{predicate} {thing}" for predicate, thing in said)

    run(scenario)


def test_the_times_of_merged_facts_are_kept_and_the_change_can_be_undone() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        assert memory.facts is not None
        for predicate, city, since in (("resides_in", "Paris", 2018), ("lives_in", "Rome", 2021)):
            fact = Fact("user", predicate, city, valid_from=year(since))
            await memory.facts.add(fact, user_id=ALICE, source=city)
        assert await known(memory) == ["lives_in Rome", "resides_in Paris"]
        clock.advance(1)
        await memory.consolidate(user_id=ALICE)
        assert await known(memory) == ["lives_in Rome"]
        assert await known(memory, valid_at=year(2019)) == ["lives_in Paris"]
        history = await memory.facts.history("user", "resides_in", user_id=ALICE)
        assert [fact.object for fact in history] == ["Paris"]
        retracted = next(c for c in await memory.facts.all_changes(user_id=ALICE) if c.kind == "retract")
        assert retracted.author == "consolidation"
        await memory.facts.undo(retracted.id, user_id=ALICE)
        assert "resides_in Paris" in await known(memory)

    run(scenario)


def test_without_a_user_it_is_done_for_all_who_have_something_to_learn_from() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        for user in (ALICE, "bob", None):
            await memory.remember_all(["I live in Oslo."], user_id=user, learn=True)
        await state(memory, ("likes", "figs"), ("likes", "fig"), user_id="carol")
        report = await memory.consolidate()
        assert report == Consolidation(users=3, episodes=3, facts=3)
        assert len(await known(memory, "carol")) == 2
        assert await memory.consolidate() == Consolidation()

    run(scenario)


def test_what_somebody_else_is_at_is_told_of_and_what_fails_leaves_the_others_alone() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        def down_for_bob(messages: Any, tools: Any = None, **options: Any) -> str:
            if "Bern" in messages[-1].content:
                raise ModelUnavailable("overloaded")
            return json.dumps({"facts": [{"predicate": "lives_in", "object": "Oslo"}]})

        await memory.remember_all(["I live in Oslo."], user_id=ALICE, learn=True)
        await memory.remember_all(["I live in Bern."], user_id="bob", learn=True)
        await memory.remember_all(["I live in Rome."], user_id="carol", learn=True)
        (item,) = await memory.unlearned("carol", clock.now_us(), 10)
        await memory.claim(item, "carol", clock.now_us() + LEASE_US)
        report = await memory.consolidate(model=FunctionModel(down_for_bob))
        assert (report.users, report.episodes, report.failed, report.waiting) == (3, 1, 1, 1)
        clock.advance(LEASE_US / 1e6 + 1)
        report = await memory.consolidate()
        assert (report.users, report.episodes, report.failed, report.waiting) == (2, 2, 0, 0)

    run(scenario)


def test_a_model_finds_what_rules_do_not_and_can_only_choose_among_what_is_known() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await state(memory, ("has_pet", "Biscuit"), ("owns", "a dog called Biscuit"), ("likes", "tea"))
        assert memory.facts is not None
        await memory.facts.add(Fact("Bob", "has_pet", "Biscuit"), user_id=ALICE)
        order = [f"{f.subject} {f.predicate} {f.object}" for f in await memory.facts.query(user_id=ALICE)]
        pet, dog = order.index("user has_pet Biscuit"), order.index("user owns a dog called Biscuit")
        other = order.index("Bob has_pet Biscuit")
        same = [{"keep": pet, "drop": [dog, other]}, {"keep": 77, "drop": [0]}, {"keep": dog, "drop": [pet]}]
        answer = Message.assistant(json.dumps({"same": same}))
        model = ScriptedModel([ModelResponse(answer, Usage(40, 4))])
        report = await memory.consolidate(user_id=ALICE, model=model)
        assert (report.merged, report.usage) == (1, Usage(40, 4))
        found = await memory.facts.query(user_id=ALICE)
        assert sorted(f"{f.subject} {f.predicate} {f.object}" for f in found) == [
            "Bob has_pet Biscuit",
            "user has_pet Biscuit",
            "user likes tea",
        ]

    run(scenario)


def test_a_memory_without_facts_has_nothing_to_put_in_order() -> None:
    async def scenario() -> None:
        async with AgentMemory(InMemoryStore(), with_facts=False) as memory:
            await memory.remember("I live in Oslo.", user_id=ALICE)
            assert await memory.consolidate(user_id=ALICE) == Consolidation(users=1)

    asyncio.run(scenario())


def test_two_at_once_do_nothing_twice() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await memory.remember("I live in Oslo. I like figs.", user_id=ALICE)
        await state(memory, ("likes", "fig"), ("likes", "the fig"))
        await asyncio.gather(*(memory.consolidate(user_id=ALICE) for _ in range(3)))
        assert await known(memory) == ["likes fig", "lives_in Oslo"]
        assert await Learner(memory).catch_up(ALICE) == 0

    run(scenario)

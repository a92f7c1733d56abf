"""Finding facts in the background: nothing that was said is left out, whoever dies, and nothing is done twice."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.errors import InvalidInput, ModelUnavailable
from holdfast.memory import AgentMemory, Episode
from holdfast.memory.learning import LEASE_US, Learner
from holdfast.memory.store import InMemoryStore
from holdfast.testing import FrozenClock, FunctionModel

NOBODY: str | None = None


def run(scenario: Callable[[AgentMemory, FrozenClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = FrozenClock()
        async with AgentMemory(InMemoryStore(clock=clock), clock=clock) as memory:
            await scenario(memory, clock)

    asyncio.run(main())


async def say(memory: AgentMemory, text: str, user_id: str | None) -> Episode:
    (kept,) = await memory.remember_all([Episode(text=text, speaker="user")], user_id=user_id, learn=True)
    return kept


async def known(memory: AgentMemory, user_id: str | None) -> list[str]:
    return sorted(fact.object for fact in (await memory.profile(user_id=user_id)).facts)


async def waiting(memory: AgentMemory) -> list[str | None]:
    return sorted([user async for user in memory.waiting_users()], key=str)


def test_what_killed_processes_left_of_any_user_is_found_without_looking_at_the_others() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        for user, city in (("alice", "Oslo"), ("u:alice", "Bern"), ("anonymous", "Rome"), (NOBODY, "Lima")):
            await say(memory, f"I live in {city}.", user)
        await memory.remember("I live in Paris.", user_id="bob")
        assert await waiting(memory) == sorted(["alice", "u:alice", "anonymous", None], key=str)
        assert await Learner(memory).catch_up_all() == 4
        assert [await known(memory, user) for user in ("alice", "u:alice", "anonymous", None, "bob")] == [
            ["Oslo"],
            ["Bern"],
            ["Rome"],
            ["Lima"],
            [],
        ]
        assert await waiting(memory) == []
        assert await Learner(memory).catch_up_all() == 0

    run(scenario)


def test_what_a_killed_process_held_is_taken_up_when_its_lease_has_run_out_and_not_before() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        asked = asyncio.Event()

        async def hangs(*_: Any, **__: Any) -> str:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")

        await say(memory, "I live in Oslo.", "alice")
        dead = asyncio.create_task(Learner(memory, FunctionModel(hangs)).catch_up("alice"))
        await asyncio.wait_for(asked.wait(), 30)
        clock.advance(LEASE_US / 1e6 - 1)
        assert await Learner(memory).catch_up_all() == 0
        assert await waiting(memory) == ["alice"], "its entry stays while somebody holds the episode"
        clock.advance(2)
        assert await Learner(memory).catch_up_all() == 1
        assert await known(memory, "alice") == ["Oslo"]
        dead.cancel()
        await asyncio.wait([dead])

    run(scenario)


def test_one_who_was_too_slow_does_not_take_away_what_another_one_learned() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(*_: Any, **__: Any) -> str:
            asked.set()
            await go_on.wait()
            return '{"facts": []}'

        await say(memory, "I live in Oslo.", "alice")
        slow = asyncio.create_task(Learner(memory, FunctionModel(slowly)).catch_up("alice"))
        await asyncio.wait_for(asked.wait(), 30)
        clock.advance(LEASE_US / 1e6 + 1)
        assert await Learner(memory).catch_up_all() == 1
        go_on.set()
        assert await slow == 0
        assert await known(memory, "alice") == ["Oslo"]

    run(scenario)


def test_after_an_outage_of_the_model_nobody_waits_for_a_lease() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        def down(*_: Any, **__: Any) -> str:
            raise ModelUnavailable("overloaded")

        await say(memory, "I live in Oslo.", "alice")
        with pytest.raises(ModelUnavailable):
            await Learner(memory, FunctionModel(down)).catch_up_all()
        assert await Learner(memory).catch_up_all() == 1
        assert await known(memory, "alice") == ["Oslo"]

    run(scenario)


def test_a_user_is_on_the_list_as_long_as_there_is_something_to_find() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        learner = Learner(memory)
        for number in range(3):
            await say(memory, f"I like thing {number}.", "alice")
            learner.learn_soon("alice")
        assert await waiting(memory) == ["alice"]
        await learner.drain()
        assert await waiting(memory) == []
        assert len(await known(memory, "alice")) == 3

    run(scenario)


def test_a_user_who_is_forgotten_is_on_no_list() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await say(memory, "I live in Oslo.", "alice")
        assert (await memory.forget(user_id="alice")).complete
        assert [item async for item in memory.store.iterate(("memory",), prefix=True)] == []

    run(scenario)


def test_one_who_says_something_while_the_list_is_cleared_stays_on_it() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        whole = memory._waiting.remove

        async def slowly(user_id: str | None) -> None:
            await say(memory, "I live in Oslo.", user_id)
            await whole(user_id)

        memory._waiting.remove = slowly  # type: ignore[method-assign]  # the moment in between
        await memory.none_waiting("alice")
        assert await waiting(memory) == ["alice"]

    run(scenario)


def test_an_episode_with_an_id_is_kept_once_and_takes_one_place() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        said = [Episode(text=text, session_id="s", id=text) for text in ("a", "b", "c")]
        await memory.remember_all(said[:1])
        first, second, third = await memory.remember_all(said, learn=[True, True, False])
        assert [first.ordinal, second.ordinal, third.ordinal] == [0, 1, 2]
        both = await asyncio.gather(*(memory.remember_all(said) for _ in range(4)))
        assert both == [[first, second, third]] * 4
        assert await memory.session_messages("s") == [first, second, third]
        assert await memory.session_messages("s", 2) == [second, third]
        with pytest.raises(InvalidInput, match="one for each, got 1 for 3"):
            await memory.remember_all(said, learn=[True])

    run(scenario)


def test_places_that_stayed_empty_hide_nothing_of_a_session() -> None:
    async def scenario(memory: AgentMemory, clock: FrozenClock) -> None:
        await memory.remember_all([Episode(text=f"line {n}", session_id="s") for n in range(3)])
        for _ in range(5):
            await memory._episodes._reserve("s", None, 1)  # as a process that was killed then leaves it
        await memory.remember(Episode(text="line 3", session_id="s"))
        assert [e.text for e in await memory.session_messages("s", 3)] == ["line 1", "line 2", "line 3"]

    run(scenario)

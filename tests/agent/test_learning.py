"""No turn is lost to the memory: what one run could not give it, the next run gives it, once."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.agent import MemoryEvent
from holdfast.agent.progress import debts
from holdfast.core.messages import Message
from holdfast.errors import Unavailable
from holdfast.memory import AgentMemory, Episode
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.memory.manager import LLMMemoryManager, Memory
from holdfast.memory.store import InMemoryStore
from holdfast.testing import ScriptedModel
from tests.agent.support import calls, collect


class Flaky(AgentMemory):
    """Out of reach while ``down``."""

    down = False

    async def remember_all(self, *args: Any, **options: Any) -> list[Episode]:
        if self.down:
            raise Unavailable("no answer")
        return await super().remember_all(*args, **options)


async def said(memory: AgentMemory, thread_id: str = "t", user_id: str | None = None) -> list[str]:
    return [episode.text for episode in await memory.session_messages(thread_id, user_id=user_id)]


def agent_of(
    replies: Sequence[Any], threads: MemoryCheckpointer, memory: AgentMemory, **options: Any
) -> Agent:
    return Agent(model=ScriptedModel(list(replies)), checkpointer=threads, memory=memory, **options)


async def test_turns_of_an_outage_are_learned_by_a_later_run_in_their_order() -> None:
    threads, memory = MemoryCheckpointer(), Flaky(InMemoryStore())
    memory.down = True
    for number in (1, 2):
        async with agent_of([f"answer {number}"], threads, memory) as agent:
            await agent.run(f"I like thing {number}.", thread_id="t")
    assert await said(memory) == []
    memory.down = False
    async with agent_of(["answer 3"], threads, memory) as agent:
        await agent.run("I like thing 3.", thread_id="t")
    expected = [text for n in (1, 2, 3) for text in (f"I like thing {n}.", f"answer {n}")]
    assert await said(memory) == expected
    facts = (await memory.profile(user_id=None)).facts
    assert sorted(fact.object for fact in facts) == ["thing 1", "thing 2", "thing 3"]


async def test_resuming_a_thread_at_rest_learns_what_was_not() -> None:
    threads, memory = MemoryCheckpointer(), Flaky(InMemoryStore())
    memory.down = True
    agent = agent_of(["ok"], threads, memory)
    await agent.run("I live in Oslo.", thread_id="t", user_id="alice")
    memory.down = False
    result = await agent.resume("t", user_id="alice")
    assert result.message == "ok"
    assert await said(memory, user_id="alice") == ["I live in Oslo.", "ok"]
    await agent.aclose()


@pytest.mark.parametrize("warm", [True, False])
async def test_what_was_learned_is_not_learned_again_and_what_was_forgotten_stays_so(warm: bool) -> None:
    threads, memory = MemoryCheckpointer(), AgentMemory(InMemoryStore())
    first = agent_of(["a", "b"], threads, memory)
    await first.run("My word is zyxwomble.", thread_id="t", user_id="alice")
    await first.aclose()
    assert (await memory.forget(user_id="alice")).complete
    second = first if warm else agent_of(["b"], threads, memory)
    await second.run("Hello again.", thread_id="t", user_id="alice")
    await second.aclose()
    assert await said(memory, user_id="alice") == ["Hello again.", "b"]


async def test_a_manager_is_asked_once_about_each_turn_also_by_another_process() -> None:
    asked: list[list[str | None]] = []

    def extract(messages: list[Message]) -> list[Memory]:
        asked.append([message.content for message in messages])
        if len(asked) == 2:
            raise Unavailable("no answer")
        return []

    threads, manager = MemoryCheckpointer(), LLMMemoryManager(InMemoryStore(), extract_fn=extract)
    for number in range(4):
        agent = Agent(model=ScriptedModel([f"a{number}"]), checkpointer=threads, memory_manager=manager)
        await agent.run(f"p{number}", thread_id="t")
    # The second failed: it is asked about again before the third.
    assert asked == [["p0", "a0"], ["p1", "a1"], ["p1", "a1"], ["p2", "a2"], ["p3", "a3"]]


async def test_what_was_said_in_a_turn_that_another_prompt_declined_is_learned() -> None:
    @tool(requires_approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    threads, memory = MemoryCheckpointer(), AgentMemory(InMemoryStore())
    script = [calls(("pay", {"euros": 5}), text="Shall I?"), "Fine."]
    async with agent_of(script, threads, memory, tools=[pay]) as agent:
        waiting = await agent.run("I live in Lima. Pay the rent.", thread_id="t")
        assert waiting.stop_reason == "approval"
        assert await said(memory) == []
        await agent.run("I like chess.", thread_id="t")
    assert await said(memory) == ["I live in Lima. Pay the rent.", "Shall I?", "I like chess.", "Fine."]
    assert {fact.object for fact in (await memory.profile(user_id=None)).facts} == {"Lima", "chess"}


async def test_a_turn_that_is_taken_back_is_not_learned_but_what_was_owed_before_it_is() -> None:
    threads, memory = MemoryCheckpointer(), Flaky(InMemoryStore())
    memory.down = True
    agent = agent_of(["one", RuntimeError("refused"), "three"], threads, memory)
    await agent.run("first", thread_id="t")
    with pytest.raises(RuntimeError):
        await agent.run("poison", thread_id="t")
    await agent.abandon("t")
    memory.down = False
    await agent.run("third", thread_id="t")
    await agent.aclose()
    assert await said(memory) == ["first", "one", "third", "three"]


async def test_rewinding_a_thread_learns_first_what_it_is_about_to_lose() -> None:
    threads, memory = MemoryCheckpointer(), Flaky(InMemoryStore())
    agent = agent_of(["one", "two", "three"], threads, memory)
    first = await agent.run("first", thread_id="t")
    memory.down = True
    await agent.run("second", thread_id="t")
    memory.down = False
    assert first.checkpoint_id is not None
    await agent.rewind("t", first.checkpoint_id)
    await agent.run("third", thread_id="t")
    await agent.aclose()
    assert await said(memory) == ["first", "one", "second", "two", "third", "three"]


async def test_an_agent_without_a_memory_leaves_what_is_owed_and_adds_nothing() -> None:
    threads, memory = MemoryCheckpointer(), Flaky(InMemoryStore())
    memory.down = True
    await agent_of(["one"], threads, memory).run("first", thread_id="t")
    memory.down = False
    await Agent(model=ScriptedModel(["two"]), checkpointer=threads).run("in private", thread_id="t")
    async with agent_of(["three"], threads, memory) as agent:
        await agent.run("third", thread_id="t")
    assert await said(memory) == ["first", "one", "third", "three"]


async def test_a_turn_with_a_memory_makes_no_save_more_and_leaves_no_note_behind() -> None:
    threads, memory = MemoryCheckpointer(), AgentMemory(InMemoryStore())
    agent = agent_of(["one", "two"], threads, memory)
    for prompt in ("first", "second"):
        events = await collect(agent.run(prompt, thread_id="t"))
        assert sum(event.event_type == "checkpoint" for event in events) == 2
    await agent.aclose()
    steps = [info.metadata["step"] for info in await threads.history("t")]
    assert steps == ["answer", "prompt", "answer", "prompt"]
    assert (await threads.stats()).pending_writes == 1  # at the head alone: the next save takes it away
    state = await threads.load("t")
    assert state is not None
    assert [(debt.first, debt.end) for debt in debts(state, None)] == [(2, 4)]


async def test_a_late_turn_is_dated_when_it_was_said_and_events_tell_of_it() -> None:
    threads, memory = MemoryCheckpointer(), Flaky(InMemoryStore())
    memory.down = True
    first = await agent_of(["one"], threads, memory).run("first", thread_id="t")
    memory.down = False
    async with agent_of(["two"], threads, memory) as agent:
        events = await collect(agent.run("second", thread_id="t"))
    told = [event.action for event in events if isinstance(event, MemoryEvent)]
    assert told == ["learned", "recalled", "learned"]
    late = (await memory.session_messages("t"))[0]
    assert late.occurred_at == first.state.updated_at
    assert late.checkpoint == first.checkpoint_id

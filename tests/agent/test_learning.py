"""No turn is lost to the memory: what one run could not give it, the next run gives it, once."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import Agent, tool
from holdfast.agent import AgentResult, MemoryEvent
from holdfast.agent.progress import debts
from holdfast.core.messages import Message
from holdfast.errors import ModelUnavailable, Unavailable
from holdfast.memory import AgentMemory, Episode
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.memory.learning import LearningReport
from holdfast.memory.manager import LLMMemoryManager, Memory
from holdfast.memory.store import InMemoryStore
from holdfast.models import ModelResponse, Usage
from holdfast.testing import FunctionModel, ScriptedModel
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


# ── what it takes ─────────────────────────────────────────────────────────────────────────────────


def counted(said: str, prompt: int, completion: int) -> ModelResponse:
    return ModelResponse(Message.assistant(said), Usage(prompt, completion))


FACTS = json.dumps({"facts": [{"predicate": "likes", "object": "chess"}]})
CHANGES = json.dumps({"changes": [{"action": "add", "content": "The user likes chess."}]})


async def test_tokens_of_a_memory_manager_are_in_the_metrics_of_the_turn_and_beside_its_own() -> None:
    keeper = ScriptedModel([counted("nonsense", 100, 10), counted(CHANGES, 120, 20)])
    agent = Agent(
        model=ScriptedModel([counted("ok", 7, 3), counted("ok", 7, 3)]),
        memory_manager=LLMMemoryManager(InMemoryStore(), model=keeper),
    )
    first = await agent.run("I like chess.", thread_id="t")
    assert (first.metrics.total_tokens, first.metrics.memory_tokens) == (10, 250)
    second = await agent.run("Thanks!", thread_id="t")
    assert (second.metrics.total_tokens, second.metrics.memory_tokens) == (10, 0)


async def _result(agent: Agent, text: str) -> AgentResult:
    return await agent.run(text)


async def test_tokens_of_two_turns_at_once_are_not_mixed_up() -> None:
    async def keep(messages: Any, tools: Any = None, **options: Any) -> ModelResponse:
        await asyncio.sleep(0)
        tokens = 100 if "chess" in (messages[-1].content or "") else 1
        return counted(CHANGES, tokens, 0)

    manager = LLMMemoryManager(InMemoryStore(), model=FunctionModel(keep))
    agent = Agent(model=ScriptedModel(["ok"] * 6), memory_manager=manager)
    texts = ["I like chess.", "I like go."] * 3
    results = await asyncio.gather(*(_result(agent, text) for text in texts))
    assert [result.metrics.memory_tokens for result in results] == [100, 1] * 3


async def test_what_finding_facts_in_the_background_takes_can_be_read_off_the_agent() -> None:
    class Vendor(FunctionModel):
        provider = "openai"

    failing = [False]

    def answer(messages: Any, tools: Any = None, **options: Any) -> ModelResponse:
        if "response_schema" not in options:
            return counted("ok", 7, 3)
        if failing[0]:
            raise ModelUnavailable("overloaded")
        return counted(FACTS, 50, 5)

    memory = AgentMemory(InMemoryStore())
    agent = Agent(model=Vendor(answer), memory=memory)
    assert agent.learning == LearningReport()
    result = await agent.run("I like chess.", user_id="alice")
    assert result.metrics.memory_tokens == 0
    await agent.aclose()
    assert agent.learning == LearningReport(episodes=1, facts=1, calls=1, usage=Usage(50, 5))
    failing[0] = True
    await agent.run("I like go.", user_id="alice")
    await agent.aclose()
    report = agent.learning
    assert (report.failed, report.episodes, report.usage.total_tokens, report.waiting) == (1, 1, 55, 0)
    assert Agent(model=ScriptedModel([])).learning == LearningReport()


async def test_learning_is_traced_with_its_tokens() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    keeper = ScriptedModel([counted(CHANGES, 120, 20)])
    agent = Agent(
        model=ScriptedModel(["ok"]),
        memory_manager=LLMMemoryManager(InMemoryStore(), model=keeper),
        telemetry=provider,
    )
    await agent.run("I like chess.", thread_id="t", user_id="alice")
    with_facts = Agent(model=ScriptedModel(["ok"]), memory="inmemory", telemetry=provider)
    await with_facts.run("I like chess. I like go.", thread_id="u", user_id="bob")
    await with_facts.aclose()
    spans = [span for span in exporter.get_finished_spans() if span.name == "memory learn"]
    told = [dict(span.attributes or {}) for span in spans]
    assert [(t["user.id"], t["gen_ai.usage.input_tokens"], t["holdfast.memory.found"]) for t in told] == [
        ("alice", 120, 1),
        ("bob", 0, 0),
        ("bob", 0, 2),
    ]
    assert told[0]["gen_ai.conversation.id"] == "t"
    assert all(span.parent is not None for span in spans)

"""The parts of an agent work together: what the model sees, and what is traced."""

from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import Agent, tool
from holdfast.agent import SummarizingConversation, WindowConversation
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.testing import FunctionModel, ScriptedModel
from tests.agent.support import calls, collect, roles


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_a_window_changes_what_the_model_sees_and_not_what_is_stored() -> None:
    model = FunctionModel(lambda messages, tools=None: f"saw {len(messages)}")
    agent = Agent(
        "Help.",
        model=model,
        checkpointer=MemoryCheckpointer(),
        conversation_manager=WindowConversation(max_messages=3),
    )
    said = [(await agent.run(f"prompt {number}", thread_id="t")).message for number in range(4)]
    assert said == ["saw 2", "saw 4", "saw 4", "saw 4"]
    assert roles(await agent.get_state("t")) == ["user", "assistant"] * 4


async def test_a_summary_takes_the_place_of_what_is_old_and_is_not_stored() -> None:
    summariser = FunctionModel(lambda messages, tools=None, **options: "They counted.")
    model = FunctionModel(lambda messages, tools=None: "ok")
    agent = Agent(
        model=model,
        checkpointer=MemoryCheckpointer(),
        conversation_manager=SummarizingConversation(max_messages=4, keep_last=2, model=summariser),
    )
    for number in range(5):
        await agent.run(f"prompt {number}", thread_id="t")
    seen = " ".join(message.content or "" for message in model.calls[-1].messages)
    assert "They counted." in seen
    assert "prompt 0" not in seen
    assert "prompt 4" in seen
    state = await agent.get_state("t")
    assert state is not None
    assert len(state.messages) == 10
    assert not any("They counted." in (message.content or "") for message in state.messages)


def _traced() -> tuple[TracerProvider, InMemorySpanExporter]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


async def test_a_turn_its_model_calls_its_tools_and_its_checkpoints_are_one_tree_of_spans() -> None:
    provider, exporter = _traced()

    @tool
    def nested() -> str:
        """Trace something of its own."""
        with provider.get_tracer("mine").start_as_current_span("mine"):
            return "ok"

    model = ScriptedModel([calls(("nested", {}), ("add", {"a": 1, "b": 2})), "done"])
    agent = Agent(
        model=model,
        tools=[nested, add],
        agent_id="helper",
        checkpointer=MemoryCheckpointer(),
        telemetry=provider,
    )
    await collect(agent.run("go", thread_id="t"))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {
        "invoke_agent helper",
        f"chat {model.name}",
        "execute_tool nested",
        "execute_tool add",
        "checkpoint",
        "mine",
    }
    turn = spans["invoke_agent helper"]
    for name, span in spans.items():
        if name not in ("invoke_agent helper", "mine"):
            assert _parent(span) == turn.context.span_id, name
    assert _parent(spans["mine"]) == spans["execute_tool nested"].context.span_id
    assert turn.attributes is not None
    assert (turn.attributes["gen_ai.conversation.id"], turn.attributes["holdfast.stop_reason"]) == (
        "t",
        "complete",
    )
    steps = [
        (span.attributes or {})["holdfast.checkpoint.step"]
        for span in exporter.get_finished_spans()
        if span.name == "checkpoint"
    ]
    assert steps == ["prompt", "intent", "tools", "answer"]


def _parent(span: Any) -> int | None:
    return None if span.parent is None else int(span.parent.span_id)


async def test_leaving_early_is_no_failure_of_the_turn() -> None:
    provider, exporter = _traced()
    agent = Agent(model=ScriptedModel(["One two three."]), telemetry=provider)
    run = agent.run("go")
    async for event in run:
        if event.type == "model_chunk":
            break
    await run.aclose()
    turn = next(span for span in exporter.get_finished_spans() if span.name == "invoke_agent agent")
    assert turn.status.is_ok or turn.status.is_unset
    assert "error.type" not in (turn.attributes or {})


async def test_no_words_of_the_conversation_are_traced_unless_asked_for() -> None:
    provider, exporter = _traced()
    model = ScriptedModel([calls(("add", {"a": 41, "b": 1})), "The answer is forty-two."])
    await Agent("Be exact.", model=model, tools=[add], telemetry=provider).run("Sum secretword up.")
    written = " ".join(span.to_json() for span in exporter.get_finished_spans())
    assert "secretword" not in written
    assert "forty-two" not in written

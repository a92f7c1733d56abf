"""Spans follow the GenAI conventions, nest as the work does, and hold no text of the conversation unless asked to."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, user_attributes
from opentelemetry.semconv.attributes import error_attributes

from holdfast.agent import Agent
from holdfast.agent.result import AgentResult, ExecutionMetrics
from holdfast.agent.telemetry import NoTelemetry, Telemetry, resolve_telemetry
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.errors import InvalidInput, MissingExtra
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec, Usage
from holdfast.testing import FunctionModel, ScriptedModel
from holdfast.tools import tool

SECRET = "the secret is 42"


class Spans:
    """A provider of its own, and what it exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def __getitem__(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return span

    def attributes(self, name: str) -> dict[str, Any]:
        return dict(self[name].attributes or {})

    def parent(self, name: str) -> str | None:
        parent = self[name].parent
        if parent is None:
            return None
        finished = self.exporter.get_finished_spans()
        return next(span.name for span in finished if span.context.span_id == parent.span_id)


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


class SomeModel:
    provider = "openai"
    name = "gpt-4.1-mini"

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        raise NotImplementedError

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        raise NotImplementedError


class Nameless(SomeModel):
    provider = ""
    name = ""


CALL = ToolCall(id="c1", name="look", arguments={"text": SECRET})
RESPONSE = ModelResponse(
    Message.assistant(SECRET, [CALL]),
    Usage(10, 5, 4),
    "tool_calls",
    model="gpt-4.1-mini-2025",
    response_id="r1",
)
RESULT = AgentResult(
    SECRET,
    AgentState(agent_id="a"),
    "complete",
    ExecutionMetrics(2, 1, 0, 20, 10),
    thread_id="t1",
    run_id="run",
)


def take_turn(telemetry: Telemetry) -> None:
    with telemetry.turn("helper", "t1", "u1", "run") as turn:
        for _ in range(2):
            with telemetry.model_call(SomeModel(), turn, messages=[Message.user(SECRET)]) as model:
                model.finish(RESPONSE)
        with telemetry.tool_call(CALL, turn) as ran:
            ran.result(ToolResult(tool_call_id="c1", name="look", content=SECRET))
        with telemetry.checkpoint("tools", turn):
            pass
        turn.result(RESULT)


def test_a_turn_is_told_by_the_conventions(spans: Spans) -> None:
    take_turn(Telemetry(spans.provider))
    assert spans.attributes("invoke_agent helper") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "helper",
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": "t1",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1-mini",
        "gen_ai.response.model": "gpt-4.1-mini-2025",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "user.id": "u1",
        "holdfast.run.id": "run",
        "holdfast.stop_reason": "complete",
        "holdfast.iterations": 2,
        "holdfast.tool_calls": 1,
        "holdfast.tool_errors": 0,
    }
    assert spans["invoke_agent helper"].kind is trace.SpanKind.INTERNAL
    assert spans["invoke_agent helper"].status.status_code is trace.StatusCode.UNSET


def test_a_model_call_is_told_by_the_conventions(spans: Spans) -> None:
    telemetry = Telemetry(spans.provider)
    with telemetry.turn("helper", "t1") as turn, telemetry.model_call(SomeModel(), turn) as model:
        model.finish(RESPONSE)
    assert spans.attributes("chat gpt-4.1-mini") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1-mini",
        "gen_ai.conversation.id": "t1",
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": "gpt-4.1-mini-2025",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert spans["chat gpt-4.1-mini"].kind is trace.SpanKind.CLIENT
    assert spans.parent("chat gpt-4.1-mini") == "invoke_agent helper"


def test_a_model_that_says_nothing_of_itself_is_named_by_its_class(spans: Spans) -> None:
    with Telemetry(spans.provider).model_call(Nameless()):
        pass
    assert spans.attributes("chat")["gen_ai.provider.name"] == "Nameless"


def test_tool_calls_and_checkpoints_are_children_of_the_turn(spans: Spans) -> None:
    take_turn(Telemetry(spans.provider))
    assert spans.attributes("execute_tool look") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "t1",
    }
    assert spans.attributes("checkpoint") == {
        "holdfast.checkpoint.step": "tools",
        "gen_ai.conversation.id": "t1",
    }
    assert spans.parent("execute_tool look") == spans.parent("checkpoint") == "invoke_agent helper"


def test_every_attribute_is_one_of_the_installed_conventions(spans: Spans) -> None:
    take_turn(Telemetry(spans.provider, capture_content=True))
    known = {
        value
        for module in (gen_ai_attributes, user_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper()
    }
    used = {name for span in spans.exporter.get_finished_spans() for name in span.attributes or {}}
    assert {name for name in used if not name.startswith("holdfast.")} <= known
    operations = {value.value for value in vars(gen_ai_attributes)["GenAiOperationNameValues"]}
    assert {"invoke_agent", "chat", "execute_tool"} <= operations


def test_no_text_of_the_conversation_is_told_unless_asked_for(spans: Spans) -> None:
    telemetry = Telemetry(spans.provider)
    take_turn(telemetry)
    with pytest.raises(ValueError, match=SECRET), telemetry.turn("failing"):
        raise ValueError(SECRET)
    with telemetry.tool_call(CALL) as ran:
        ran.result(ToolResult(tool_call_id="c1", name="look", error=f"ValueError: {SECRET}"))
    told = [span.to_json() for span in spans.exporter.get_finished_spans()]
    assert len(told) == 7
    assert not [text for text in told if SECRET in text]


def test_content_is_told_in_the_form_of_the_conventions_if_asked_for(spans: Spans) -> None:
    telemetry = Telemetry(spans.provider, capture_content=True)
    with telemetry.turn("helper") as turn:
        asked = [
            Message.user("hi"),
            Message.tool(ToolResult(tool_call_id="c0", name="look", content="seen")),
        ]
        with telemetry.model_call(SomeModel(), turn, messages=asked) as model:
            model.finish(RESPONSE)
        with telemetry.tool_call(CALL, turn) as ran:
            ran.result(ToolResult(tool_call_id="c1", name="look", content="seen"))
        turn.result(RESULT)
    chat = spans.attributes("chat gpt-4.1-mini")
    assert json.loads(chat["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "seen"}]},
    ]
    assert json.loads(chat["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": SECRET},
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"text": SECRET}},
            ],
            "finish_reason": "tool_calls",
        }
    ]
    ran_attributes = spans.attributes("execute_tool look")
    assert json.loads(ran_attributes["gen_ai.tool.call.arguments"]) == {"text": SECRET}
    assert ran_attributes["gen_ai.tool.call.result"] == "seen"
    assert SECRET in spans.attributes("invoke_agent helper")["gen_ai.output.messages"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("ValueError: no such city", "ValueError"),
        ("KeyError", "KeyError"),
        ("timed out after 2 s; its effect is unknown", "timeout"),
        ("invalid arguments: city: this argument is missing", "invalid_arguments"),
        ("the arguments are not a JSON object (they are null): null", "invalid_arguments"),
        ("there is no tool 'x'", "_OTHER"),
    ],
)
def test_a_failed_tool_is_a_failed_span(spans: Spans, error: str, kind: str) -> None:
    with Telemetry(spans.provider).tool_call(CALL) as ran:
        ran.result(ToolResult(tool_call_id="c1", name="look", error=error))
    assert spans["execute_tool look"].status.status_code is trace.StatusCode.ERROR
    assert spans.attributes("execute_tool look")["error.type"] == kind


def test_an_exception_fails_the_span_and_goes_on(spans: Spans) -> None:
    telemetry = Telemetry(spans.provider)
    with pytest.raises(InvalidInput), telemetry.turn("helper"):
        raise InvalidInput("bad")
    assert spans.attributes("invoke_agent helper")["error.type"] == "holdfast.core.errors.InvalidInput"
    assert spans["invoke_agent helper"].status.status_code is trace.StatusCode.ERROR


def test_a_consumer_that_leaves_early_is_no_error(spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        run = Agent(model=ScriptedModel(["One two three."]), telemetry=spans.provider).run("go")
        async for event in run:
            if event.type == "model_chunk":
                break
        # Closed by another task: a context of its own, as when a loop closes what was left.
        await asyncio.create_task(run.aclose())
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(main())
    assert spans.parent("chat scripted") == "invoke_agent agent"
    assert spans["invoke_agent agent"].status.status_code is trace.StatusCode.UNSET
    # It would say so of a span that is detached in another context.
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_between_two_events_the_consumers_own_span_is_current(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("user")

    async def main() -> None:
        with tracer.start_as_current_span("mine") as mine:
            async for _ in Agent(model=ScriptedModel(["ok"]), telemetry=spans.provider).run("go"):
                assert trace.get_current_span() is mine

    asyncio.run(main())
    assert spans.parent("invoke_agent agent") == "mine"


def test_what_a_models_sdk_traces_is_part_of_the_model_call(spans: Spans) -> None:
    def answer(messages: object, tools: object = None) -> str:
        spans.provider.get_tracer("sdk").start_span("POST").end()
        return "ok"

    asyncio.run(_turn(Agent(model=FunctionModel(answer), telemetry=spans.provider)))
    assert spans.parent("POST") == "chat answer"


async def _turn(agent: Agent) -> None:
    await agent.run("go")


def test_spans_of_the_users_own_nest_in_their_tool_in_parallel_tasks_and_threads(spans: Spans) -> None:
    telemetry = Telemetry(spans.provider)
    tracer = spans.provider.get_tracer("user")

    @tool
    def in_thread(name: str) -> None:
        with tracer.start_as_current_span(f"inside {name}"):
            pass

    @tool
    async def in_task(name: str) -> None:
        with tracer.start_as_current_span(f"inside {name}"):
            await asyncio.sleep(0)

    async def main() -> None:
        with telemetry.turn("helper") as turn:

            async def run(call: ToolCall) -> None:
                with telemetry.tool_call(call, turn) as ran:
                    ran.result(await (in_thread if call.arguments["name"] < "c" else in_task).run(call))

            await asyncio.gather(*(run(ToolCall(name=f"tool-{n}", arguments={"name": n})) for n in "abcd"))

    asyncio.run(main())
    for name in "abcd":
        assert spans.parent(f"inside {name}") == f"execute_tool tool-{name}"
        assert spans.parent(f"execute_tool tool-{name}") == "invoke_agent helper"


def test_what_a_driver_traces_is_part_of_the_checkpoint(spans: Spans) -> None:
    telemetry = Telemetry(spans.provider)
    with telemetry.turn("helper") as turn, telemetry.checkpoint("intent", turn):
        spans.provider.get_tracer("driver").start_span("INSERT").end()
    assert spans.parent("INSERT") == "checkpoint"


def test_off_is_one_object_that_does_nothing() -> None:
    off = resolve_telemetry(None)
    assert isinstance(off, NoTelemetry)
    assert resolve_telemetry(False) is off
    with off.turn("a", "t", "u", "r") as turn, off.model_call(SomeModel(), turn, messages=[]) as model:
        model.finish(RESPONSE)
        with off.tool_call(CALL, turn) as ran:
            ran.result(ToolResult(tool_call_id="c1", name="look"))
        with off.checkpoint("tools", turn) as saved:
            assert saved is turn is model is ran
        turn.result(RESULT)


def test_telemetry_is_made_of_what_an_agent_is_given(spans: Spans) -> None:
    assert isinstance(resolve_telemetry(True), Telemetry)
    made = resolve_telemetry(spans.provider)
    assert isinstance(made, Telemetry)
    assert not made.capture_content
    assert resolve_telemetry(made) is made
    wrong: Any = "yes"
    with pytest.raises(InvalidInput, match="telemetry must be True, False or a TracerProvider, got str"):
        resolve_telemetry(wrong)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtra, match=r"OpenTelemetry spans needs the extra 'otel'"):
        resolve_telemetry(True)
    assert isinstance(resolve_telemetry(None), NoTelemetry)

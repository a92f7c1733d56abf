"""OpenTelemetry spans of a turn, its model calls, tool calls and checkpoints, by the GenAI semantic conventions.

A span is current while it lasts, so that what a vendor's SDK, a tool or a driver traces by itself becomes part of it.
A run that is iterated has a task of its own: its consumer's context is left alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast._version import __version__
from holdfast.agent.channel import Left
from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall, ToolResult, as_text
from holdfast.models.base import Model, ModelResponse, Usage

if TYPE_CHECKING:
    from opentelemetry import context, trace

    from holdfast.agent.result import AgentResult

__all__ = ["AnySpan", "AnyTelemetry", "NoTelemetry", "NullSpan", "Span", "Telemetry", "resolve_telemetry"]

_ERROR_NAME: Final = re.compile(r"([A-Za-z_][\w.]*)(:|$)")


class Telemetry:
    """Makes the spans of an agent. Text of the conversation is in them only with ``capture_content=True``."""

    def __init__(
        self, provider: "trace.TracerProvider | None" = None, *, capture_content: bool = False
    ) -> None:
        try:
            from opentelemetry import context, trace
        except ImportError as error:
            raise MissingExtra("OpenTelemetry spans", "otel") from error
        if provider is None:
            provider = trace.get_tracer_provider()
        if not isinstance(provider, trace.TracerProvider):
            raise InvalidInput(
                f"telemetry must be True, False or a TracerProvider, got {type(provider).__name__}"
            )
        self.capture_content = capture_content
        self._tracer = provider.get_tracer("holdfast", __version__)
        self.kinds: Final = trace.SpanKind
        self.failed: Final = trace.StatusCode.ERROR
        self.in_context: Final = trace.set_span_in_context
        self.attach: Final = context.attach
        self.detach: Final = context.detach

    def turn(
        self,
        agent_id: str,
        thread_id: str | None = None,
        user_id: str | None = None,
        run_id: str | None = None,
    ) -> "TurnSpan":
        """A turn, as a child of what is current now."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": agent_id,
            "gen_ai.agent.name": agent_id,
            "gen_ai.conversation.id": thread_id,
            "user.id": user_id,
            "holdfast.run.id": run_id,
        }
        span = self._start(f"invoke_agent {agent_id}", None, attributes)
        return TurnSpan(self, span, thread_id)

    def model_call(
        self, model: Model, parent: "AnySpan | None" = None, *, messages: Sequence[Message] = ()
    ) -> "ModelSpan":
        """A call of the model. ``messages`` are what it is asked, for those who capture content."""
        name = _text_of(model, "name")
        provider = _text_of(model, "provider") or type(model).__name__
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": name,
        }
        kind = self.kinds.CLIENT
        span = ModelSpan(self, self._start(f"chat {name}" if name else "chat", parent, attributes, kind))
        if isinstance(parent, TurnSpan):
            span.turn = parent
            span.set(**{"gen_ai.conversation.id": parent.thread_id})
            parent.set(**{"gen_ai.provider.name": provider, "gen_ai.request.model": name})
        if self.capture_content and messages:
            span.set(**{"gen_ai.input.messages": _written(messages)})
        return span

    def tool_call(self, call: ToolCall, parent: "AnySpan | None" = None) -> "ToolSpan":
        """A call of a tool; it is current while it lasts."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": parent.thread_id if isinstance(parent, TurnSpan) else None,
        }
        if self.capture_content:
            attributes["gen_ai.tool.call.arguments"] = as_text(thaw(call.arguments))
        return ToolSpan(self, self._start(f"execute_tool {call.name}", parent, attributes), current=True)

    def checkpoint(self, step: str, parent: "AnySpan | None" = None) -> "Span":
        """A save of the thread; it is current while it lasts. ``step`` says after what."""
        attributes = {
            "holdfast.checkpoint.step": step,
            "gen_ai.conversation.id": parent.thread_id if isinstance(parent, TurnSpan) else None,
        }
        return Span(self, self._start("checkpoint", parent, attributes), current=True)

    def learning(self, user_id: str | None = None, parent: "AnySpan | None" = None) -> "LearningSpan":
        """What a memory does to learn from a turn, or from an episode of it; it is current while it lasts."""
        attributes = {
            "holdfast.memory.action": "learn",
            "user.id": user_id,
            "gen_ai.conversation.id": parent.thread_id if isinstance(parent, TurnSpan) else None,
        }
        return LearningSpan(self, self._start("memory learn", parent, attributes), current=True)

    def _start(
        self,
        name: str,
        parent: "AnySpan | None",
        attributes: Mapping[str, str | None],
        kind: "trace.SpanKind | None" = None,
    ) -> "trace.Span":
        return self._tracer.start_span(
            name,
            context=parent.as_context() if isinstance(parent, Span) else None,
            kind=kind or self.kinds.INTERNAL,
            attributes={key: value for key, value in attributes.items() if value is not None},
        )


class Span:
    """A span, ended by leaving its ``with`` block. An exception that leaves it is told by its type."""

    __slots__ = ("_current", "_otel", "_span", "_token")

    def __init__(self, telemetry: Telemetry, span: "trace.Span", *, current: bool = False) -> None:
        self._otel = telemetry
        self._span = span
        self._current = current
        self._token: Any = None

    def set(self, **attributes: Any) -> None:
        """Add attributes; those that are None are left out."""
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(name, value)

    def as_context(self) -> "context.Context":
        """A context in which this span is the current one."""
        return self._otel.in_context(self._span)

    def __enter__(self) -> Self:
        if self._current:
            self._token = self._otel.attach(self.as_context())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        if self._token is not None:
            self._otel.detach(self._token)
        if error is not None and not isinstance(error, Left | GeneratorExit):  # the consumer just had enough
            self.fail(_type_name(error), error)
        self._span.end()

    def fail(self, error_type: str, cause: object) -> None:
        """Mark it as failed. What the cause says may quote the conversation."""
        self.set(**{"error.type": error_type})
        self._span.set_status(self._otel.failed, str(cause) if self._otel.capture_content else None)


class TurnSpan(Span):
    """A turn. It sums up what its model calls used."""

    __slots__ = ("_used", "thread_id")

    def __init__(self, telemetry: Telemetry, span: "trace.Span", thread_id: str | None) -> None:
        super().__init__(telemetry, span, current=True)
        self.thread_id = thread_id
        self._used = [0, 0]

    def add(self, response: ModelResponse) -> None:
        """Count what a model call of this turn used."""
        self._used[0] += response.usage.prompt_tokens
        self._used[1] += response.usage.completion_tokens
        self.set(
            **{
                "gen_ai.response.model": response.model,
                "gen_ai.usage.input_tokens": self._used[0],
                "gen_ai.usage.output_tokens": self._used[1],
            }
        )

    def result(self, result: "AgentResult") -> None:
        """How the turn ended."""
        self.set(
            **{
                "gen_ai.conversation.id": result.thread_id,
                "holdfast.run.id": result.run_id,  # that of the turn, which an earlier run may have begun
                "holdfast.stop_reason": result.stop_reason,
                "holdfast.iterations": result.metrics.iterations,
                "holdfast.tool_calls": result.metrics.tool_calls,
                "holdfast.tool_errors": result.metrics.tool_errors,
            }
        )
        if self._otel.capture_content:
            self.set(**{"gen_ai.output.messages": _written([Message.assistant(result.message)])})


class ModelSpan(Span):
    """A call of the model."""

    __slots__ = ("turn",)

    def __init__(self, telemetry: Telemetry, span: "trace.Span") -> None:
        super().__init__(telemetry, span, current=True)
        self.turn: TurnSpan | None = None

    def finish(self, response: ModelResponse) -> None:
        """What the model answered."""
        usage = response.usage
        self.set(
            **{
                "gen_ai.response.id": response.response_id,
                "gen_ai.response.model": response.model,
                "gen_ai.response.finish_reasons": [response.finish_reason],
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
            }
        )
        if self.turn is not None:
            self.turn.add(response)
        if self._otel.capture_content:
            self.set(**{"gen_ai.output.messages": _written([response.message], response.finish_reason)})


class ToolSpan(Span):
    """A call of a tool."""

    __slots__ = ()

    def result(self, result: ToolResult) -> None:
        """What came of it. A failed tool is a failed span."""
        if result.error is not None:
            self.fail(_error_type(result.error), result.error)
        if self._otel.capture_content:
            self.set(**{"gen_ai.tool.call.result": result.error or result.content})


class LearningSpan(Span):
    """What a memory learned."""

    __slots__ = ()

    def learned(self, usage: Usage, facts: int) -> None:
        """So many tokens it took, and so many things there are to keep."""
        self.set(
            **{
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "holdfast.memory.found": facts,
            }
        )


class NullSpan:
    """What `NoTelemetry` gives: does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def finish(self, response: ModelResponse) -> None:
        pass

    def result(self, result: "AgentResult | ToolResult") -> None:
        pass

    def learned(self, usage: Usage, facts: int) -> None:
        pass


_NULL: Final = NullSpan()


class NoTelemetry:
    """The same interface as `Telemetry`, and no spans."""

    __slots__ = ()

    def turn(
        self,
        agent_id: str,
        thread_id: str | None = None,
        user_id: str | None = None,
        run_id: str | None = None,
    ) -> NullSpan:
        return _NULL

    def model_call(
        self, model: Model, parent: "AnySpan | None" = None, *, messages: Sequence[Message] = ()
    ) -> NullSpan:
        return _NULL

    def tool_call(self, call: ToolCall, parent: "AnySpan | None" = None) -> NullSpan:
        return _NULL

    def checkpoint(self, step: str, parent: "AnySpan | None" = None) -> NullSpan:
        return _NULL

    def learning(self, user_id: str | None = None, parent: "AnySpan | None" = None) -> NullSpan:
        return _NULL


AnySpan = Span | NullSpan
AnyTelemetry = Telemetry | NoTelemetry

_OFF: Final = NoTelemetry()


def resolve_telemetry(
    value: "bool | trace.TracerProvider | Telemetry | NoTelemetry | None",
) -> AnyTelemetry:
    """Telemetry by what an agent is given: None or False is none, True uses OpenTelemetry's global provider."""
    if value is None or value is False:
        return _OFF
    if isinstance(value, Telemetry | NoTelemetry):
        return value
    return Telemetry(None if value is True else value)


def _text_of(model: Model, attribute: str) -> str | None:
    value = getattr(model, attribute, None)  # ours have it; any object with the two methods is a model
    return value if isinstance(value, str) and value else None


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _error_type(text: str) -> str:
    """A tool's error as one of few words, without what it says."""
    if text.startswith("timed out"):
        return "timeout"
    if text.startswith(("invalid arguments", "the arguments are not a JSON object")):
        return "invalid_arguments"
    name = _ERROR_NAME.match(text)
    return name[1] if name else "_OTHER"


def _written(messages: Sequence[Message], finish_reason: str | None = None) -> str:
    """Messages as the conventions write them: each a role and its parts, as JSON text."""
    written: list[dict[str, Any]] = []
    for message in messages:
        entry: dict[str, Any] = {"role": message.role.value, "parts": _parts(message)}
        if finish_reason is not None:
            entry["finish_reason"] = finish_reason
        written.append(entry)
    return json.dumps(written, ensure_ascii=False, default=as_text)


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.role is Role.TOOL:
        return [{"type": "tool_call_response", "id": message.tool_call_id, "response": message.content or ""}]
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.content}] if message.content else []
    parts.extend(
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": thaw(call.arguments)}
        for call in message.tool_calls
    )
    return parts

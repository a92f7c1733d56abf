"""Messages, tools and answers in the chat format of OpenAI, which many services speak. Pure: plain dicts."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.errors import ModelError, ModelUnavailable
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.models.base import INVALID_ARGUMENTS, FinishReason, ModelResponse, ToolSpec, Usage
from holdfast.models.structured import Schema, json_schema, schema_name, strict_schema

__all__ = [
    "StreamAssembly",
    "clean_text",
    "from_wire_message",
    "from_wire_response",
    "from_wire_usage",
    "parse_arguments",
    "to_wire_arguments",
    "to_wire_choice",
    "to_wire_messages",
    "to_wire_name",
    "to_wire_options",
    "to_wire_schema",
    "to_wire_tools",
]

_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

# ------------------------------------------------------------------------------------------------- to the service


def to_wire_messages(messages: Sequence[Message], *, provider: str = "openai") -> list[dict[str, Any]]:
    """The conversation. Fields that `provider` wants back with an assistant message are in its metadata."""
    return [_to_wire_message(message, provider) for message in messages]


def _to_wire_message(message: Message, provider: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role.value, "content": clean_text(message.content or "")}
    if message.role is Role.TOOL:
        wire["tool_call_id"] = message.tool_call_id or ""
    elif message.role is Role.USER and message.name and _NAME.fullmatch(message.name):
        wire["name"] = message.name
    elif message.role is Role.ASSISTANT:
        if message.tool_calls:
            wire["content"] = wire["content"] or None
            wire["tool_calls"] = [_to_wire_call(call) for call in message.tool_calls]
        kept = message.metadata.get(provider)
        if isinstance(kept, Mapping):
            wire |= thaw(dict(kept))
    return wire


def _to_wire_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": to_wire_name(call.name), "arguments": to_wire_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def to_wire_name(name: str) -> str:
    """A called tool's name as services take it. A model may call one that does not exist, by any name; with that in
    the history, every later request would be refused."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def to_wire_arguments(arguments: Mapping[str, Any]) -> str:
    """A call's arguments as JSON. Text that was no JSON goes back as an argument: services parse the history."""
    plain = thaw(dict(arguments))
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError):  # keys and numbers that JSON doesn't have
        text = json.dumps(_json_value(plain), ensure_ascii=False, default=str)
    return clean_text(text)


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def clean_text(text: str) -> str:
    """`text` that UTF-8 can carry: halves of a surrogate pair are joined, and replaced if the other is missing.

    Models write such halves in JSON escapes; a request with one in it can't be sent.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The tools that a model may call."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": thaw(dict(tool.parameters)),
            },
        }
        for tool in tools
    ]


def to_wire_choice(choice: Any) -> Any:
    """The option ``tool_choice``: a tool's name is one that must be called; anything else goes as it is."""
    if not isinstance(choice, str) or choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def to_wire_schema(schema: Schema) -> dict[str, Any]:
    """The option ``response_schema`` as a ``response_format``, strict if the schema can be."""
    plain = json_schema(schema)
    strict = strict_schema(plain) if plain.get("type") == "object" else None
    described = {
        "name": schema_name(schema),
        "schema": plain if strict is None else strict,
        "strict": strict is not None,
    }
    return {"type": "json_schema", "json_schema": described}


def to_wire_options(options: Mapping[str, Any], tools: Sequence[ToolSpec] | None) -> dict[str, Any]:
    """A model's options as request fields, with the tools. Those that are None are left to the service."""
    wire = {name: value for name, value in options.items() if value is not None}
    schema, choice = wire.pop("response_schema", None), wire.pop("tool_choice", None)
    if schema is not None:
        wire["response_format"] = to_wire_schema(schema)
    if tools:
        wire["tools"] = to_wire_tools(tools)
        if choice is not None:  # without tools services refuse it
            wire["tool_choice"] = to_wire_choice(choice)
    return wire


# ----------------------------------------------------------------------------------------------- from the service


def parse_arguments(text: object) -> dict[str, Any]:
    """A tool call's arguments. What is not a JSON object is kept as text under `INVALID_ARGUMENTS`."""
    if text is None or text == "":
        return {}
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, Mapping):
        return dict(value)
    return {INVALID_ARGUMENTS: text if isinstance(text, str) else json.dumps(text, default=str)}


def from_wire_message(
    message: Mapping[str, Any], *, provider: str = "openai", keep: Sequence[str] = ()
) -> Message:
    """An assistant message. The fields named in `keep` go into its metadata, for `to_wire_messages` to send back."""
    calls = [
        ToolCall(
            **({"id": call["id"]} if call.get("id") else {}),
            name=str(function.get("name") or ""),
            arguments=parse_arguments(function.get("arguments")),
        )
        for call in message.get("tool_calls") or ()
        for function in [call.get("function") or {}]
    ]
    kept = {name: message[name] for name in keep if message.get(name)}
    return Message.assistant(
        _text(message.get("content")) or message.get("refusal") or None,
        calls or None,
        metadata={provider: kept} if kept else None,
    )


def from_wire_response(
    answer: Mapping[str, Any], *, provider: str = "openai", keep: Sequence[str] = ()
) -> ModelResponse:
    """A whole answer. `ModelError` if it isn't one."""
    choices = answer.get("choices")
    if not choices or not choices[0].get("message"):
        raise ModelError(f"{provider} answered without a message", provider=provider)
    wire = choices[0]["message"]
    message = from_wire_message(wire, provider=provider, keep=keep)
    return ModelResponse(
        message,
        from_wire_usage(answer.get("usage")),
        _finish_reason(choices[0].get("finish_reason"), message, wire.get("refusal")),
        answer.get("model"),
        answer.get("id"),
    )


def from_wire_usage(usage: Mapping[str, Any] | None) -> Usage:
    """Tokens of a call; what the service doesn't tell is 0."""
    given = usage or {}
    details = given.get("prompt_tokens_details") or {}
    return Usage(
        int(given.get("prompt_tokens") or 0),
        int(given.get("completion_tokens") or 0),
        int(details.get("cached_tokens") or 0),
    )


def _finish_reason(reason: Any, message: Message, refusal: Any) -> FinishReason:
    if refusal and not message.tool_calls:
        return "content_filter"
    known = _FINISH.get(str(reason), "stop")
    # Some services end with "stop" though the model called tools.
    return "tool_calls" if known == "stop" and message.tool_calls else known


def _text(content: Any) -> str:
    """Content that is text, or a list of parts with text."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


class StreamAssembly:
    """Puts a streamed answer together: `feed` each chunk, then `finish`.

    Lists under the names in `keep` are gathered in `kept`, and end in the message's metadata.
    """

    def __init__(self, provider: str = "openai", *, keep: Sequence[str] = ()) -> None:
        self.provider = provider
        self.kept: dict[str, list[Any]] = {name: [] for name in keep}
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._reason: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._model: str | None = None
        self._id: str | None = None

    def feed(self, chunk: Mapping[str, Any]) -> str:
        """Take in one chunk, and give its text."""
        self._usage = chunk.get("usage") or self._usage
        self._model = chunk.get("model") or self._model
        self._id = chunk.get("id") or self._id
        choices = chunk.get("choices")
        if not choices:  # the last one, with the usage
            return ""
        self._reason = choices[0].get("finish_reason") or self._reason
        delta = choices[0].get("delta") or {}
        for part in delta.get("tool_calls") or ():
            self._feed_call(part)
        for name, gathered in self.kept.items():
            gathered.extend(delta.get(name) or ())
        self._refusals.append(delta.get("refusal") or "")
        text = _text(delta.get("content"))
        self._texts.append(text)
        return text

    def _feed_call(self, part: Mapping[str, Any]) -> None:
        index, call_id = part.get("index"), part.get("id") or ""
        function = part.get("function") or {}
        call = self._find_call(index, call_id)
        if call is None:
            call = {"index": index, "id": call_id, "name": "", "arguments": []}
            self._calls.append(call)
        call["id"] = call["id"] or call_id
        call["name"] = call["name"] or function.get("name") or ""
        if function.get("arguments"):
            call["arguments"].append(function["arguments"])

    def _find_call(self, index: int | None, call_id: str) -> dict[str, Any] | None:
        """The call that a delta continues. Some services give each call index 0, or no index at all."""
        alike = (call for call in reversed(self._calls) if call["index"] == index)
        return next((call for call in alike if not call_id or call["id"] in ("", call_id)), None)

    def finish(self) -> ModelResponse:
        """The whole answer. `ModelUnavailable` if the stream ended before the model did."""
        if self._reason is None:
            raise ModelUnavailable(
                f"the answer of {self.provider} broke off in the middle", provider=self.provider
            )
        calls = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": _join(call["arguments"])}}
            for call in self._calls
        ]
        message = {
            "content": "".join(self._texts),
            "refusal": "".join(self._refusals),
            "tool_calls": calls,
            **self.kept,
        }
        choice = {"message": message, "finish_reason": self._reason}
        return from_wire_response(
            {"choices": [choice], "usage": self._usage, "model": self._model, "id": self._id},
            provider=self.provider,
            keep=tuple(self.kept),
        )


def _join(parts: list[Any]) -> Any:
    """The text of a call's arguments; some services send them whole, as an object."""
    return parts[0] if len(parts) == 1 else "".join(map(str, parts))

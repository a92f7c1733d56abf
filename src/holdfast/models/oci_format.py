"""Requests and answers of OCI Generative AI, in its two formats: GENERIC and COHERE. Pure: plain dicts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from holdfast.core.errors import InvalidInput, ModelError, ModelUnavailable
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.models.base import FinishReason, ModelResponse, ToolSpec, Usage
from holdfast.models.openai_format import (
    clean_text,
    from_wire_response,
    parse_arguments,
    to_wire_arguments,
    to_wire_name,
    to_wire_schema,
)
from holdfast.models.plain_schema import plain_schema
from holdfast.models.structured import json_schema

__all__ = ["Assembly", "CohereAssembly", "GenericAssembly", "cohere_request", "generic_request"]

_PYTHON_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
_COHERE_FINISH: Final[Mapping[str, FinishReason]] = {
    "COMPLETE": "stop",
    "MAX_TOKENS": "length",
    "ERROR_TOXIC": "content_filter",
    "ERROR_LIMIT": "length",
}


class Assembly(Protocol):
    """Puts an answer together, from the events of a stream or from one whole result."""

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take in an event of a stream, and give its text."""
        ...

    def whole(self, result: Mapping[str, Any]) -> ModelResponse:
        """The answer of a result that came in one piece."""
        ...

    def finish(self) -> ModelResponse:
        """The answer of the events so far. `ModelUnavailable` if the last one is missing."""
        ...


# ------------------------------------------------------------------------------------------------------- GENERIC


def generic_request(
    messages: Sequence[Message], tools: Sequence[ToolSpec] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """A request in the format of all models but Cohere's; `options` are ours, without None."""
    wire: dict[str, Any] = {"apiFormat": "GENERIC", "messages": [_generic_message(one) for one in messages]}
    if (schema := options.get("response_schema")) is not None:
        described = to_wire_schema(schema)["json_schema"]
        described["isStrict"] = described.pop("strict")
        wire["responseFormat"] = {"type": "JSON_SCHEMA", "jsonSchema": described}
    if isinstance(stop := options.get("stop"), str):
        wire["stop"] = [stop]
    elif stop:
        wire["stop"] = list(stop)
    if tools:
        wire["tools"] = [
            {
                "type": "FUNCTION",
                "name": tool.name,
                "description": tool.description,
                "parameters": plain_schema(tool.parameters),
            }
            for tool in tools
        ]
        choice = options.get("tool_choice")
        if choice in {"auto", "none", "required"}:
            wire["toolChoice"] = {"type": str(choice).upper()}
        elif choice is not None:
            wire["toolChoice"] = {"type": "FUNCTION", "name": choice}
    return wire


def _generic_message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role.value.upper()}
    if message.content or not message.tool_calls:
        wire["content"] = [{"type": "TEXT", "text": clean_text(message.content or "")}]
    if message.role is Role.TOOL:
        wire["toolCallId"] = message.tool_call_id or ""
    if message.tool_calls:
        wire["toolCalls"] = [
            {
                "id": call.id,
                "type": "FUNCTION",
                "name": to_wire_name(call.name),
                "arguments": to_wire_arguments(call.arguments),
            }
            for call in message.tool_calls
        ]
    return wire


class GenericAssembly:
    """Answers in the GENERIC format, which is OpenAI's with other names."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: list[dict[str, str]] = []
        self._slots: dict[int, dict[str, str]] = {}
        self._reason: str | None = None
        self._usage: Mapping[str, Any] | None = None

    def feed(self, event: Mapping[str, Any]) -> str:
        message = event.get("message") or {}
        text = _text(message.get("content"))
        self._texts.append(text)
        for place, part in enumerate(message.get("toolCalls") or ()):
            self._feed_call(place, part)
        self._reason = event.get("finishReason") or self._reason
        self._usage = event.get("usage") or self._usage
        return text

    def _feed_call(self, place: int, part: Mapping[str, Any]) -> None:
        """Some models send a call in pieces, the first of which has the id; some send it whole, even without one."""
        call, call_id = self._slots.get(place), part.get("id") or ""
        if (
            call is not None
            and call_id in ("", call["id"])
            and not (part.get("name") and _is_json(call["arguments"]))
        ):
            call["arguments"] += part.get("arguments") or ""
            return
        call = {"id": call_id, "name": part.get("name") or "", "arguments": part.get("arguments") or ""}
        self._slots[place] = call
        self._calls.append(call)

    def whole(self, result: Mapping[str, Any]) -> ModelResponse:
        answer = result.get("chatResponse") or {}
        for choice in (answer.get("choices") or ())[:1]:
            self.feed(choice)
            self._reason = self._reason or "stop"
        self._usage = answer.get("usage") or self._usage
        if self._reason is None:
            raise ModelError("oci answered without a message", provider="oci")
        return self._response(result.get("modelId"))

    def finish(self) -> ModelResponse:
        if self._reason is None:
            raise _broken()
        return self._response(None)

    def _response(self, model: str | None) -> ModelResponse:
        calls = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in self._calls
        ]
        choice = {
            "message": {"content": "".join(self._texts), "tool_calls": calls},
            "finish_reason": str(self._reason).lower(),
        }
        return from_wire_response(
            {"choices": [choice], "usage": _snake_usage(self._usage), "model": model}, provider="oci"
        )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _snake_usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    given = usage or {}
    details = given.get("promptTokensDetails") or {}
    return {
        "prompt_tokens": given.get("promptTokens"),
        "completion_tokens": given.get("completionTokens"),
        "prompt_tokens_details": {"cached_tokens": details.get("cachedTokens")},
    }


def _broken() -> ModelUnavailable:
    return ModelUnavailable("the answer of oci broke off in the middle", provider="oci")


# -------------------------------------------------------------------------------------------------------- COHERE


def cohere_request(
    messages: Sequence[Message], tools: Sequence[ToolSpec] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """A request in the format of Cohere's models: the last message is apart from the history."""
    choice = options.get("tool_choice", "auto")
    if choice not in {"auto", "none"}:
        raise InvalidInput(
            f"tool_choice={choice!r}: Cohere's models can't be made to call a tool; use 'auto' or 'none'"
        )
    lead = next((place for place, one in enumerate(messages) if one.role is not Role.SYSTEM), len(messages))
    rest = messages[lead:]
    results = len(rest) - next(
        (place for place, one in enumerate(rest[::-1]) if one.role is not Role.TOOL), len(rest)
    )
    history, answers = rest[:results], rest[results:]
    wire: dict[str, Any] = {"apiFormat": "COHERE", "message": ""}
    if answers:
        wire["toolResults"] = [_cohere_result(one, messages) for one in answers]
    elif history and history[-1].role is Role.USER:
        wire["message"] = clean_text(history[-1].content or "")
        history = history[:-1]
    if lead:
        wire["preambleOverride"] = "\n\n".join(clean_text(one.content or "") for one in messages[:lead])
    if history:
        wire["chatHistory"] = _cohere_history(history, messages)
    if (schema := options.get("response_schema")) is not None:
        wire["responseFormat"] = {"type": "JSON_OBJECT", "schema": plain_schema(json_schema(schema))}
    if isinstance(stop := options.get("stop"), str):
        wire["stopSequences"] = [stop]
    elif stop:
        wire["stopSequences"] = list(stop)
    if tools and choice == "auto":
        wire["tools"] = [_cohere_tool(tool) for tool in tools]
    return wire


def _cohere_history(history: Sequence[Message], messages: Sequence[Message]) -> list[dict[str, Any]]:
    wire: list[dict[str, Any]] = []
    for message in history:
        text = clean_text(message.content or "")
        if message.role is Role.TOOL:
            result = _cohere_result(message, messages)
            if wire and wire[-1]["role"] == "TOOL":
                wire[-1]["toolResults"].append(result)
            else:
                wire.append({"role": "TOOL", "toolResults": [result]})
            continue
        if message.role is Role.USER and wire and wire[-1]["role"] == "TOOL":
            wire.append({"role": "CHATBOT", "message": "(no answer)"})  # the service wants one after results
        if message.role is Role.ASSISTANT:
            entry: dict[str, Any] = {"role": "CHATBOT", "message": text or " "}
            if message.tool_calls:
                entry["toolCalls"] = [_cohere_call(call) for call in message.tool_calls]
            wire.append(entry)
        else:
            wire.append({"role": message.role.value.upper(), "message": text})
    return wire


def _cohere_call(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "parameters": thaw(dict(call.arguments))}


def _cohere_result(message: Message, messages: Sequence[Message]) -> dict[str, Any]:
    """A result with the call that it answers: there are no ids in this format."""
    calls = (call for one in reversed(messages) for call in one.tool_calls if call.id == message.tool_call_id)
    call = next(calls, ToolCall(name=message.name or ""))
    return {"call": _cohere_call(call), "outputs": [{"output": clean_text(message.content or "")}]}


def _cohere_tool(tool: ToolSpec) -> dict[str, Any]:
    schema = plain_schema(tool.parameters)
    required = schema.get("required") or ()
    definitions = {
        name: _cohere_parameter(item) | {"isRequired": name in required}
        for name, item in (schema.get("properties") or {}).items()
    }
    return {"name": tool.name, "description": tool.description, "parameterDefinitions": definitions}


def _cohere_parameter(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter, of which only the type and a description can be told: the rest goes into that."""
    rest = {
        key: value for key, value in schema.items() if key not in {"description", "type", "title", "default"}
    }
    words = schema.get("description") or ""
    if rest:
        words = f"{words} JSON schema: {json.dumps(rest, ensure_ascii=False)}".strip()
    return {"type": _PYTHON_TYPES.get(str(schema.get("type")), "str"), "description": words}


class CohereAssembly:
    """Answers in the COHERE format. The events with tool calls and the last one tell the whole text again."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: list[Mapping[str, Any]] = []
        self._last: Mapping[str, Any] | None = None
        self._usage: Mapping[str, Any] | None = None

    def feed(self, event: Mapping[str, Any]) -> str:
        text = event.get("text") or ""
        if self._texts and any(event.get(key) for key in ("finishReason", "toolCalls", "chatHistory")):
            text = ""
        if text:
            self._texts.append(text)
        self._calls = event.get("toolCalls") or self._calls
        self._usage = event.get("usage") or self._usage
        if event.get("finishReason"):
            self._last = event
        return text

    def whole(self, result: Mapping[str, Any]) -> ModelResponse:
        self.feed(result.get("chatResponse") or {})
        if self._last is None:
            raise ModelError("oci answered without a message", provider="oci")
        return self._response(self._last, result.get("modelId"))

    def finish(self) -> ModelResponse:
        if self._last is None:
            raise _broken()
        return self._response(self._last, None)

    def _response(self, last: Mapping[str, Any], model: str | None) -> ModelResponse:
        reason = str(last["finishReason"])
        if reason in {"ERROR", "USER_CANCEL"}:
            told = last.get("errorMessage") or reason
            raise ModelUnavailable(f"the answer of oci broke off: {told}", provider="oci")
        calls = [
            ToolCall(name=str(call.get("name") or ""), arguments=parse_arguments(call.get("parameters")))
            for call in self._calls
        ]
        finish: FinishReason = "tool_calls" if calls else _COHERE_FINISH.get(reason, "stop")
        usage = _snake_usage(self._usage)
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return ModelResponse(
            Message.assistant("".join(self._texts) or None, calls or None),
            Usage(usage["prompt_tokens"] or 0, usage["completion_tokens"] or 0, cached or 0),
            finish,
            model,
        )

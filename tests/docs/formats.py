"""The wire formats of the providers as a service sees them: conversations read, answers written."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.core.messages import Message, Role, ToolCall, ToolResult
from holdfast.models.base import ModelResponse, ToolSpec
from holdfast.models.mock import in_words

Json = dict[str, Any]


class Format:
    """One provider's way to write a conversation and its answer."""

    content_type = "text/event-stream"

    @abstractmethod
    def read(self, asked: Json) -> tuple[list[Message], list[ToolSpec], Any]:
        """The conversation, the tools and the schema of the answer."""

    @abstractmethod
    def whole(self, answer: ModelResponse) -> Json:
        """The answer in one piece."""

    @abstractmethod
    def pieces(self, answer: ModelResponse) -> Iterator[bytes]:
        """The answer as a stream."""

    def streams(self, asked: Json) -> bool:
        return bool(asked.get("stream"))


def _sse(document: Json | str, event: str = "") -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    return f"{f'event: {event}' + chr(10) if event else ''}data: {text}\n\n".encode()


def _message(role: str, text: str | None, calls: Sequence[ToolCall] = (), name: str | None = None) -> Message:
    if role.lower() == "tool":
        return Message.tool(ToolResult(tool_call_id=name or "", name=name or "", content=text or ""))
    return Message(role=Role(role.lower()), content=text, tool_calls=tuple(calls))


def _words(answer: ModelResponse) -> list[str]:
    return [chunk.text for chunk in in_words(answer) if chunk.text]


def _arguments(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments))


class OpenAI(Format):
    """Chat completions: OpenAI and OpenRouter."""

    def read(self, asked: Json) -> tuple[list[Message], list[ToolSpec], Any]:
        names: dict[str, str] = {}
        messages = []
        for one in asked["messages"]:
            calls = [
                ToolCall(
                    id=call["id"],
                    name=call["function"]["name"],
                    arguments=json.loads(call["function"]["arguments"]),
                )
                for call in one.get("tool_calls") or ()
            ]
            names |= {call.id: call.name for call in calls}
            name = names.get(one.get("tool_call_id", ""))
            messages.append(_message(one["role"], one.get("content"), calls, name))
        tools = [ToolSpec(**tool["function"]) for tool in asked.get("tools") or ()]
        schema = (asked.get("response_format") or {}).get("json_schema", {}).get("schema")
        return messages, tools, schema

    def _answer(self, kind: str, choice: Json, usage: Json | None = None) -> Json:
        wire: Json = {
            "id": "chatcmpl-1",
            "object": kind,
            "created": 1,
            "model": "loopback",
            "choices": [choice],
        }
        wire["system_fingerprint"] = None  # the SDK of OpenRouter wants one
        return wire | ({"usage": usage} if usage else {})

    def whole(self, answer: ModelResponse) -> Json:
        message = {
            "role": "assistant",
            "content": answer.message.content,
            **({"tool_calls": self._calls(answer)} if answer.message.tool_calls else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason, "logprobs": None}
        return self._answer("chat.completion", choice, _usage(answer))

    def pieces(self, answer: ModelResponse) -> Iterator[bytes]:
        deltas: list[Json] = [{"role": "assistant", "content": word} for word in _words(answer)]
        calls = [{"index": place, **call} for place, call in enumerate(self._calls(answer))]
        for delta in [*deltas, *([{"tool_calls": calls}] if calls else [])]:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield _sse(self._answer("chat.completion.chunk", choice))
        last = {"index": 0, "delta": {}, "finish_reason": answer.finish_reason}
        yield _sse(self._answer("chat.completion.chunk", last, _usage(answer)))
        yield _sse("[DONE]")

    def _calls(self, answer: ModelResponse) -> list[Json]:
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for call in answer.message.tool_calls
        ]


def _usage(answer: ModelResponse) -> Json:
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }


class Anthropic(Format):
    """The Messages API."""

    def read(self, asked: Json) -> tuple[list[Message], list[ToolSpec], Any]:
        messages = [Message.system(asked["system"])] if asked.get("system") else []
        names: dict[str, str] = {}
        for turn in asked["messages"]:
            calls = []
            for block in turn["content"]:
                if block["type"] == "tool_use":
                    calls.append(ToolCall(id=block["id"], name=block["name"], arguments=block["input"]))
                    names[block["id"]] = block["name"]
                elif block["type"] == "tool_result":
                    text = "".join(part["text"] for part in block.get("content") or ())
                    messages.append(_message("tool", text, name=names[block["tool_use_id"]]))
                else:
                    messages.append(_message(turn["role"], block["text"]))
            if calls:
                messages.append(_message("assistant", None, calls))
        tools = [
            ToolSpec(tool["name"], tool["description"], tool["input_schema"])
            for tool in asked.get("tools") or ()
        ]
        schema = (asked.get("output_config") or {}).get("format", {}).get("schema")
        return messages, tools, schema

    def whole(self, answer: ModelResponse) -> Json:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "loopback",
            "content": self._blocks(answer),
            "stop_reason": self._reason(answer),
            "stop_sequence": None,
            "usage": {
                "input_tokens": answer.usage.prompt_tokens,
                "output_tokens": answer.usage.completion_tokens,
            },
        }

    def pieces(self, answer: ModelResponse) -> Iterator[bytes]:
        whole = self.whole(answer)
        yield self._event("message_start", message={**whole, "content": [], "stop_reason": None})
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                deltas = [{"type": "text_delta", "text": word} for word in _words(answer)]
                begun: Json = {"type": "text", "text": ""}
            else:
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
                begun = {**block, "input": {}}
            yield self._event("content_block_start", index=index, content_block=begun)
            for delta in deltas:
                yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
        last = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self._event("message_delta", delta=last, usage=whole["usage"])
        yield self._event("message_stop")

    def _event(self, kind: str, **fields: Any) -> bytes:
        return _sse({"type": kind, **fields}, kind)

    def _reason(self, answer: ModelResponse) -> str:
        return {"tool_calls": "tool_use", "length": "max_tokens"}.get(answer.finish_reason, "end_turn")

    def _blocks(self, answer: ModelResponse) -> list[Json]:
        text = answer.message.content
        return [
            *([{"type": "text", "text": text}] if text else []),
            *(
                {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
                for call in answer.message.tool_calls
            ),
        ]


class Ollama(Format):
    """Lines of JSON."""

    content_type = "application/x-ndjson"

    def read(self, asked: Json) -> tuple[list[Message], list[ToolSpec], Any]:
        messages = [
            _message(
                one["role"],
                one.get("content") or None,
                [ToolCall(**call["function"]) for call in one.get("tool_calls") or ()],
                one.get("tool_name"),
            )
            for one in asked["messages"]
        ]
        tools = [ToolSpec(**tool["function"]) for tool in asked.get("tools") or ()]
        return messages, tools, asked.get("format")

    def whole(self, answer: ModelResponse) -> Json:
        calls = [
            {"function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in answer.message.tool_calls
        ]
        return self._part(answer.message.content or "", calls) | {
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": answer.usage.prompt_tokens,
            "eval_count": answer.usage.completion_tokens,
        }

    def pieces(self, answer: ModelResponse) -> Iterator[bytes]:
        last = self.whole(answer)
        last["message"]["content"] = ""
        for part in [*(self._part(word, []) for word in _words(answer)), last]:
            yield json.dumps(part).encode() + b"\n"

    def _part(self, text: str, calls: list[Json]) -> Json:
        message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        return {
            "model": "loopback",
            "created_at": "2026-01-01T00:00:00Z",
            "message": message,
            "done": False,
        }


class OCI(Format):
    """The GENERIC format of OCI Generative AI."""

    def read(self, asked: Json) -> tuple[list[Message], list[ToolSpec], Any]:
        request = asked["chatRequest"]
        names: dict[str, str] = {}
        messages = []
        for one in request["messages"]:
            calls = [
                ToolCall(id=call["id"], name=call["name"], arguments=json.loads(call["arguments"]))
                for call in one.get("toolCalls") or ()
            ]
            names |= {call.id: call.name for call in calls}
            text = "".join(part["text"] for part in one.get("content") or ())
            messages.append(_message(one["role"], text or None, calls, names.get(one.get("toolCallId", ""))))
        tools = [
            ToolSpec(tool["name"], tool["description"], tool["parameters"])
            for tool in request.get("tools") or ()
        ]
        schema = (request.get("responseFormat") or {}).get("jsonSchema", {}).get("schema")
        return messages, tools, schema

    def streams(self, asked: Json) -> bool:
        return bool(asked["chatRequest"].get("isStream"))

    def whole(self, answer: ModelResponse) -> Json:
        choice = {
            "index": 0,
            "message": self._said(answer.message.content or "", answer.message.tool_calls),
            "finishReason": answer.finish_reason,
        }
        response = {"apiFormat": "GENERIC", "choices": [choice], "usage": self._usage(answer)}
        return {"modelId": "loopback", "modelVersion": "1.0", "chatResponse": response}

    def pieces(self, answer: ModelResponse) -> Iterator[bytes]:
        for word in _words(answer):
            yield _sse({"index": 0, "message": self._said(word, ())})
        last = {"message": self._said("", answer.message.tool_calls), "finishReason": answer.finish_reason}
        yield _sse({"index": 0, **last, "usage": self._usage(answer)})

    def _said(self, text: str, calls: Sequence[ToolCall]) -> Json:
        wire: Json = {"role": "ASSISTANT", "content": [{"type": "TEXT", "text": text}]}
        if calls:
            wire["toolCalls"] = [
                {"id": call.id, "type": "FUNCTION", "name": call.name, "arguments": _arguments(call)}
                for call in calls
            ]
        return wire

    def _usage(self, answer: ModelResponse) -> Json:
        return {
            "promptTokens": answer.usage.prompt_tokens,
            "completionTokens": answer.usage.completion_tokens,
            "totalTokens": answer.usage.total_tokens,
        }


FORMATS: Final[Mapping[str, Format]] = {
    "/chat/completions": OpenAI(),
    "/v1/messages": Anthropic(),
    "/api/chat": Ollama(),
    "/actions/chat": OCI(),
}

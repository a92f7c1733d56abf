"""Messages, tools and answers in the format of Anthropic's Messages API. Pure: plain dicts."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.errors import ModelUnavailable
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.models.base import FinishReason, ModelResponse, ToolSpec, Usage
from holdfast.models.openai_format import clean_text, parse_arguments, to_wire_arguments, to_wire_name

__all__ = [
    "StreamAssembly",
    "from_wire_response",
    "to_wire_choice",
    "to_wire_messages",
    "to_wire_tools",
]

PROVIDER: Final = "anthropic"

_FINISH: Final[Mapping[str, FinishReason]] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}

# ------------------------------------------------------------------------------------------------- to the service


def to_wire_messages(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt and the conversation.

    System messages become one prompt, wherever they stand. User and assistant take turns, and the user begins:
    neighbours of one role are merged. Text that is empty, which the service refuses, is left out.
    """
    system = [message.content for message in messages if message.role is Role.SYSTEM and message.content]
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            continue
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = _to_blocks(message)
        if not blocks:
            continue
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": _text_blocks("(The conversation goes on.)")})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return clean_text("\n\n".join(system)), turns


def _to_blocks(message: Message) -> list[dict[str, Any]]:
    if message.role is Role.TOOL:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _wire_id(message.tool_call_id or "")}
        if content := _text_blocks(message.content):
            result["content"] = content
        if "error" in message.metadata:
            result["is_error"] = True
        return [result]
    blocks = _text_blocks(message.content)
    if message.role is Role.ASSISTANT:
        blocks += [
            {
                "type": "tool_use",
                "id": _wire_id(call.id),
                "name": to_wire_name(call.name),
                "input": _wire_input(call),
            }
            for call in message.tool_calls
        ]
        for position, block in _kept_blocks(message):
            blocks.insert(position, block)
    return blocks


def _text_blocks(text: str | None) -> list[dict[str, Any]]:
    return [{"type": "text", "text": clean_text(text)}] if text and not text.isspace() else []


def _wire_id(id: str) -> str:
    """A tool call's id as Anthropic takes it; those of other services may have dots and colons."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id)


def _wire_input(call: ToolCall) -> Any:
    return json.loads(to_wire_arguments(call.arguments))


def _kept_blocks(message: Message) -> list[tuple[int, dict[str, Any]]]:
    """What the service sent beside text and tool calls, each with its place among the blocks."""
    kept = message.metadata.get(PROVIDER)
    return [(int(at), thaw(block)) for at, block in kept["blocks"]] if isinstance(kept, Mapping) else []


def to_wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The tools that a model may call."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": thaw(dict(tool.parameters))}
        for tool in tools
    ]


def to_wire_choice(choice: Any) -> Any:
    """The option ``tool_choice``: a tool's name is one that must be called; a dict goes as it is."""
    if not isinstance(choice, str):
        return choice
    return {"type": _CHOICES[choice]} if choice in _CHOICES else {"type": "tool", "name": choice}


# ----------------------------------------------------------------------------------------------- from the service


def from_wire_response(answer: Mapping[str, Any]) -> ModelResponse:
    """A whole answer. Thinking and the like are kept in the message's metadata, to be sent back as they came."""
    blocks: Sequence[Mapping[str, Any]] = answer.get("content") or ()
    calls = [
        ToolCall(id=block["id"], name=block["name"], arguments=parse_arguments(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    texts = [str(block.get("text") or "") for block in blocks if block.get("type") == "text"]
    kept = [[at, block] for at, block in enumerate(blocks) if block.get("type") not in ("text", "tool_use")]
    message = Message.assistant(
        "".join(texts) or None, calls or None, metadata={PROVIDER: {"blocks": kept}} if kept else None
    )
    reason = _FINISH.get(str(answer.get("stop_reason")), "stop")
    return ModelResponse(
        message, _usage(answer.get("usage") or {}), reason, answer.get("model"), answer.get("id")
    )


def _usage(usage: Mapping[str, Any]) -> Usage:
    read = int(usage.get("cache_read_input_tokens") or 0)
    fresh = int(usage.get("input_tokens") or 0) + int(usage.get("cache_creation_input_tokens") or 0)
    return Usage(fresh + read, int(usage.get("output_tokens") or 0), read)


class StreamAssembly:
    """Puts a streamed answer together: `feed` each event, then `finish`."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take in one event, and give its text."""
        kind = event.get("type")
        if kind == "message_start":
            self._answer = dict(event["message"])
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
            return str(event["content_block"].get("text") or "")
        elif kind == "content_block_delta":
            return self._feed_delta(event["index"], event["delta"])
        elif kind == "message_delta":
            self._answer |= {name: value for name, value in event["delta"].items() if value is not None}
            counted = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            self._answer["usage"] = {**(self._answer.get("usage") or {}), **counted}
        return ""

    def _feed_delta(self, index: int, delta: Mapping[str, Any]) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(delta.get("partial_json") or "")
        else:  # text, thinking or signature: the delta's own field of that name
            for name in delta.keys() & {"text", "thinking", "signature"}:
                block[name] = (block.get(name) or "") + (delta[name] or "")
        return str(delta.get("text") or "") if kind == "text_delta" else ""

    def finish(self) -> ModelResponse:
        """The whole answer. `ModelUnavailable` if the stream ended before the message did."""
        if not self._answer.get("stop_reason"):
            raise ModelUnavailable(f"the answer of {PROVIDER} broke off in the middle", provider=PROVIDER)
        for index, parts in self._inputs.items():
            self._blocks[index]["input"] = parse_arguments("".join(parts))
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        return from_wire_response({**self._answer, "content": blocks})

"""Anthropic: its SDK against a server on loopback that speaks the Messages API."""

import asyncio
import os
from typing import Any

import pytest
from pydantic import BaseModel, Field

from holdfast.core.errors import InvalidInput, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult, decode_message, encode_message
from holdfast.models.anthropic import DEFAULT_MAX_TOKENS, DEFAULT_MODEL, AnthropicModel
from holdfast.models.anthropic_format import to_wire_messages
from holdfast.models.base import INVALID_ARGUMENTS, ToolSpec, Usage
from holdfast.models.structured import complete_as
from tests.models.suite import ASK, KEY, ServiceSuite, broken_stream, complete, server, stream, whole_text
from tests.models.wire import Request, WireServer, sse

__all__ = ["server"]

USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 8,
    "output_tokens": 1,
}
SEARCH = ToolSpec("search", "Find notes.", {"type": "object", "properties": {"q": {"type": "string"}}})
HELLO = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
THINKING = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
HIDDEN = {"type": "redacted_thinking", "data": "aGlkZGVu"}


def answer(*blocks: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {**USAGE, "output_tokens": 5},
    }


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def use(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    return [
        event("content_block_start", index=index, content_block=start),
        *[event("content_block_delta", index=index, delta=delta) for delta in deltas],
        event("content_block_stop", index=index),
    ]


def text_deltas(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": one} for one in texts]


def input_deltas(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": one} for one in texts]


def events(*blocks: list[bytes], stop: str = "end_turn") -> list[bytes]:
    begun = {**answer(), "stop_reason": None, "usage": USAGE}
    return [
        event("message_start", message=begun),
        event("ping"),
        *[one for events in blocks for one in events],
        event(
            "message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 5}
        ),
        event("message_stop"),
    ]


class TestAnthropic(ServiceSuite):
    package = "anthropic"
    key_variable = "ANTHROPIC_API_KEY"

    def model(self, server: WireServer, **settings: Any) -> AnthropicModel:
        return AnthropicModel(**{"api_key": KEY, "base_url": server.url, **settings})

    def whole(self, content: str) -> Any:
        return answer(text(content))

    def pieces(self, *texts: str) -> list[bytes]:
        start, _, *rest = events(block(0, text(""), *text_deltas(*texts)))
        return [start + rest[0], *rest[1:]]

    def error(self, message: str, status: int) -> Any:
        return {"type": "error", "error": {"type": "api_error", "message": message}}


@pytest.fixture
def model(server: WireServer) -> AnthropicModel:
    return AnthropicModel("claude-test", api_key=KEY, base_url=server.url)


def calls(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.id, one.name, dict(one.arguments)) for one in message.tool_calls]


def key_sent(request: Request) -> str:
    """The SDK has used both headers."""
    return request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")


def test_the_request_has_the_key_the_conversation_the_tools_and_the_options(
    server: WireServer, model: AnthropicModel
) -> None:
    server.reply(json=answer(text("ok")))
    options = {
        "temperature": 0.5,
        "stop": ".",
        "tool_choice": "search",
        "metadata": {"user_id": "u"},
        "top_k": 3,
    }
    found = complete(model, [Message.system("be brief"), *ASK], [SEARCH], **options)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert key_sent(request) == KEY
    assert request.json == {
        "model": "claude-test",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "system": "be brief",
        "messages": [HELLO],
        "tools": [{"name": "search", "description": "Find notes.", "input_schema": SEARCH.parameters}],
        "tool_choice": {"type": "tool", "name": "search"},
        "temperature": 0.5,
        "top_k": 3,
        "stop_sequences": ["."],
        "metadata": {"user_id": "u"},
        "stream": False,
    }
    assert (found.usage, found.model, found.response_id) == (Usage(20, 5, 8), "claude-test", "msg_1")


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_a_choice_of_tools_is_said_in_the_services_words(
    server: WireServer, model: AnthropicModel, choice: Any, wire: Any
) -> None:
    server.reply(json=answer(text("ok"))).reply(json=answer(text("ok")))
    complete(model, ASK, [SEARCH], tool_choice=choice)
    complete(model, ASK, tool_choice=choice)
    assert server.requests[0].json["tool_choice"] == wire
    assert "tool_choice" not in server.requests[1].json


def test_default_options_are_sent_and_a_calls_own_win(server: WireServer) -> None:
    for _ in range(3):
        server.reply(json=answer(text("ok")))
    model = AnthropicModel(api_key=KEY, base_url=server.url, max_tokens=100, stop=["a", "b"])
    complete(model)
    complete(model, max_tokens=7)
    complete(model, max_tokens=None)
    assert [request.json["max_tokens"] for request in server.requests] == [100, 7, DEFAULT_MAX_TOKENS]
    assert server.requests[0].json["model"] == DEFAULT_MODEL
    assert server.requests[0].json["stop_sequences"] == ["a", "b"]


def test_a_tool_call_and_parallel_ones_are_read(server: WireServer, model: AnthropicModel) -> None:
    server.reply(json=answer(use("t1", "search", q="milk"), stop="tool_use"))
    server.reply(json=answer(text("Both."), use("t1", "search", q="milk"), use("t2", "now"), stop="tool_use"))
    first, second = complete(model), complete(model)
    assert (first.finish_reason, first.message.content) == ("tool_calls", None)
    assert calls(first.message) == [("t1", "search", {"q": "milk"})]
    assert calls(second.message) == [("t1", "search", {"q": "milk"}), ("t2", "now", {})]
    assert second.message.content == "Both."


def test_streamed_tool_calls_are_put_together(server: WireServer, model: AnthropicModel) -> None:
    server.stream(
        events(
            block(0, text(""), *text_deltas("One ", "moment.")),
            block(1, use("t1", "search"), *input_deltas("", '{"q": ', '"milk"}')),
            block(2, use("t2", "now"), *input_deltas("")),
            block(3, use("t3", "search"), *input_deltas('{"q": "te')),
            stop="tool_use",
        )
    )
    chunks = stream(model)
    assert whole_text(chunks) == "One moment."
    found = chunks[-1].response
    assert found is not None
    assert calls(found.message) == [
        ("t1", "search", {"q": "milk"}),
        ("t2", "now", {}),
        ("t3", "search", {INVALID_ARGUMENTS: '{"q": "te'}),
    ]
    assert (found.finish_reason, found.usage, found.response_id) == ("tool_calls", Usage(20, 5, 8), "msg_1")
    assert server.requests[0].json["stream"] is True


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "length"),
    ],
)
def test_why_an_answer_ended_is_told(
    server: WireServer, model: AnthropicModel, stop: str, expected: str
) -> None:
    server.reply(json=answer(text("x"), stop=stop))
    assert complete(model).finish_reason == expected


@pytest.mark.parametrize(
    ("kind", "status", "passes"),
    [("overloaded_error", 529, True), ("rate_limit_error", 429, True), ("invalid_request_error", 400, False)],
)
def test_an_error_in_the_middle_of_a_stream_is_told(
    server: WireServer, model: AnthropicModel, kind: str, status: int, passes: bool
) -> None:
    broken = event("error", error={"type": kind, "message": "not now"})
    server.stream([*events(block(0, text(""), *text_deltas("good")))[:4], broken])
    chunks, error = broken_stream(model)
    assert [piece.text for piece in chunks] == ["good"]
    assert (isinstance(error, ModelUnavailable), error.status) == (passes, status)
    assert "not now" in str(error)


def wire(*messages: Message) -> Any:
    return to_wire_messages(messages)


def test_user_and_assistant_take_turns_and_results_follow_their_calls() -> None:
    system, turns = wire(
        Message.system("be brief"),
        Message.user("hi"),
        Message.user("there"),
        Message.assistant(
            "hm", [ToolCall(id="t1", name="search", arguments={"q": 1}), ToolCall(id="t2", name="now")]
        ),
        Message.tool(ToolResult(tool_call_id="t1", name="search", content="found")),
        Message.system("be kind"),
        Message.tool(ToolResult(tool_call_id="t2", name="now", error="no clock")),
        Message.user("and?"),
        Message.assistant("well"),
        Message.assistant("done"),
        Message.system(""),
    )
    assert system == "be brief\n\nbe kind"
    assert turns == [
        {"role": "user", "content": [text("hi"), text("there")]},
        {"role": "assistant", "content": [text("hm"), use("t1", "search", q=1), use("t2", "now")]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [text("found")]},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [text("Error: no clock")],
                    "is_error": True,
                },
                text("and?"),
            ],
        },
        {"role": "assistant", "content": [text("well"), text("done")]},
    ]


def test_text_that_is_empty_is_left_out() -> None:
    assert wire(Message.user("hello"), Message.assistant(), Message.user(" \n"), Message.user("hello")) == (
        "",
        [{"role": "user", "content": [text("hello"), text("hello")]}],
    )
    assert wire(*ASK, Message.tool(ToolResult(tool_call_id="t", name="n")))[1][0]["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "t",
    }


def test_the_user_begins_also_where_older_messages_were_dropped() -> None:
    _, turns = wire(Message.assistant("hi"), Message.user("hello"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]


def test_ids_and_texts_of_other_services_are_made_fit() -> None:
    _, turns = wire(
        Message.user("hi \ud83d\ude00 \ud83d"),
        Message.assistant(
            tool_calls=[ToolCall(id="functions.search:0", name="search", arguments={"q": "\ud83d"})],
            metadata={"openrouter": {"reasoning_details": [{}]}},
        ),
        Message.tool(ToolResult(tool_call_id="functions.search:0", name="search", content="x")),
    )
    assert turns[0]["content"] == [text("hi \U0001f600 \ufffd")]
    assert turns[1]["content"] == [use("functions_search_0", "search", q="\ufffd")]
    assert turns[2]["content"][0]["tool_use_id"] == "functions_search_0"


def test_thinking_goes_back_as_it_came_also_through_storage(
    server: WireServer, model: AnthropicModel
) -> None:
    blocks = [
        THINKING,
        HIDDEN,
        text("I'll look."),
        {**THINKING, "thinking": "More."},
        use("t1", "search", q="milk"),
    ]
    server.reply(json=answer(*blocks, stop="tool_use"))
    signed = {"type": "signature_delta", "signature": THINKING["signature"]}
    thoughts = [{"type": "thinking_delta", "thinking": one} for one in ("Let me ", "see.")]
    server.stream(
        events(
            block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thoughts, signed),
            block(1, HIDDEN),
            block(2, text(""), *text_deltas("I'll ", "look.")),
            block(3, {"type": "thinking", "thinking": "More.", "signature": ""}, signed),
            block(4, use("t1", "search"), *input_deltas('{"q": "milk"}')),
            stop="tool_use",
        )
    )
    server.reply(json=answer(text("ok")))
    whole, chunks = complete(model), stream(model)
    assert whole_text(chunks) == "I'll look."
    streamed = chunks[-1].response
    assert streamed is not None
    assert streamed.message.metadata == whole.message.metadata
    assert (whole.message.content, calls(whole.message)) == ("I'll look.", [("t1", "search", {"q": "milk"})])
    stored = decode_message(encode_message(streamed.message))
    complete(model, [*ASK, stored, Message.tool(ToolResult(tool_call_id="t1", name="search", content="2 l"))])
    assert server.requests[2].json["messages"][1] == {"role": "assistant", "content": blocks}


class Note(BaseModel):
    title: str
    stars: int = Field(ge=1, le=5)


def test_structured_output_is_asked_for_in_the_services_form(
    server: WireServer, model: AnthropicModel
) -> None:
    server.reply(json=answer(text('{"title": "milk", "stars": 3}')))
    found = asyncio.run(complete_as(model, ASK, Note, output_config={"effort": "low"}))
    assert found == Note(title="milk", stars=3)
    config = server.requests[0].json["output_config"]
    assert config["effort"] == "low"
    assert config["format"]["type"] == "json_schema"
    assert config["format"]["schema"]["required"] == ["title", "stars"]
    assert config["format"]["schema"]["additionalProperties"] is False


def test_a_schema_that_the_service_can_not_keep_to_is_invalid_input(
    server: WireServer, model: AnthropicModel
) -> None:
    with pytest.raises(InvalidInput, match="response_schema"):
        complete(model, response_schema={"properties": {"x": {}}})
    assert server.requests == []


def test_without_a_key_the_error_names_the_variable(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    with pytest.raises(InvalidInput, match="ANTHROPIC_API_KEY"):
        complete(AnthropicModel())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    server.reply(json=answer(text("ok")))
    assert complete(AnthropicModel()).message.content == "ok"
    assert key_sent(server.requests[0]) == "from-the-environment"

"""LiteLLM against a server on loopback, by its way to any server that speaks OpenAI's format, and to Anthropic's."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.core.errors import ModelError, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import INVALID_ARGUMENTS, ToolSpec, Usage
from holdfast.models.litellm import LiteLLMModel
from holdfast.models.structured import complete_as
from tests.models.suite import ASK, KEY, ServiceSuite, broken_stream, complete, server, stream, whole_text
from tests.models.wire import WireServer, sse

__all__ = ["server"]

USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 8},
}
SEARCH = ToolSpec("search", "Find notes.", {"type": "object", "properties": {"q": {"type": "string"}}})


def answer(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-test",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": USAGE,
    }


def chunk(delta: dict[str, Any] | None, finish: str | None = None) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
    }
    return sse(document if choices else {**document, "usage": USAGE})


def call(id: str | None, name: str | None, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function, **({"id": id, "type": "function"} if id else {}), **more}


class TestLiteLLM(ServiceSuite):
    package = "litellm"
    key_variable = "api_key"

    def model(self, server: WireServer, **settings: Any) -> LiteLLMModel:
        fixed = {"model": "openai/gpt-test", "api_key": KEY, "base_url": f"{server.url}/v1"}
        return LiteLLMModel(**{**fixed, **settings})

    def whole(self, text: str) -> Any:
        return answer({"content": text})

    def pieces(self, *texts: str) -> list[bytes]:
        deltas = [chunk({"role": "assistant", "content": text}) for text in texts]
        return [*deltas, chunk({}, "stop"), sse("[DONE]")]

    def error(self, message: str, status: int) -> Any:
        return {"error": {"message": message, "type": "server_error", "code": None}}

    def test_an_option_that_the_sdk_does_not_know_is_invalid_input(self, server: WireServer) -> None:
        """Not here: LiteLLM passes it on."""
        server.reply(json=self.whole("ok"))
        complete(self.model(server), no_such_option=1)
        assert server.requests[0].json["no_such_option"] == 1


@pytest.fixture
def model(server: WireServer) -> LiteLLMModel:
    return LiteLLMModel("openai/gpt-test", api_key=KEY, base_url=f"{server.url}/v1")


def calls(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.id, one.name, dict(one.arguments)) for one in message.tool_calls]


def test_the_request_has_the_key_the_conversation_the_tools_and_the_options(
    server: WireServer, model: LiteLLMModel
) -> None:
    server.reply(json=answer({"content": "ok"}))
    options = {
        "temperature": 0.5,
        "max_tokens": 10,
        "stop": ["."],
        "tool_choice": "search",
        "seed": 7,
        "top_p": None,
    }
    found = complete(model, [Message.system("be brief"), *ASK], [SEARCH], **options)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "gpt-test",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Find notes.",
                    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "search"}},
        "temperature": 0.5,
        "max_tokens": 10,
        "stop": ["."],
        "seed": 7,
    }
    assert (found.usage, found.model, found.response_id) == (Usage(20, 5, 8), "gpt-test", "chatcmpl-1")


def test_tool_calls_are_read_and_malformed_arguments_kept(server: WireServer, model: LiteLLMModel) -> None:
    made = [call("c1", "search", '{"q": "milk"}'), call("c2", "search", '{"q": "mi'), call("c3", "now", "")]
    server.reply(json=answer({"content": None, "tool_calls": made}, "tool_calls"))
    found = complete(model)
    assert (found.finish_reason, found.message.content) == ("tool_calls", None)
    assert calls(found.message) == [
        ("c1", "search", {"q": "milk"}),
        ("c2", "search", {INVALID_ARGUMENTS: '{"q": "mi'}),
        ("c3", "now", {}),
    ]


def test_streamed_tool_calls_are_put_together(server: WireServer, model: LiteLLMModel) -> None:
    deltas = [
        call("c1", "search", "", index=0),
        call(None, None, '{"q": ', index=0),
        call(None, None, '"milk"}', index=0),
        call("c2", "search", '{"q": "mi', index=1),
    ]
    server.stream(
        [
            chunk({"role": "assistant", "content": "One moment."}),
            *(chunk({"tool_calls": [delta]}) for delta in deltas),
            chunk({}, "tool_calls"),
            chunk(None),
            sse("[DONE]"),
        ]
    )
    chunks = stream(model)
    assert whole_text(chunks) == "One moment."
    found = chunks[-1].response
    assert found is not None
    assert calls(found.message) == [
        ("c1", "search", {"q": "milk"}),
        ("c2", "search", {INVALID_ARGUMENTS: '{"q": "mi'}),
    ]
    assert (found.finish_reason, found.usage.prompt_tokens, found.usage.completion_tokens) == (
        "tool_calls",
        20,
        5,
    )


def test_a_conversation_is_written_as_the_service_reads_it(server: WireServer, model: LiteLLMModel) -> None:
    server.reply(json=answer({"content": "ok"}))
    complete(
        model,
        [
            Message.user("hi"),
            Message.assistant(tool_calls=[ToolCall(id="c1", name="search", arguments={"q": "Ä"})]),
            Message.tool(ToolResult(tool_call_id="c1", name="search", error="no disk")),
            Message.user("and?"),
        ],
    )
    first, second, third, last = server.requests[0].json["messages"]
    assert (first, last) == ({"role": "user", "content": "hi"}, {"role": "user", "content": "and?"})
    assert second["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "Ä"}'}}
    ]
    assert (third["role"], third["tool_call_id"], third["content"]) == ("tool", "c1", "Error: no disk")


class Note(BaseModel):
    title: str
    tags: list[str] = []


def test_structured_output_is_asked_for_by_its_schema(server: WireServer, model: LiteLLMModel) -> None:
    server.reply(json=answer({"content": '{"title": "milk", "tags": []}'}))
    assert asyncio.run(complete_as(model, ASK, Note)) == Note(title="milk")
    asked = server.requests[0].json["response_format"]
    assert (asked["type"], asked["json_schema"]["name"], asked["json_schema"]["strict"]) == (
        "json_schema",
        "Note",
        True,
    )


def test_an_error_in_the_middle_of_a_stream_is_told(server: WireServer, model: LiteLLMModel) -> None:
    server.stream(
        [
            chunk({"role": "assistant", "content": "good"}),
            sse({"error": {"message": "overloaded", "type": "x"}}),
        ]
    )
    chunks, error = broken_stream(model)
    assert [piece.text for piece in chunks] == ["good"]
    assert isinstance(error, ModelUnavailable)
    assert "overloaded" in str(error)


def test_a_vendor_that_it_does_not_know_is_told() -> None:
    with pytest.raises(ModelError, match="nobody/gpt"):
        complete(LiteLLMModel("nobody/gpt"))


def test_an_option_that_the_vendor_does_not_have_is_told(server: WireServer) -> None:
    model = LiteLLMModel("anthropic/claude-test", api_key=KEY, base_url=server.url)
    with pytest.raises(ModelError, match="does not support parameters"):
        complete(model, thinking={"type": "enabled", "budget_tokens": 1024})
    assert server.requests == []


# ------------------------------------------------------------------------------------ thoughts, as Anthropic has them


def claude(*blocks: dict[str, Any], reason: str = "tool_use") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(blocks),
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 5},
    }


def claude_event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


@pytest.mark.parametrize("streamed", [False, True])
def test_thoughts_go_back_unchanged_to_a_model_that_wants_them(server: WireServer, streamed: bool) -> None:
    thought = {"type": "thinking", "thinking": "Hm, milk.", "signature": "sig"}
    use = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "milk"}}
    if streamed:
        deltas: list[tuple[int, dict[str, Any]]] = [
            (0, {"type": "thinking_delta", "thinking": "Hm, "}),
            (0, {"type": "thinking_delta", "thinking": "milk."}),
            (0, {"type": "signature_delta", "signature": "sig"}),
        ]
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        server.stream(
            [
                claude_event("message_start", message={**claude(), "stop_reason": None}),
                claude_event("content_block_start", index=0, content_block=empty),
                *(claude_event("content_block_delta", index=index, delta=delta) for index, delta in deltas),
                claude_event("content_block_stop", index=0),
                claude_event("content_block_start", index=1, content_block={**use, "input": {}}),
                claude_event(
                    "content_block_delta",
                    index=1,
                    delta={"type": "input_json_delta", "partial_json": '{"q": "milk"}'},
                ),
                claude_event("content_block_stop", index=1),
                claude_event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5}),
                claude_event("message_stop"),
            ]
        )
    else:
        server.reply(json=claude(thought, use))
    server.reply(json=claude({"type": "text", "text": "Milk."}, reason="end_turn"))
    model = LiteLLMModel("anthropic/claude-sonnet-4-5", api_key=KEY, base_url=server.url, max_tokens=2000)
    options: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    found = (
        stream(model, ASK, [SEARCH], **options)[-1].response
        if streamed
        else complete(model, ASK, [SEARCH], **options)
    )
    assert found is not None
    assert calls(found.message) == [("c1", "search", {"q": "milk"})]
    result = Message.tool(ToolResult(tool_call_id="c1", name="search", content="1 pint"))
    assert complete(model, [*ASK, found.message, result], [SEARCH], **options).message.content == "Milk."
    assert thought in server.requests[1].json["messages"][1]["content"]


# ------------------------------------------------------------------------------------------------- a good neighbour


def test_making_a_model_asks_nothing_of_the_network_and_prints_nothing() -> None:
    code = """
import socket
def refuse(*arguments, **options):
    raise SystemExit(f"asked for {arguments}")
socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
from holdfast.models.litellm import LiteLLMModel
LiteLLMModel("openai/gpt-test", api_key="x")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_loop_that_ends_leaves_no_connection_behind(server: WireServer, model: LiteLLMModel) -> None:
    import litellm

    before = set(litellm.in_memory_llm_clients_cache.cache_dict)
    for _ in range(3):
        server.reply(json=answer({"content": "ok"}))
        complete(model)
    assert set(litellm.in_memory_llm_clients_cache.cache_dict) <= before

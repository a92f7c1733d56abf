"""OpenRouter: its SDK against a server on loopback that speaks its chat format."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.core.errors import InvalidInput, ModelError, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult, decode_message, encode_message
from holdfast.models.base import INVALID_ARGUMENTS, ToolSpec, Usage
from holdfast.models.openrouter import DEFAULT_MODEL, OpenRouterModel
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
LLAMA = "meta-llama/llama-3.3-70b-instruct"
COMMON = {"id": "gen-1", "created": 1, "model": LLAMA, "provider": "Some"}


def answer(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        **COMMON,
        "object": "chat.completion",
        "system_fingerprint": None,
        "choices": [choice],
        "usage": USAGE,
    }


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **fields: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    document = {**COMMON, "object": "chat.completion.chunk", "choices": choices, **fields}
    return sse(document if choices else {**document, "usage": USAGE})


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


class TestOpenRouter(ServiceSuite):
    package = "openrouter"
    key_variable = "OPENROUTER_API_KEY"

    def model(self, server: WireServer, **settings: Any) -> OpenRouterModel:
        return OpenRouterModel(**{"api_key": KEY, "base_url": f"{server.url}/api/v1", **settings})

    def whole(self, text: str) -> Any:
        return answer({"content": text})

    def pieces(self, *texts: str) -> list[bytes]:
        deltas = [chunk({"content": text}) for text in texts]
        begun = b": OPENROUTER PROCESSING\n\n" + chunk({"role": "assistant", "content": ""})
        return [begun, *deltas, chunk({"content": ""}, "stop"), chunk(None), sse("[DONE]")]

    def error(self, message: str, status: int) -> Any:
        return {"error": {"message": message, "code": status}}


@pytest.fixture
def model(server: WireServer) -> OpenRouterModel:
    return OpenRouterModel(LLAMA, api_key=KEY, base_url=f"{server.url}/api/v1")


def calls(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.id, one.name, dict(one.arguments)) for one in message.tool_calls]


def test_the_request_has_the_key_the_conversation_the_tools_and_the_options(
    server: WireServer, model: OpenRouterModel
) -> None:
    server.reply(json=answer({"content": "ok"}))
    options = {"temperature": 0.5, "max_tokens": 10, "stop": ["."], "tool_choice": "search", "seed": 7}
    found = complete(model, [Message.system("be brief"), *ASK], [SEARCH], **options)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": LLAMA,
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
        "stream": False,
    }
    assert (found.usage, found.model, found.response_id) == (Usage(20, 5, 8), LLAMA, "gen-1")


def test_default_options_are_sent_and_a_calls_own_win(server: WireServer) -> None:
    server.reply(json=answer({"content": "ok"}))
    model = OpenRouterModel(api_key=KEY, base_url=server.url, temperature=0, provider={"order": ["Some"]})
    complete(model, temperature=1)
    sent = server.requests[0].json
    assert (sent["model"], sent["temperature"], sent["provider"]) == (DEFAULT_MODEL, 1, {"order": ["Some"]})


def test_tool_calls_are_read_also_with_arguments_that_are_no_json(
    server: WireServer, model: OpenRouterModel
) -> None:
    wanted = [call("c1", "search", '{"q": "milk"}'), call("c2", "search", '{"q": ')]
    server.reply(json=answer({"content": None, "tool_calls": wanted}, "tool_calls"))
    found = complete(model)
    assert (found.finish_reason, found.message.content) == ("tool_calls", None)
    assert calls(found.message) == [
        ("c1", "search", {"q": "milk"}),
        ("c2", "search", {INVALID_ARGUMENTS: '{"q": '}),
    ]


def test_streamed_tool_calls_are_put_together(server: WireServer, model: OpenRouterModel) -> None:
    server.stream(
        [
            chunk({"role": "assistant", "content": "One moment."}),
            chunk({"tool_calls": [{"index": 0, **call("c1", "search", "")}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"q": '}}]}),
            chunk({"tool_calls": [{"index": 1, **call("c2", "search", '{"q": "te')}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"milk"}'}}]}),
            chunk({"content": ""}, "tool_calls"),
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
        ("c2", "search", {INVALID_ARGUMENTS: '{"q": "te'}),
    ]
    assert (found.finish_reason, found.usage, found.response_id) == ("tool_calls", Usage(20, 5, 8), "gen-1")
    assert server.requests[0].json["stream"] is True
    assert server.requests[0].json["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(("code", "passes"), [(502, True), (400, False)])
def test_an_error_in_the_middle_of_a_stream_is_told(
    server: WireServer, model: OpenRouterModel, code: int, passes: bool
) -> None:
    broken = {"code": code, "message": "the vendor went away"}
    server.stream([chunk({"content": "good"}), chunk({"content": ""}, "error", error=broken), sse("[DONE]")])
    chunks, error = broken_stream(model)
    assert [piece.text for piece in chunks] == ["good"]
    assert (isinstance(error, ModelUnavailable), error.status) == (passes, code)
    assert "the vendor went away" in str(error)


@pytest.mark.parametrize(("code", "passes"), [(502, True), (400, False)])
def test_an_error_that_comes_as_an_answer_is_told(
    server: WireServer, model: OpenRouterModel, code: int, passes: bool
) -> None:
    server.reply(json={"error": {"code": code, "message": "the vendor went away"}})
    with pytest.raises(ModelError, match="the vendor went away") as caught:
        complete(model)
    assert (isinstance(caught.value, ModelUnavailable), caught.value.status) == (passes, code)


def test_an_error_without_the_fields_that_the_sdk_wants_keeps_its_status(
    server: WireServer, model: OpenRouterModel
) -> None:
    server.reply(status=402, json={"error": {"message": "no credits"}})
    server.reply(status=404, body=b"nothing here", headers={"Content-Type": "text/plain"})
    with pytest.raises(ModelError, match="no credits") as caught:
        complete(model)
    assert caught.value.status == 402
    with pytest.raises(ModelError, match="nothing here") as caught:
        complete(model)
    assert caught.value.status == 404


def test_a_conversation_is_written_as_the_service_reads_it(
    server: WireServer, model: OpenRouterModel
) -> None:
    server.reply(json=answer({"content": "ok"}))
    complete(
        model,
        [
            Message.system("be brief"),
            Message.user("hi"),
            Message.assistant(tool_calls=[ToolCall(id="c1", name="search", arguments={"q": "Ä"})]),
            Message.tool(ToolResult(tool_call_id="c1", name="search", error="no index")),
            Message.system("be kind"),
            Message.user("and?"),
        ],
    )
    assert server.requests[0].json["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "search", '{"q": "Ä"}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: no index"},
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "and?"},
    ]


def thought(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": text, "index": 0, "format": "anthropic-claude-v1", **fields}


def test_reasoning_goes_back_as_it_came_also_through_storage(
    server: WireServer, model: OpenRouterModel
) -> None:
    hidden = {
        "type": "reasoning.encrypted",
        "data": "aGlkZGVu",
        "id": "r1",
        "index": 1,
        "format": "openai-responses-v1",
    }
    details = [thought("Let me see.", signature="c2ln"), hidden]
    novel = {"type": "reasoning.novel", "note": "the SDK can't send it back"}
    wanted = [call("c1", "search", '{"q": "milk"}')]
    server.reply(
        json=answer(
            {"content": None, "tool_calls": wanted, "reasoning_details": [*details, novel]}, "tool_calls"
        )
    )
    server.stream(
        [
            chunk({"reasoning_details": [thought("Let me ")]}),
            chunk({"reasoning_details": [thought("see.")]}),
            chunk({"reasoning_details": [thought("", signature="c2ln"), hidden, novel]}),
            chunk({"tool_calls": [{"index": 0, **wanted[0]}]}),
            chunk({}, "tool_calls"),
            sse("[DONE]"),
        ]
    )
    server.reply(json=answer({"content": "ok"}))
    whole, streamed = complete(model), stream(model)[-1].response
    assert streamed is not None
    assert streamed.message.metadata == whole.message.metadata
    stored = decode_message(encode_message(streamed.message))
    complete(model, [*ASK, stored, Message.tool(ToolResult(tool_call_id="c1", name="search", content="2 l"))])
    assert server.requests[2].json["messages"][1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": wanted,
        "reasoning_details": details,
    }


class Note(BaseModel):
    title: str


def test_structured_output_is_asked_for_in_the_services_form(
    server: WireServer, model: OpenRouterModel
) -> None:
    server.reply(json=answer({"content": '{"title": "milk"}'}))
    assert asyncio.run(complete_as(model, ASK, Note)) == Note(title="milk")
    wanted = server.requests[0].json["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["strict"] is True
    assert wanted["json_schema"]["schema"]["properties"] == {"title": {"title": "Title", "type": "string"}}


def test_the_key_and_the_server_can_come_from_the_environment(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match="OPENROUTER_API_KEY"):
        OpenRouterModel()
    monkeypatch.setenv("OPENROUTER_API_KEY", "from-the-environment")
    monkeypatch.setenv("OPENROUTER_BASE_URL", server.url)
    server.reply(json=answer({"content": "ok"}))
    assert complete(OpenRouterModel()).message.content == "ok"
    assert server.requests[0].headers["authorization"] == "Bearer from-the-environment"

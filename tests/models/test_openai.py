"""OpenAI: its SDK against a server on loopback that speaks the chat completions format."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.core.errors import InvalidInput, ModelError, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import INVALID_ARGUMENTS, ToolSpec, Usage
from holdfast.models.openai import DEFAULT_MODEL, OpenAIModel
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
        "model": "gpt-4.1-mini-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": USAGE,
    }


def chunk(delta: dict[str, Any] | None, finish: str | None = None) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4.1-mini-2026",
        "choices": choices,
    }
    return sse(document if choices else {**document, "usage": USAGE})


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def call_delta(index: int | None, arguments: str, id: str | None = None, name: str | None = None) -> bytes:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    delta: dict[str, Any] = {"function": function} | ({"id": id, "type": "function"} if id else {})
    return chunk({"tool_calls": [delta | ({} if index is None else {"index": index})]})


class TestOpenAI(ServiceSuite):
    package = "openai"
    key_variable = "OPENAI_API_KEY"

    def model(self, server: WireServer, **settings: Any) -> OpenAIModel:
        return OpenAIModel(**{"api_key": KEY, "base_url": f"{server.url}/v1", **settings})

    def whole(self, text: str) -> Any:
        return answer({"content": text})

    def pieces(self, *texts: str) -> list[bytes]:
        deltas = [chunk({"content": text}) for text in texts]
        return [
            chunk({"role": "assistant", "content": ""}),
            *deltas,
            chunk({}, "stop"),
            chunk(None),
            sse("[DONE]"),
        ]

    def error(self, message: str, status: int) -> Any:
        return {"error": {"message": message, "type": "server_error", "code": None}}


@pytest.fixture
def model(server: WireServer) -> OpenAIModel:
    return OpenAIModel("gpt-4.1-mini", api_key=KEY, base_url=f"{server.url}/v1")


def calls(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.id, one.name, dict(one.arguments)) for one in message.tool_calls]


def test_the_request_has_the_key_the_conversation_the_tools_and_the_options(
    server: WireServer, model: OpenAIModel
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
        "model": "gpt-4.1-mini",
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
    assert (found.usage, found.model, found.response_id) == (
        Usage(20, 5, 8),
        "gpt-4.1-mini-2026",
        "chatcmpl-1",
    )


def test_default_options_are_sent_and_a_calls_own_win(server: WireServer) -> None:
    server.reply(json=answer({"content": "ok"})).reply(json=answer({"content": "ok"}))
    model = OpenAIModel(api_key=KEY, base_url=server.url, temperature=0, seed=1)
    complete(model, tool_choice="auto")
    complete(model, temperature=1)
    first, second = (request.json for request in server.requests)
    assert (first["model"], first["temperature"], first["seed"]) == (DEFAULT_MODEL, 0, 1)
    assert "tool_choice" not in first, "services refuse it without tools"
    assert (second["temperature"], second["seed"]) == (1, 1)


@pytest.mark.parametrize(
    ("url", "name"),
    [(None, "max_completion_tokens"), ("https://llm.example/v1", "max_tokens")],
)
def test_the_limit_of_tokens_has_the_name_that_the_service_knows(
    url: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = OpenAIModel(api_key=KEY, base_url=url)
    request = model._request(model._connect(), ASK, None, {"max_tokens": 5})
    assert {key: request[key] for key in request if "max" in key} == {name: 5}


def test_a_tool_call_and_parallel_ones_are_read(server: WireServer, model: OpenAIModel) -> None:
    one = [call("c1", "search", '{"q": "milk"}')]
    server.reply(json=answer({"content": None, "tool_calls": one}, "tool_calls"))
    server.reply(json=answer({"content": "Both.", "tool_calls": [*one, call("c2", "now", "")]}, "stop"))
    first, second = complete(model), complete(model)
    assert (first.finish_reason, first.message.content) == ("tool_calls", None)
    assert calls(first.message) == [("c1", "search", {"q": "milk"})]
    assert calls(second.message) == [("c1", "search", {"q": "milk"}), ("c2", "now", {})]
    assert (second.finish_reason, second.message.content) == ("tool_calls", "Both.")


@pytest.mark.parametrize("text", ['{"q": "mi', "[1]", "search for milk", '"milk"'])
def test_arguments_that_are_no_json_object_are_kept_as_text(
    server: WireServer, model: OpenAIModel, text: str
) -> None:
    server.reply(json=answer({"content": None, "tool_calls": [call("c1", "search", text)]}, "tool_calls"))
    server.stream([call_delta(0, text, "c1", "search"), chunk({}, "tool_calls"), sse("[DONE]")])
    for found in (complete(model), stream(model)[-1].response):
        assert found is not None
        assert calls(found.message) == [("c1", "search", {INVALID_ARGUMENTS: text})]


def test_streamed_tool_calls_are_put_together(server: WireServer, model: OpenAIModel) -> None:
    server.stream(
        [
            chunk({"role": "assistant", "content": "One moment."}),
            call_delta(0, "", "c1", "search"),
            call_delta(0, '{"q": '),
            call_delta(1, '{"q":', "c2", "search"),
            call_delta(0, '"milk"}'),
            call_delta(1, '"tea"}'),
            call_delta(2, "", "c3", "now"),
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
        ("c2", "search", {"q": "tea"}),
        ("c3", "now", {}),
    ]
    assert (found.finish_reason, found.usage, found.response_id) == (
        "tool_calls",
        Usage(20, 5, 8),
        "chatcmpl-1",
    )
    assert server.requests[0].json["stream_options"] == {"include_usage": True}
    assert server.requests[0].json["stream"] is True


@pytest.mark.parametrize("indexes", [(0, 0), (None, None)])
def test_streamed_tool_calls_of_services_that_do_not_count_them(
    server: WireServer, model: OpenAIModel, indexes: Sequence[int | None]
) -> None:
    first, second = indexes
    deltas = [
        call_delta(first, '{"q": ', "c1", "search"),
        call_delta(first, '"milk"}'),
        call_delta(second, '{"q": "tea"}', "c2", "search"),
    ]
    server.stream([*deltas, chunk({}, "stop"), sse("[DONE]")])
    found = stream(model)[-1].response
    assert found is not None
    assert calls(found.message) == [("c1", "search", {"q": "milk"}), ("c2", "search", {"q": "tea"})]
    assert found.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("finish", "expected"),
    [("length", "length"), ("content_filter", "content_filter"), ("eos", "stop")],
)
def test_why_an_answer_ended_is_told(
    server: WireServer, model: OpenAIModel, finish: str, expected: str
) -> None:
    server.reply(json=answer({"content": "x"}, finish))
    assert complete(model).finish_reason == expected


def test_a_refusal_is_an_answer_that_says_so(server: WireServer, model: OpenAIModel) -> None:
    server.reply(json=answer({"content": None, "refusal": "I can't."}))
    found = complete(model)
    assert (found.message.content, found.finish_reason) == ("I can't.", "content_filter")


def test_an_error_in_the_middle_of_a_stream_is_told(server: WireServer, model: OpenAIModel) -> None:
    server.stream(
        [chunk({"content": "good"}), sse({"error": {"message": "overloaded", "type": "server_error"}})]
    )
    chunks, error = broken_stream(model)
    assert [piece.text for piece in chunks] == ["good"]
    assert isinstance(error, ModelUnavailable)
    assert "overloaded" in str(error)
    refused = {"error": {"message": "too long", "type": "invalid_request_error"}}
    server.stream([chunk({"content": "good"}), sse(refused)])
    assert not isinstance(broken_stream(model)[1], ModelUnavailable)


def test_an_answer_without_a_message_is_an_error(server: WireServer, model: OpenAIModel) -> None:
    server.reply(json={**answer({}), "choices": []})
    with pytest.raises(ModelError, match="without a message"):
        complete(model)


def test_a_conversation_is_written_as_the_service_reads_it(server: WireServer, model: OpenAIModel) -> None:
    server.reply(json=answer({"content": "ok"}))
    search, broken = ToolCall(id="c1", name="search", arguments={"q": "Ä"}), ToolCall(id="c2", name="now")
    bad = ToolCall(id="c3", name="now", arguments={INVALID_ARGUMENTS: "{oops"})
    complete(
        model,
        [
            Message.system("be brief"),
            Message.user("hi", name="Alice"),
            Message.user("again", name="not a name"),
            Message.assistant(
                tool_calls=[search, broken, bad], metadata={"anthropic": {"blocks": [[0, {}]]}}
            ),
            Message.tool(ToolResult(tool_call_id="c1", name="search", content='{"found":1}')),
            Message.tool(ToolResult(tool_call_id="c2", name="now", error="no clock")),
            Message.tool(ToolResult(tool_call_id="c3", name="now", error="bad arguments")),
            Message.system("be kind"),
            Message.user("and? \ud83d"),
            Message.assistant(),
            Message.user("hm", metadata={"openai": {"extra": 1}}),
        ],
    )
    assert server.requests[0].json["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi", "name": "Alice"},
        {"role": "user", "content": "again"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                call("c1", "search", '{"q": "Ä"}'),
                call("c2", "now", "{}"),
                call("c3", "now", '{"$invalid_json": "{oops"}'),
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"found":1}'},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no clock"},
        {"role": "tool", "tool_call_id": "c3", "content": "Error: bad arguments"},
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "and? \ufffd"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "hm"},
    ]


class Note(BaseModel):
    title: str
    tags: list[str] = []


class Bag(BaseModel):
    items: dict[str, int]


class Tree(BaseModel):
    """Its schema is a reference at the root, which a strict service refuses."""

    branches: "list[Tree]"


def test_structured_output_is_asked_for_strictly_where_the_schema_allows(
    server: WireServer, model: OpenAIModel
) -> None:
    server.reply(json=answer({"content": '{"title": "milk", "tags": []}'}))
    server.reply(json=answer({"content": '{"items": {"milk": 2}}'}))
    server.reply(json=answer({"content": '{"branches": []}'}))

    async def ask() -> list[BaseModel]:
        return [await complete_as(model, ASK, schema) for schema in (Note, Bag, Tree)]

    assert asyncio.run(ask()) == [Note(title="milk"), Bag(items={"milk": 2}), Tree(branches=[])]
    strict, loose, tree = (request.json["response_format"] for request in server.requests)
    assert strict["type"] == loose["type"] == "json_schema"
    assert strict["json_schema"]["strict"] is True
    assert strict["json_schema"]["name"] == "Note"
    assert strict["json_schema"]["schema"]["required"] == ["title", "tags"]
    assert strict["json_schema"]["schema"]["additionalProperties"] is False
    assert tree["json_schema"]["strict"] is False
    assert loose["json_schema"] == {"name": "Bag", "strict": False, "schema": Bag.model_json_schema()}


def test_a_key_is_needed_but_not_for_a_server_of_ones_own(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY"):
        OpenAIModel()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.reply(json=answer({"content": "ok"})).reply(json=answer({"content": "ok"}))
    assert complete(OpenAIModel()).message.content == "ok"
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    assert complete(OpenAIModel()).message.content == "ok"
    assert server.requests[1].headers["authorization"] == "Bearer from-the-environment"

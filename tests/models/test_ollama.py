"""Ollama: its SDK against a server on loopback that speaks its format, lines of JSON."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.core.errors import InvalidInput, ModelError, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import ToolSpec, Usage
from holdfast.models.ollama import DEFAULT_MODEL, OllamaModel
from holdfast.models.structured import complete_as
from tests.models.suite import ASK, KEY, ServiceSuite, broken_stream, complete, server, stream, whole_text
from tests.models.wire import WireServer

__all__ = ["server"]

END = {"done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 5, "total_duration": 9}
SEARCH = ToolSpec(
    "search", "Find notes.", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
)


def part(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "model": "llama3.2",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "", **message},
        "done": False,
        **more,
    }


def line(message: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(part(message, **more)).encode() + b"\n"


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "call_x", "function": {"name": name, "arguments": arguments}}


class TestOllama(ServiceSuite):
    package = "ollama"
    key_variable = "OLLAMA_API_KEY"

    def model(self, server: WireServer, **settings: Any) -> OllamaModel:
        return OllamaModel(**{"api_key": KEY, "base_url": server.url, **settings})

    def whole(self, text: str) -> Any:
        return part({"content": text}, **END)

    def pieces(self, *texts: str) -> list[bytes]:
        return [*(line({"content": text}) for text in texts), line({}), line({}, **END)]

    def error(self, message: str, status: int) -> Any:
        return {"error": message}


@pytest.fixture
def model(server: WireServer) -> OllamaModel:
    return OllamaModel("qwen3:8b", base_url=server.url)


def calls(message: Message) -> list[tuple[str, dict[str, Any]]]:
    return [(one.name, dict(one.arguments)) for one in message.tool_calls]


def test_the_request_has_the_conversation_the_tools_and_the_options(
    server: WireServer, model: OllamaModel
) -> None:
    server.reply(json=part({"content": "ok"}, **END))
    options = {
        "temperature": 0.5,
        "max_tokens": 10,
        "stop": ".",
        "tool_choice": "auto",
        "seed": 7,
        "think": False,
        "options": {"num_ctx": 4096},
        "top_p": None,
    }
    found = complete(model, [Message.system("be brief"), *ASK], [SEARCH], **options)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/chat")
    assert "authorization" not in request.headers
    assert request.json == {
        "model": "qwen3:8b",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Find notes.",
                    "parameters": {
                        "type": "object",
                        "required": ["q"],
                        "properties": {"q": {"type": "string"}},
                    },
                },
            }
        ],
        "stream": False,
        "think": False,
        "options": {"temperature": 0.5, "num_predict": 10, "stop": ["."], "seed": 7, "num_ctx": 4096},
    }
    assert (found.usage, found.model) == (Usage(20, 5), "llama3.2")


def test_a_key_is_sent_and_default_options_are_a_calls_own_to_change(server: WireServer) -> None:
    server.reply(json=part({}, **END)).reply(json=part({}, **END))
    model = OllamaModel(api_key=KEY, base_url=server.url, temperature=0, keep_alive="5m")
    complete(model)
    complete(model, temperature=1)
    first, second = server.requests
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.json["model"] == DEFAULT_MODEL
    assert (first.json["options"], first.json["keep_alive"]) == ({"temperature": 0}, "5m")
    assert second.json["options"] == {"temperature": 1}


def test_the_host_is_taken_from_the_environment(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    server.reply(json=part({"content": "here"}, **END))
    assert complete(OllamaModel()).message.content == "here"


def test_tool_calls_are_read_whole_and_streamed(server: WireServer, model: OllamaModel) -> None:
    both = [call("search", {"q": "milk"}), call("now", {})]
    server.reply(json=part({"tool_calls": both}, **END))
    server.stream(
        [line({"content": "One moment."}), *(line({"tool_calls": [one]}) for one in both), line({}, **END)]
    )
    found = complete(model)
    assert (found.finish_reason, found.message.content) == ("tool_calls", None)
    assert calls(found.message) == [("search", {"q": "milk"}), ("now", {})]
    chunks = stream(model)
    assert whole_text(chunks) == "One moment."
    streamed = chunks[-1].response
    assert streamed is not None
    assert calls(streamed.message) == calls(found.message)
    assert (streamed.finish_reason, streamed.usage) == ("tool_calls", Usage(20, 5))
    ids = [one.id for message in (found.message, streamed.message) for one in message.tool_calls]
    assert len(set(ids)) == 4, "the SDK gives none, so each call gets one of its own"


def test_thinking_is_no_text_but_goes_back_to_the_model(server: WireServer, model: OllamaModel) -> None:
    server.stream(
        [line({"thinking": "Hm, "}), line({"thinking": "milk."}), line({"content": "Milk."}), line({}, **END)]
    )
    server.reply(json=part({"content": "ok"}, **END))
    chunks = stream(model)
    assert whole_text(chunks) == "Milk."
    answer = chunks[-1].response
    assert answer is not None
    complete(model, [*ASK, answer.message, *ASK])
    assert server.requests[1].json["messages"][1] == {
        "role": "assistant",
        "content": "Milk.",
        "thinking": "Hm, milk.",
    }


def test_a_conversation_is_written_as_the_service_reads_it(server: WireServer, model: OllamaModel) -> None:
    server.reply(json=part({"content": "ok"}, **END))
    complete(
        model,
        [
            Message.user("hi"),
            Message.assistant(
                tool_calls=[
                    ToolCall(id="c1", name="search", arguments={"q": ["Ä"]}),
                    ToolCall(id="c2", name="now"),
                ],
                metadata={"anthropic": {"thinking": "not for this one"}},
            ),
            Message.tool(ToolResult(tool_call_id="c1", name="search", content="found")),
            Message.tool(ToolResult(tool_call_id="c2", name="now", error="no clock")),
            Message.user("and? \ud83d"),
        ],
    )
    assert server.requests[0].json["messages"] == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [
                {"function": {"name": "search", "arguments": {"q": ["Ä"]}}},
                {"function": {"name": "now", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "found", "tool_name": "search"},
        {"role": "tool", "content": "Error: no clock", "tool_name": "now"},
        {"role": "user", "content": "and? \ufffd"},
    ]


class Place(BaseModel):
    city: str


class Trip(BaseModel):
    where: Place
    days: int | None = None
    stops: list[Place] = []


def test_what_the_sdk_would_drop_of_a_tools_schema_is_told_in_words(
    server: WireServer, model: OllamaModel
) -> None:
    server.reply(json=part({"content": "ok"}, **END))
    complete(model, ASK, [ToolSpec("book", "Book.", Trip.model_json_schema())])
    sent = server.requests[0].json["tools"][0]["function"]["parameters"]
    assert sent["properties"]["days"]["type"] == "integer"
    assert sent["properties"]["where"]["type"] == "object"
    assert '"city"' in sent["properties"]["where"]["description"]
    assert sent["properties"]["stops"]["items"]["properties"]["city"]["type"] == "string"


def test_structured_output_is_asked_for_by_its_schema(server: WireServer, model: OllamaModel) -> None:
    server.reply(json=part({"content": '{"where": {"city": "Paris"}, "days": 3}'}, **END))
    trip = asyncio.run(complete_as(model, ASK, Trip))
    assert trip == Trip(where=Place(city="Paris"), days=3)
    assert server.requests[0].json["format"] == Trip.model_json_schema()


def test_no_tool_is_offered_when_none_is_wanted_and_none_can_be_forced(
    server: WireServer, model: OllamaModel
) -> None:
    server.reply(json=part({"content": "ok"}, **END))
    complete(model, ASK, [SEARCH], tool_choice="none")
    assert not server.requests[0].json.get("tools")
    for choice in ("required", "search"):
        with pytest.raises(InvalidInput, match="tool_choice"):
            complete(model, ASK, [SEARCH], tool_choice=choice)
    assert len(server.requests) == 1


def test_an_answer_at_its_limit_says_so(server: WireServer, model: OllamaModel) -> None:
    server.reply(json=part({"content": "x"}, **END | {"done_reason": "length"}))
    assert complete(model).finish_reason == "length"


def test_an_error_in_the_middle_of_a_stream_is_told(server: WireServer, model: OllamaModel) -> None:
    server.stream([line({"content": "good"}), b'{"error": "the runner stopped"}\n'])
    chunks, error = broken_stream(model)
    assert [piece.text for piece in chunks] == ["good"]
    assert isinstance(error, ModelUnavailable)
    assert "the runner stopped" in str(error)


def test_a_stream_that_ends_in_half_a_line_is_no_answer(server: WireServer, model: OllamaModel) -> None:
    server.stream([line({"content": "good"}), line({"content": " day"})[:30]])
    assert isinstance(broken_stream(model)[1], ModelUnavailable)


def test_a_model_that_is_not_there_is_told(server: WireServer, model: OllamaModel) -> None:
    server.reply(status=404, json={"error": "model 'qwen3:8b' not found"})
    with pytest.raises(ModelError, match="model 'qwen3:8b' not found") as caught:
        complete(model)
    assert (caught.value.status, caught.value.provider) == (404, "ollama")

"""Cohere's models on OCI Generative AI, which speak a format of their own."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.core.errors import InvalidInput, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import Usage
from holdfast.models.oci import OCIModel
from holdfast.models.structured import complete_as
from tests.models.oci_profile import COMPARTMENT, CONFIG, SEARCH, USAGE, calls, no_thread_is_left
from tests.models.suite import ASK, broken_stream, complete, server, stream, whole_text
from tests.models.wire import WireServer, sse

__all__ = ["no_thread_is_left", "server"]


def result(text: str, finish: str = "COMPLETE", **more: Any) -> dict[str, Any]:
    return {
        "modelId": "m",
        "chatResponse": {"apiFormat": "COHERE", "text": text, "finishReason": finish, **more},
    }


def pieces(*texts: str) -> list[bytes]:
    events = [sse({"apiFormat": "COHERE", "text": text, "pad": "aa"}) for text in texts]
    last = {"apiFormat": "COHERE", "text": "".join(texts), "finishReason": "COMPLETE", "chatHistory": []}
    return [*events, sse(last), sse({"apiFormat": "COHERE", "usage": USAGE})]


@pytest.fixture
def cohere(server: WireServer) -> OCIModel:
    return OCIModel(
        "cohere.command-r", config=CONFIG, compartment_id=COMPARTMENT, service_endpoint=server.url
    )


def test_a_plain_answer_comes_whole_and_in_pieces_and_is_told_once(
    server: WireServer, cohere: OCIModel
) -> None:
    server.reply(json=result("good day", usage=USAGE)).stream(pieces("good", " ", "day"))
    found, chunks = complete(cohere), stream(cohere)
    assert (found.message.content, found.finish_reason, found.usage) == ("good day", "stop", Usage(20, 5, 8))
    assert whole_text(chunks) == "good day"
    assert chunks[-1].response is not None
    assert chunks[-1].response.usage == Usage(20, 5, 8)


def test_a_stream_that_is_cut_or_just_ends_is_no_answer(server: WireServer, cohere: OCIModel) -> None:
    for cut in (True, False):
        server.stream(pieces("good", " day")[:2], cut=cut)
        chunks, error = broken_stream(cohere)
        assert isinstance(error, ModelUnavailable)
        assert all(chunk.response is None for chunk in chunks)


def test_cohere_gets_the_last_message_apart_from_the_history(server: WireServer, cohere: OCIModel) -> None:
    server.reply(json=result("ok"))
    complete(
        cohere,
        [
            Message.system("be brief"),
            Message.user("hi"),
            Message.assistant("Hello."),
            Message.system("be kind"),
            Message.user("search"),
        ],
        [SEARCH],
        max_tokens=5,
        stop=["."],
    )
    assert server.requests[0].json["chatRequest"] == {
        "apiFormat": "COHERE",
        "message": "search",
        "preambleOverride": "be brief",
        "chatHistory": [
            {"role": "USER", "message": "hi"},
            {"role": "CHATBOT", "message": "Hello."},
            {"role": "SYSTEM", "message": "be kind"},
        ],
        "stopSequences": ["."],
        "tools": [
            {
                "name": "search",
                "description": "Find notes.",
                "parameterDefinitions": {
                    "q": {"type": "str", "description": "", "isRequired": True},
                    "n": {"type": "int", "description": "", "isRequired": False},
                },
            }
        ],
        "maxTokens": 5,
    }


def test_cohere_gets_tool_results_with_their_calls(server: WireServer, cohere: OCIModel) -> None:
    server.reply(json=result("ok"))
    first, second = (ToolCall(id=one, name="search", arguments={"q": one}) for one in ("c1", "c2"))
    old = [
        Message.user("one"),
        Message.assistant(tool_calls=[first]),
        Message.tool(ToolResult(tool_call_id="c1", name="search", content="1")),
        Message.user("two"),
    ]
    new = [
        Message.assistant("Hm.", [second]),
        Message.tool(ToolResult(tool_call_id="c2", name="search", content="2")),
    ]
    complete(cohere, [*old, *new])
    sent = server.requests[0].json["chatRequest"]
    assert sent["message"] == ""
    assert sent["toolResults"] == [
        {"call": {"name": "search", "parameters": {"q": "c2"}}, "outputs": [{"output": "2"}]}
    ]
    assert sent["chatHistory"] == [
        {"role": "USER", "message": "one"},
        {"role": "CHATBOT", "message": " ", "toolCalls": [{"name": "search", "parameters": {"q": "c1"}}]},
        {
            "role": "TOOL",
            "toolResults": [
                {"call": {"name": "search", "parameters": {"q": "c1"}}, "outputs": [{"output": "1"}]}
            ],
        },
        {"role": "CHATBOT", "message": "(no answer)"},
        {"role": "USER", "message": "two"},
        {"role": "CHATBOT", "message": "Hm.", "toolCalls": [{"name": "search", "parameters": {"q": "c2"}}]},
    ]


def test_coheres_tool_calls_are_read_whole_and_streamed(server: WireServer, cohere: OCIModel) -> None:
    made = [{"name": "search", "parameters": {"q": "milk"}}, {"name": "now", "parameters": {}}]
    last = {
        "apiFormat": "COHERE",
        "text": "I will look.",
        "toolCalls": made,
        "finishReason": "COMPLETE",
        "usage": USAGE,
    }
    server.reply(json={"modelId": "m", "chatResponse": last})
    server.stream(
        [
            sse({"apiFormat": "COHERE", "text": "I will"}),
            sse({"apiFormat": "COHERE", "text": " look."}),
            sse({"apiFormat": "COHERE", "text": "I will look.", "toolCalls": made}),
            sse(last),
        ]
    )
    found, chunks = complete(cohere), stream(cohere)
    assert whole_text(chunks) == "I will look."
    for answer in (found, chunks[-1].response):
        assert answer is not None
        assert calls(answer.message) == [("search", {"q": "milk"}), ("now", {})]
        assert (answer.finish_reason, answer.usage) == ("tool_calls", Usage(20, 5, 8))
        assert answer.message.content == "I will look."


def test_coheres_ways_to_end_are_told(server: WireServer, cohere: OCIModel) -> None:
    for reason, expected in (("MAX_TOKENS", "length"), ("ERROR_TOXIC", "content_filter")):
        server.reply(json=result("x", reason))
        assert complete(cohere).finish_reason == expected
    server.reply(json=result("x", "ERROR", errorMessage="no room"))
    with pytest.raises(ModelUnavailable, match="no room"):
        complete(cohere)
    with pytest.raises(InvalidInput, match="tool_choice='required'"):
        complete(cohere, ASK, [SEARCH], tool_choice="required")
    server.reply(json=result("x"))
    complete(cohere, ASK, [SEARCH], tool_choice="none")
    assert "tools" not in server.requests[-1].json["chatRequest"]


class Note(BaseModel):
    title: str


def test_structured_output_is_asked_for_by_its_schema(server: WireServer, cohere: OCIModel) -> None:
    server.reply(json=result('{"title": "milk"}'))
    assert asyncio.run(complete_as(cohere, ASK, Note)) == Note(title="milk")
    asked = server.requests[0].json["chatRequest"]["responseFormat"]
    assert asked == {"type": "JSON_OBJECT", "schema": Note.model_json_schema()}


def test_a_dedicated_endpoint_may_speak_the_format_too(server: WireServer) -> None:
    server.reply(json=result("ok"))
    name = "ocid1.generativeaiendpoint.oc1..x"
    model = OCIModel(
        name, api_format="COHERE", config=CONFIG, compartment_id=COMPARTMENT, base_url=server.url
    )
    assert complete(model).message.content == "ok"
    assert server.requests[0].json["servingMode"] == {"servingType": "DEDICATED", "endpointId": name}

"""OCI Generative AI: its SDK against a server on loopback, with requests signed by a throw-away key."""

import asyncio
import base64
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from pydantic import BaseModel

from holdfast.core.errors import InvalidInput, ModelError, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import INVALID_ARGUMENTS, Usage
from holdfast.models.oci import DEFAULT_MODEL, OCIModel
from holdfast.models.structured import complete_as
from tests.models.oci_profile import COMPARTMENT, CONFIG, PRIVATE, SEARCH, USAGE, calls, no_thread_is_left
from tests.models.suite import ASK, ServiceSuite, broken_stream, complete, server, stream, whole_text
from tests.models.wire import WireServer, sse

__all__ = ["no_thread_is_left", "server"]


def text_part(text: str) -> dict[str, Any]:
    return {"role": "ASSISTANT", "content": [{"type": "TEXT", "text": text}]}


def result(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {
        "modelId": "openai.gpt-4.1",
        "modelVersion": "1.0",
        "chatResponse": {
            "apiFormat": "GENERIC",
            "timeCreated": "2026-01-01T00:00:00.000Z",
            "choices": [{"index": 0, "message": {"role": "ASSISTANT", **message}, "finishReason": finish}],
            "usage": USAGE,
        },
    }


def call(arguments: str | None, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "FUNCTION"}
    return part | {
        key: value
        for key, value in {"id": id, "name": name, "arguments": arguments}.items()
        if value is not None
    }


def event(message: dict[str, Any], finish: str | None = None) -> bytes:
    wire: dict[str, Any] = {"index": 0, "message": {"role": "ASSISTANT", **message}, "pad": "aaaa"}
    return sse(wire | ({"finishReason": finish} if finish else {}))


def call_event(*parts: dict[str, Any]) -> bytes:
    return event({"toolCalls": list(parts)})


class TestOCI(ServiceSuite):
    package = "oci"
    key_variable = "OCI_CONFIG_FILE"

    def model(self, server: WireServer, **settings: Any) -> OCIModel:
        fixed = {"config": CONFIG, "compartment_id": COMPARTMENT, "service_endpoint": server.url}
        return OCIModel(**{**fixed, **settings})

    def whole(self, text: str) -> Any:
        return result({"content": [{"type": "TEXT", "text": text}]})

    def pieces(self, *texts: str) -> list[bytes]:
        return [*(event(text_part(text)) for text in texts), event({}, "stop"), sse({"usage": USAGE})]

    def error(self, message: str, status: int) -> Any:
        return {"code": "Oops", "message": message}


@pytest.fixture
def model(server: WireServer) -> OCIModel:
    return OCIModel(config=CONFIG, compartment_id=COMPARTMENT, service_endpoint=server.url)


# ---------------------------------------------------------------------------------------------------- the request


def test_a_request_is_signed_with_the_profiles_key(server: WireServer, model: OCIModel) -> None:
    server.reply(json=result({"content": [{"type": "TEXT", "text": "ok"}]}))
    complete(model)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/20231130/actions/chat")
    scheme, _, rest = request.headers["authorization"].partition(" ")
    fields = dict(part.split("=", 1) for part in rest.split('",'))
    given = {name: value.strip('"') for name, value in fields.items()}
    assert scheme == "Signature"
    assert given["keyId"] == f"{CONFIG['tenancy']}/{CONFIG['user']}/{CONFIG['fingerprint']}"
    lines = []
    for name in given["headers"].split():
        target = f"post {request.path}" if name == "(request-target)" else request.headers[name]
        lines.append(f"{name}: {target}")
    assert {"x-content-sha256", "(request-target)", "date", "host"} <= set(given["headers"].split())
    PRIVATE.public_key().verify(
        base64.b64decode(given["signature"]), "\n".join(lines).encode(), padding.PKCS1v15(), hashes.SHA256()
    )


def test_the_request_has_the_conversation_the_tools_and_the_options(
    server: WireServer, model: OCIModel
) -> None:
    server.reply(json=result({"content": [{"type": "TEXT", "text": "ok"}]}))
    options = {
        "temperature": 0.5,
        "max_tokens": 10,
        "stop": ".",
        "tool_choice": "search",
        "seed": 7,
        "top_p": None,
    }
    found = complete(model, [Message.system("be brief"), *ASK], [SEARCH], **options)
    assert server.requests[0].json == {
        "compartmentId": COMPARTMENT,
        "servingMode": {"servingType": "ON_DEMAND", "modelId": DEFAULT_MODEL},
        "chatRequest": {
            "apiFormat": "GENERIC",
            "messages": [
                {"role": "SYSTEM", "content": [{"type": "TEXT", "text": "be brief"}]},
                {"role": "USER", "content": [{"type": "TEXT", "text": "hello"}]},
            ],
            "tools": [
                {
                    "type": "FUNCTION",
                    "name": "search",
                    "description": "Find notes.",
                    "parameters": {
                        "type": "object",
                        "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
                        "required": ["q"],
                    },
                }
            ],
            "toolChoice": {"type": "FUNCTION", "name": "search"},
            "stop": ["."],
            "temperature": 0.5,
            "maxCompletionTokens": 10,
            "seed": 7,
        },
    }
    assert (found.usage, found.model, found.finish_reason) == (Usage(20, 5, 8), "openai.gpt-4.1", "stop")


@pytest.mark.parametrize(
    ("name", "mode", "limit"),
    [
        ("meta.llama-3.3-70b-instruct", {"servingType": "ON_DEMAND"}, "maxTokens"),
        ("openai.gpt-oss-120b", {"servingType": "ON_DEMAND"}, "maxTokens"),
        ("ocid1.generativeaiendpoint.oc1..x", {"servingType": "DEDICATED"}, "maxTokens"),
        ("openai.gpt-5", {"servingType": "ON_DEMAND"}, "maxCompletionTokens"),
    ],
)
def test_the_mode_and_the_limit_are_those_that_the_model_knows(
    server: WireServer, name: str, mode: dict[str, str], limit: str
) -> None:
    server.reply(json=result({"content": []}))
    model = OCIModel(name, config=CONFIG, compartment_id=COMPARTMENT, base_url=server.url)
    complete(model, max_tokens=5, tool_choice="auto")
    sent = server.requests[0].json
    assert sent["servingMode"].items() >= mode.items()
    assert name in sent["servingMode"].values()
    assert {key: value for key, value in sent["chatRequest"].items() if "max" in key} == {limit: 5}
    assert "toolChoice" not in sent["chatRequest"], "there are no tools to choose from"


def test_a_conversation_is_written_as_the_service_reads_it(server: WireServer, model: OCIModel) -> None:
    server.reply(json=result({"content": []}))
    complete(
        model,
        [
            Message.user("hi"),
            Message.assistant(tool_calls=[ToolCall(id="c1", name="search", arguments={"q": "Ä"})]),
            Message.tool(ToolResult(tool_call_id="c1", name="search", error="no disk")),
            Message.assistant("Sorry."),
            Message.user("and? \ud83d"),
        ],
    )
    assert server.requests[0].json["chatRequest"]["messages"] == [
        {"role": "USER", "content": [{"type": "TEXT", "text": "hi"}]},
        {
            "role": "ASSISTANT",
            "toolCalls": [{"id": "c1", "type": "FUNCTION", "name": "search", "arguments": '{"q": "Ä"}'}],
        },
        {"role": "TOOL", "toolCallId": "c1", "content": [{"type": "TEXT", "text": "Error: no disk"}]},
        {"role": "ASSISTANT", "content": [{"type": "TEXT", "text": "Sorry."}]},
        {"role": "USER", "content": [{"type": "TEXT", "text": "and? \ufffd"}]},
    ]


# ----------------------------------------------------------------------------------------------------- tool calls


def test_tool_calls_are_read_and_malformed_arguments_kept(server: WireServer, model: OCIModel) -> None:
    made = [call('{"q": "milk"}', "c1", "search"), call('{"q": "mi', "c2", "search"), call(None, "c3", "now")]
    server.reply(json=result({"content": None, "toolCalls": made}, "tool_calls"))
    found = complete(model)
    assert (found.finish_reason, found.message.content) == ("tool_calls", None)
    assert calls(found.message) == [
        ("search", {"q": "milk"}),
        ("search", {INVALID_ARGUMENTS: '{"q": "mi'}),
        ("now", {}),
    ]
    assert [one.id for one in found.message.tool_calls] == ["c1", "c2", "c3"]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [
                call_event(call("", "c1", "search")),
                call_event(call('{"q": ')),
                call_event(call('"milk"}')),
                call_event(call("", "c2", "search")),
                call_event(call('{"q": "tea"}')),
            ],
            id="in pieces",
        ),
        pytest.param(
            [
                call_event(call('{"q": ', "c1", "search"), call('{"q"', "c2", "search")),
                call_event(call('"milk"}'), call(': "tea"}')),
            ],
            id="side by side",
        ),
        pytest.param(
            [
                call_event(call('{"q": "milk"}', "c1", "search")),
                call_event(call('{"q": "tea"}', "c2", "search")),
            ],
            id="whole",
        ),
        pytest.param(
            [
                call_event(call('{"q": "milk"}', None, "search")),
                call_event(call('{"q": "tea"}', None, "search")),
            ],
            id="whole and without ids",
        ),
    ],
)
def test_streamed_tool_calls_are_put_together_as_each_family_of_models_sends_them(
    server: WireServer, model: OCIModel, events: list[bytes]
) -> None:
    server.stream(
        [
            event(text_part("One moment.")),
            *events,
            event({}, "tool_calls"),
            sse({"usage": USAGE}),
            sse("[DONE]"),
        ]
    )
    chunks = stream(model)
    assert whole_text(chunks) == "One moment."
    found = chunks[-1].response
    assert found is not None
    assert calls(found.message) == [("search", {"q": "milk"}), ("search", {"q": "tea"})]
    assert (found.finish_reason, found.usage) == ("tool_calls", Usage(20, 5, 8))
    assert len({one.id for one in found.message.tool_calls}) == 2
    sent = server.requests[0].json["chatRequest"]
    assert (sent["isStream"], sent["streamOptions"]) == (True, {"isIncludeUsage": True})


# --------------------------------------------------------------------------------------------------------- others


class Note(BaseModel):
    title: str
    tags: list[str] = []


def test_structured_output_is_asked_for_by_its_schema(server: WireServer, model: OCIModel) -> None:
    text = '{"title": "milk", "tags": []}'
    server.reply(json=result({"content": [{"type": "TEXT", "text": text}]}))
    assert asyncio.run(complete_as(model, ASK, Note)) == Note(title="milk")
    asked = server.requests[0].json["chatRequest"]["responseFormat"]
    assert asked["type"] == "JSON_SCHEMA"
    assert (asked["jsonSchema"]["name"], asked["jsonSchema"]["isStrict"]) == ("Note", True)
    assert asked["jsonSchema"]["schema"]["required"] == ["title", "tags"]


def test_an_error_in_the_middle_of_a_stream_is_told(server: WireServer, model: OCIModel) -> None:
    server.stream([event(text_part("good")), sse({"code": "500", "message": "overloaded"})])
    chunks, error = broken_stream(model)
    assert [piece.text for piece in chunks] == ["good"]
    assert isinstance(error, ModelUnavailable)
    assert "overloaded" in str(error)


def test_a_stream_that_ends_in_half_an_event_is_no_answer(server: WireServer, model: OCIModel) -> None:
    server.stream([event(text_part("good")), event(text_part(" day"))[:25]])
    assert isinstance(broken_stream(model)[1], ModelUnavailable)


def test_types_with_a_charset_are_read_as_well(server: WireServer, model: OCIModel) -> None:
    body = json.dumps(result({"content": [{"type": "TEXT", "text": "ok"}]})).encode()
    server.reply(body=body, headers={"Content-Type": "application/json; charset=utf-8"})
    assert complete(model).message.content == "ok"
    kind = {"Content-Type": "text/event-stream;charset=utf-8"}
    server.stream(TestOCI().pieces("good", " day"), headers=kind)
    assert whole_text(stream(model)) == "good day"


def test_the_profile_is_read_from_a_file_and_the_environment(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.pem"
    key.write_text(CONFIG["key_content"])
    lines = [f"{name}={value}" for name, value in CONFIG.items() if name != "key_content"]
    file = tmp_path / "config"
    file.write_text("\n".join(["[DEFAULT]", "[work]", *lines, f"key_file={key}"]))
    for name, value in {
        "OCI_CONFIG_FILE": str(file),
        "OCI_CONFIG_PROFILE": "work",
        "OCI_COMPARTMENT_ID": COMPARTMENT,
        "OCI_GENAI_ENDPOINT": server.url,
    }.items():
        monkeypatch.setenv(name, value)
    server.reply(json=result({"content": [{"type": "TEXT", "text": "ok"}]}))
    assert complete(OCIModel()).message.content == "ok"
    monkeypatch.setenv("OCI_CONFIG_PROFILE", "none")
    with pytest.raises(InvalidInput, match=r"'none' can't be used.*OCI_CONFIG_FILE"):
        OCIModel()
    monkeypatch.setenv("OCI_CONFIG_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="OCI_CONFIG_FILE"):
        OCIModel()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"compartment_id": None}, "OCI_COMPARTMENT_ID"),
        ({"config": {"user": "x"}}, "config="),
        ({"auth": "password"}, "auth"),
        ({"api_format": "cohere"}, "api_format"),
    ],
)
def test_what_is_missing_or_wrong_is_told_before_anything_is_sent(
    settings: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OCI_COMPARTMENT_ID", raising=False)
    with pytest.raises(InvalidInput, match=told):
        OCIModel(**{"config": CONFIG, "compartment_id": COMPARTMENT, **settings})


@pytest.mark.parametrize("auth", ["instance_principal", "resource_principal"])
def test_the_identity_of_the_machine_is_asked_for_by_the_call_that_needs_it(
    server: WireServer, auth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oci.auth import signers

    made = []

    class Principal(signers.SecurityTokenSigner):  # type: ignore[misc]  # the SDK has no types
        def __init__(self) -> None:
            made.append(threading.current_thread().name)
            super().__init__("token", PRIVATE)

    monkeypatch.setattr(signers, "InstancePrincipalsSecurityTokenSigner", Principal)
    monkeypatch.setattr(signers, "get_resource_principals_signer", Principal)
    server.reply(json=result({"content": [{"type": "TEXT", "text": "ok"}]}))
    model = OCIModel(auth=auth, compartment_id=COMPARTMENT, service_endpoint=server.url)
    assert made == []
    assert complete(model).message.content == "ok"
    assert 'keyId="ST$token"' in server.requests[0].headers["authorization"]
    assert made == ["holdfast-oci"], "it may take long, so it must not be done on the event loop"


def test_a_model_that_is_not_there_is_told(server: WireServer, model: OCIModel) -> None:
    server.reply(status=404, json={"code": "NotAuthorizedOrNotFound", "message": "no such entity"})
    with pytest.raises(
        ModelError, match="NotAuthorizedOrNotFound: no such entity; check the model's name"
    ) as caught:
        complete(model)
    assert (caught.value.status, caught.value.provider) == (404, "oci")

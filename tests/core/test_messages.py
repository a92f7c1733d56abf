"""Messages: immutable, strictly equal, stored compactly, and never read back broken."""

import copy
import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.core import codec
from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.core.messages import (
    Message,
    Role,
    ToolCall,
    ToolResult,
    decode_message,
    decode_messages,
    encode_message,
)

CALL = ToolCall(id="c1", name="look", arguments={"q": [1, {"deep": [2]}]})
RESULT = ToolResult(tool_call_id="c1", name="look", content="found", duration_ms=1.5)
MESSAGES = [
    Message.system("be kind"),
    Message.user(
        "hi \x00 \ud800 \U0001f600", name="ann", metadata={"when": datetime(2026, 1, 1, tzinfo=UTC)}
    ),
    Message.user(""),
    Message.user("\ud83d\ude00", name="\ud83d\ude00"),
    Message.user("\U0001f600"),
    Message.assistant("ok"),
    Message.assistant(),
    Message.assistant(tool_calls=[CALL, ToolCall(name="none")]),
    Message.tool(RESULT),
    Message.user("x", metadata={"$hf": {"$hf": 1}, "t": (1, 2), "s": {3}}),
]


def test_constructors_say_who_speaks() -> None:
    assert [m.role for m in MESSAGES] == [
        Role(name) for name in ("system", "user", "user", "user", "user")
    ] + [
        Role.ASSISTANT,
        Role.ASSISTANT,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
    ]
    assert Message.user("hi") == Message(role=Role.USER, content="hi")
    assert Message.model_validate({"role": "user", "content": "hi"}) == Message.user("hi")
    assert Message.user("hi").role == "user"
    assert f"{Role.USER}" == "user"


def test_every_field_refuses_assignment_and_every_container_refuses_change() -> None:
    message = Message.assistant("x", [CALL], metadata={"a": {"b": [1]}})
    for name in Message.model_fields:
        with pytest.raises(ValidationError):
            setattr(message, name, None)
    with pytest.raises(TypeError):
        message.metadata["a"]["b"].append(2)
    with pytest.raises(TypeError):
        message.tool_calls[0].arguments["q"][1]["deep"].append(3)


def test_what_was_passed_in_may_change_later_without_effect() -> None:
    metadata: dict[str, Any] = {"a": [1]}
    arguments: dict[str, Any] = {"q": [1]}
    message = Message.assistant("x", [ToolCall(name="t", arguments=arguments)], metadata=metadata)
    metadata["a"].append(2)
    arguments["q"].append(2)
    assert message.metadata == {"a": [1]}
    assert message.tool_calls[0].arguments == {"q": [1]}


def test_a_dump_is_plain_and_free_to_change() -> None:
    message = Message.assistant("x", [CALL], metadata={"a": [1]})
    dump = message.model_dump()
    dump["metadata"]["a"].append(2)
    dump["tool_calls"][0]["arguments"]["q"].append(3)
    assert message.metadata == {"a": [1]}
    assert Message.model_validate(message.model_dump()) == message
    assert Message.model_validate_json(message.model_dump_json()) == message


def test_a_copy_with_an_update_is_validated() -> None:
    message = Message.user("x")
    changed = message.model_copy(update={"metadata": {"a": [1]}})
    with pytest.raises(TypeError):
        changed.metadata["a"].append(2)
    with pytest.raises(ValidationError):
        message.model_copy(update={"role": "nobody"})
    with pytest.raises(ValidationError):
        message.model_copy(update={"unheard": 1})


@pytest.mark.parametrize("message", MESSAGES)
def test_copies_and_pickles_are_equal(message: Message) -> None:
    assert copy.copy(message) == message
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message
    assert hash(copy.deepcopy(message)) == hash(message)
    assert codec.loads(codec.dumps(message)) == message


def test_equality_sees_types_and_every_field() -> None:
    assert Message.user("x", metadata={"a": 1}) != Message.user("x", metadata={"a": True})
    assert Message.user("x", metadata={"a": 1}) != Message.user("x", metadata={"a": 1.0})
    assert Message.user("x", metadata={"a": float("nan")}) == Message.user("x", metadata={"a": float("nan")})
    assert ToolCall(id="1", name="t", arguments={"a": 1}) != ToolCall(id="1", name="t", arguments={"a": True})
    assert len({encode_message(m) for m in MESSAGES}) == len(MESSAGES)
    assert all((a == b) == (a is b) for a in MESSAGES for b in MESSAGES)
    assert Message.user("x") != "x"
    assert Message.user("x", metadata={"a": object}) == Message.user("x", metadata={"a": object})


def test_a_tool_call_without_an_id_gets_one_of_its_own() -> None:
    assert ToolCall(name="t").id != ToolCall(name="t").id


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (None, "null"),
        (7, "7"),
    ],
)
def test_a_result_of_any_type_becomes_text(content: Any, text: str) -> None:
    assert ToolResult(tool_call_id="1", name="t", content=content).content == text


def test_a_result_that_has_no_json_form_or_repr_still_becomes_text() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    odd: Any = Odd()
    broken: Any = Broken()
    assert ToolResult(tool_call_id="1", name="t", content=odd).content.startswith("<odd> (repr of a Odd")
    assert "Broken" in ToolResult(tool_call_id="1", name="t", content=broken).content


def test_a_tool_message_loses_nothing_of_a_failed_result() -> None:
    result = ToolResult(tool_call_id="c1", name="t", content="half done", error="boom", duration_ms=3)
    message = Message.tool(result, metadata={"mine": 1})
    assert not result.success
    assert message.content == "Error: boom\n\nhalf done"
    assert message.metadata == {"mine": 1, "error": "boom", "duration_ms": 3.0}
    assert (message.tool_call_id, message.name) == ("c1", "t")
    assert RESULT.success
    assert Message.tool(RESULT).content == "found"


def test_constructors_refuse_what_is_not_text() -> None:
    wrong: Any = 5
    for make in (Message.user, Message.system, Message.assistant):
        with pytest.raises(InvalidInput, match="string, got int"):
            make(wrong)
    with pytest.raises(InvalidInput, match="ToolResult, got int"):
        Message.tool(wrong)
    with pytest.raises(InvalidInput, match=r"tool_calls\[0\] must be a ToolCall, got int"):
        Message.assistant("x", [wrong])
    with pytest.raises(InvalidInput, match="mapping"):
        Message.user("x", metadata=wrong)
    with pytest.raises(InvalidInput, match="name"):
        Message.user("x", name=wrong)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_stored_message_comes_back_equal(message: Message) -> None:
    text = encode_message(message)
    text.encode()
    json.loads(text)
    assert decode_message(text) == message
    assert encode_message(decode_message(text)) == text


def test_the_stored_form_has_only_the_fields_that_say_something() -> None:
    assert encode_message(Message.user("hé")) == '{"role":"user","content":"hé"}'
    assert encode_message(Message.assistant()) == '{"role":"assistant"}'
    assert json.loads(encode_message(Message.assistant(None, [CALL]))) == {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "name": "look", "arguments": {"q": [1, {"deep": [2]}]}}],
    }


def test_many_messages_are_read_at_once() -> None:
    assert decode_messages([encode_message(m) for m in MESSAGES]) == MESSAGES
    assert decode_messages([]) == []


def test_a_read_message_is_frozen_too() -> None:
    message = decode_message(encode_message(Message.assistant("x", [CALL], metadata={"a": [1]})))
    with pytest.raises(TypeError):
        message.metadata["a"].append(1)
    with pytest.raises(TypeError):
        message.tool_calls[0].arguments["q"].append(1)
    assert message.model_copy(update={"content": "y"}).content == "y"


BAD = [
    "",
    "null",
    "5",
    "[]",
    '"user"',
    "{}",
    '{"role":"user"',
    '{"role":"user","content":"a"},{"role":"user","content":"b"}',
    '{"content":"x"}',
    '{"role":"nobody","content":"x"}',
    '{"role":["user"],"content":"x"}',
    '{"role":"user","content":5}',
    '{"role":"user","unheard":5}',
    '{"role":"user","content":"x","unheard":5}',
    '{"role":"user","name":5}',
    '{"role":"user","tool_call_id":{}}',
    '{"role":"user","metadata":[]}',
    '{"role":"user","metadata":null}',
    '{"role":"user","metadata":{"$hf":"dict","v":[[1,2]]}}',
    '{"role":"user","tool_calls":5}',
    '{"role":"user","tool_calls":[5]}',
    '{"role":"user","tool_calls":[{"id":"a"}]}',
    '{"role":"user","tool_calls":[{"name":"b"}]}',
    '{"role":"user","tool_calls":[{"id":1,"name":"b"}]}',
    '{"role":"user","tool_calls":[{"id":"a","name":"b","arguments":[]}]}',
    '{"role":"user","tool_calls":[{"id":"a","name":"b","more":1}]}',
    '{"role":"user","content":{"$hf":"bytes","v":"@"}}',
]


@pytest.mark.parametrize("text", BAD)
def test_a_damaged_message_is_corrupt_and_its_index_is_named(text: str) -> None:
    good = encode_message(Message.user("x"))
    with pytest.raises(Corrupt):
        decode_message(text)
    with pytest.raises(Corrupt) as caught:
        decode_messages([good, good, text, good])
    assert caught.value.place == "messages[2]"


def test_what_cant_be_stored_is_named_by_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"^message\.metadata\.a\[0\] is a builtins\.object"):
        encode_message(Message.user("x", metadata={"a": [object()]}))
    call = ToolCall(name="t", arguments={"b": object()})
    with pytest.raises(InvalidInput, match=r"^message\.tool_calls\[1\]\.arguments\.b is a"):
        encode_message(Message.assistant(None, [CALL, call]))


def test_a_subclass_is_refused_rather_than_stored_without_its_fields() -> None:
    class Rated(Message):
        stars: int = 0

    assert Rated.user("x") != Message.user("x")
    assert Rated.user("x").model_copy(update={"stars": 2}) != Rated.user("x")
    with pytest.raises(InvalidInput, match="Rated"):
        encode_message(Rated.user("x"))


@settings(deadline=None)
@given(
    st.sampled_from(list(Role)),
    st.none() | st.text(st.characters()),
    st.none() | st.text(),
    st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans())),
)
def test_any_message_round_trips(role: Role, content: str | None, name: str | None, metadata: Any) -> None:
    message = Message(role=role, content=content, name=name, metadata=metadata)
    assert decode_messages([encode_message(message)] * 2) == [message, message]

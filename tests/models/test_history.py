"""A conversation that some model spoiled must still be one that a service takes: else the thread is stuck."""

import json
import math
from typing import Any

import pytest

from holdfast.core.messages import Message, ToolCall
from holdfast.models.anthropic_format import to_wire_messages as to_anthropic
from holdfast.models.openai_format import to_wire_arguments, to_wire_messages


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("search", "search"),
        ("functions.search", "functions_search"),
        ("söße tool\n", "s__e_tool_"),
        ("", "unknown"),
        ("x" * 80, "x" * 64),
    ],
)
def test_a_tool_that_a_model_made_up_is_sent_back_under_a_name_that_services_take(
    name: str, sent: str
) -> None:
    message = Message.assistant(None, [ToolCall(id="a", name=name)])
    assert to_wire_messages([message])[0]["tool_calls"][0]["function"]["name"] == sent
    (block,) = to_anthropic([Message.user("x"), message])[1][1]["content"]
    assert block["name"] == sent


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"x": math.nan, "y": [math.inf, 1.5]}, {"x": None, "y": [None, 1.5]}),
        ({"x": {(1, 2): "a", 3: "b"}}, {"x": {"(1, 2)": "a", "3": "b"}}),
        ({"x": math.nan, "name": "\udcff"}, {"x": None, "name": "\ufffd"}),
    ],
    ids=["numbers", "keys", "half a character"],
)
def test_arguments_that_json_does_not_have_are_sent_back_as_json(
    arguments: dict[str, Any], sent: dict[str, Any]
) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(to_wire_arguments(arguments), parse_constant=refuse) == sent

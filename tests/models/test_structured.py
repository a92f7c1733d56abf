"""Answers of a given shape: read from what models write, checked, asked for again."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from holdfast.core.errors import InvalidInput, ModelError
from holdfast.core.messages import Message
from holdfast.models.base import ModelResponse, ToolSpec
from holdfast.models.structured import complete_as, json_schema, parse_json, schema_name, strict_schema
from holdfast.testing import FunctionModel

ASK = [Message.user("make a note")]
PLAIN = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


class Note(BaseModel):
    title: str
    stars: int = Field(default=1, ge=1, le=5)


class Scripted:
    """Answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: str | ModelResponse) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[list[Message], dict[str, Any]]] = []
        self.model = FunctionModel(self._answer)

    def _answer(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> Any:
        self.asked.append((list(messages), options))
        return self.answers.pop(0)


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "milk"}',
        '```json\n{"title": "milk"}\n```',
        'Here you are: {"title": "milk"} - anything else?',
        'A {thing} first, then\n{"title": "milk"}',
        ' \n{"title":\n"milk"}',
    ],
)
def test_json_is_found_in_what_models_write_around_it(text: str) -> None:
    assert parse_json(text) == {"title": "milk"}
    assert asyncio.run(complete_as(Scripted(text).model, ASK, Note)) == Note(title="milk")


@pytest.mark.parametrize("text", ["", "no", "{", '{"title": '])
def test_an_answer_without_json_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        parse_json(text)


def test_the_model_is_asked_for_the_schema_with_the_options() -> None:
    script = Scripted('{"title": "milk"}')
    asyncio.run(complete_as(script.model, ASK, Note, temperature=0))
    assert script.asked == [(ASK, {"response_schema": Note, "temperature": 0})]


def test_an_answer_that_does_not_fit_is_shown_with_the_reason_and_asked_for_again() -> None:
    script = Scripted('{"title": "milk", "stars": 9}', '{"title": "milk", "stars": 5}')
    assert asyncio.run(complete_as(script.model, ASK, Note)) == Note(title="milk", stars=5)
    again = script.asked[1][0]
    assert again[:2] == [*ASK, Message.assistant('{"title": "milk", "stars": 9}')]
    assert "stars: Input should be less than or equal to 5" in (again[2].content or "")
    assert json.dumps(Note.model_json_schema()) in (again[2].content or "")


def test_after_the_last_attempt_the_error_says_what_was_wrong() -> None:
    script = Scripted(*['{"stars": 2}'] * 3)
    with pytest.raises(ModelError, match="Note: title: Field required"):
        asyncio.run(complete_as(script.model, ASK, Note, attempts=3))
    assert len(script.asked) == 3


def test_an_answer_that_was_cut_off_says_so() -> None:
    cut = ModelResponse(Message.assistant('{"title": "mi'), finish_reason="length")
    with pytest.raises(ModelError, match="max_tokens"):
        asyncio.run(complete_as(Scripted(cut).model, ASK, Note, attempts=1))


def test_a_json_schema_gives_plain_data_with_what_it_requires() -> None:
    script = Scripted("[1]", '{"name": "x"}', '{"title": "milk", "more": 1}')
    found = asyncio.run(complete_as(script.model, ASK, PLAIN, attempts=3))
    assert found == {"title": "milk", "more": 1}
    assert "JSON object" in (script.asked[1][0][-1].content or "")
    assert "lacks title" in (script.asked[2][0][-1].content or "")


def test_what_is_no_schema_is_refused_before_the_model_is_asked() -> None:
    script = Scripted()
    wrong: Any = "Note"
    with pytest.raises(InvalidInput, match="response_schema"):
        asyncio.run(complete_as(script.model, ASK, wrong))
    with pytest.raises(InvalidInput, match="attempts"):
        asyncio.run(complete_as(script.model, ASK, Note, attempts=0))
    assert script.asked == []


def test_a_schema_is_copied_and_named() -> None:
    copy = json_schema(PLAIN)
    copy["properties"]["title"] = {}
    assert PLAIN["properties"] == {"title": {"type": "string"}}
    assert (schema_name(Note), schema_name(PLAIN)) == ("Note", "answer")
    assert schema_name({"title": "My note: short"}) == "My_note__short"


class Inner(BaseModel):
    x: int | None = None
    kind: Literal["a", "b"] = "a"


class Outer(BaseModel):
    """Nested."""

    inner: Inner = Field(default=Inner(), description="the inner one")
    many: list[Inner] = []
    either: Inner | str = ""


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every schema of an object in a schema."""
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    inside = [found for item in schema.values() for found in objects(item)]
    return [schema, *inside] if "properties" in schema else inside


def test_a_strict_schema_closes_every_object_and_requires_every_property() -> None:
    strict = strict_schema(Outer.model_json_schema())
    assert strict is not None
    found = objects(strict)
    assert len(found) == 2
    for schema in found:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
    assert '"default"' not in json.dumps(strict)
    assert strict["properties"]["inner"] == {"$ref": "#/$defs/Inner"}


class Free(BaseModel):
    extra: dict[str, int]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


PET: TypeAdapter[Cat | Dog] = TypeAdapter(Annotated[Cat | Dog, Field(discriminator="kind")])


@pytest.mark.parametrize(
    "schema",
    [
        Free.model_json_schema(),
        PET.json_schema(),
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "array", "items": {"type": "object"}},
        {"type": "object", "properties": {"x": {"allOf": []}}},
        {"anyOf": [{"type": "object"}]},
        {"type": "object", "properties": {"x": {"type": "string", "format": "uri"}}},
        {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(?!-)x"}}},
        {"$defs": {"A": {"not": {}}}, "$ref": "#/$defs/A"},
    ],
)
def test_what_strict_services_do_not_know_is_not_made_strict(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None

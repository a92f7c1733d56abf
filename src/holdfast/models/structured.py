"""Answers of a given shape: the schema to ask a provider for, and a call that insists until the answer fits."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from pydantic import BaseModel, ValidationError

from holdfast.core.errors import InvalidInput, ModelError
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message
from holdfast.models.base import Model, as_response
from holdfast.models.metering import count

__all__ = ["complete_as", "json_schema", "parse_json", "schema_name", "strict_schema"]

T = TypeVar("T", bound=BaseModel)

Schema = type[BaseModel] | Mapping[str, Any]

_STRICT_WORDS: Final = frozenset(
    "$defs $ref additionalProperties anyOf const default description enum exclusiveMaximum exclusiveMinimum format"
    " items maxItems maximum minItems minimum multipleOf pattern properties required title type".split()
)


_STRICT_FORMATS: Final = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())


def json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON schema of a ``response_schema``: that of a pydantic class, or a copy of the one given."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    if isinstance(schema, Mapping):
        copy: dict[str, Any] = thaw(dict(schema))
        return copy
    raise InvalidInput(
        f"response_schema must be a pydantic class or a JSON schema (a dict), got {type(schema).__name__}"
    )


def schema_name(schema: Schema) -> str:
    """A name for the shape that every provider accepts: letters, digits, ``_`` and ``-``."""
    title = schema.__name__ if isinstance(schema, type) else str(schema.get("title") or "answer")
    return re.sub(r"[^A-Za-z0-9_-]", "_", title)[:64]


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """`schema` as services want it that keep to one exactly: closed objects, every property required.

    None if it says something that they don't all know, such as an object with free keys. What fits the strict
    schema fits `schema` too.
    """
    if not schema.keys() <= _STRICT_WORDS or (schema.keys() & {"$ref", "anyOf"} and "properties" in schema):
        return None
    if schema.get("format", "date") not in _STRICT_FORMATS or "(?" in schema.get("pattern", ""):
        return None
    strict = {key: value for key, value in schema.items() if key != "default"}
    if "$ref" in strict:  # these services want no words beside a reference; the definitions are the root's
        strict = {key: value for key, value in strict.items() if key in ("$ref", "$defs")}
    if strict.get("type") == "object":
        if "properties" not in strict or strict.get("additionalProperties", False) is not False:
            return None
        strict |= {"additionalProperties": False, "required": list(strict["properties"])}
    for word in ("properties", "$defs"):
        if word in strict:
            strict[word] = {name: strict_schema(item) for name, item in strict[word].items()}
            if None in strict[word].values():
                return None
    if "anyOf" in strict:
        strict["anyOf"] = [strict_schema(item) for item in strict["anyOf"]]
        if None in strict["anyOf"]:
            return None
    if "items" in strict:
        strict["items"] = strict_schema(strict["items"])
        if strict["items"] is None:
            return None
    return strict


def parse_json(text: str) -> Any:
    """The JSON value in a model's answer, also inside a code fence or between words, else `ValueError`."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    for start in re.finditer(r"[{\[]", text):
        try:
            return json.JSONDecoder().raw_decode(text, start.start())[0]
        except (ValueError, RecursionError):
            continue
    raise ValueError("the answer has no JSON in it")


@overload
async def complete_as(
    model: Model, messages: Sequence[Message], schema: type[T], *, attempts: int = 2, **options: Any
) -> T: ...


@overload
async def complete_as(
    model: Model, messages: Sequence[Message], schema: Mapping[str, Any], *, attempts: int = 2, **options: Any
) -> Any: ...


async def complete_as(
    model: Model, messages: Sequence[Message], schema: Schema, *, attempts: int = 2, **options: Any
) -> Any:
    """The model's answer as an instance of the pydantic class `schema`; for a JSON schema, as plain data.

    An answer that doesn't fit is shown to the model with the reason, up to `attempts` tries in all; then
    `ModelError`. Plain data is checked to be JSON with the properties that the schema requires, no deeper.
    """
    if attempts < 1:
        raise InvalidInput(f"attempts must be a positive integer, got {attempts!r}")
    shape = json_schema(schema)
    conversation = list(messages)
    problem = ""
    for _ in range(attempts):
        answer = as_response(await model.complete(conversation, response_schema=schema, **options))
        count(answer.usage)
        text = answer.message.content or ""
        try:
            return _read(text, schema, shape)
        except ValueError as error:  # also pydantic's
            problem = _explain(error)
        if answer.finish_reason == "length":
            problem += " (it was cut off at max_tokens)"
        conversation += [
            Message.assistant(text or "(no text)"),
            Message.user(
                f"That answer does not fit: {problem}\nAnswer again with nothing but JSON of this schema:\n"
                + json.dumps(shape, ensure_ascii=False)
            ),
        ]
    raise ModelError(f"no answer of {attempts} has the shape {schema_name(schema)}: {problem}")


def _read(text: str, schema: Schema, shape: Mapping[str, Any]) -> Any:
    value = parse_json(text)
    if isinstance(schema, type):
        return schema.model_validate(value)
    if shape.get("type") == "object":
        if not isinstance(value, dict):
            raise ValueError(f"it must be a JSON object, not {type(value).__name__}")
        missing = [name for name in shape.get("required", ()) if name not in value]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
    return value


def _explain(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'the answer'}: {item['msg']}" for item in found[:10]
    )

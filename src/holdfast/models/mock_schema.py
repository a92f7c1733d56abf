"""JSON schemas as the mock model reads them: what a value must be, and the smallest one that will do."""

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["NOTHING", "coerce", "minimal", "properties", "required", "resolve", "type_of"]

Schema = Mapping[str, Any]

NOTHING: Final = object()
"""Stands for "no value", which None doesn't."""

_FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "alice@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_YES: Final = frozenset({"true", "yes", "on"})
_NO: Final = frozenset({"false", "no", "off"})
_DEEPEST: Final = 20


def resolve(schema: Any, root: Schema) -> Schema:
    """A schema without references and choices: of several, the first that isn't null."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            target: Any = root
            for part in reference.removeprefix("#").strip("/").split("/"):
                target = target.get(part, {}) if isinstance(target, Mapping) else {}
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        elif choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
            real = [choice for choice in choices if resolve(choice, root).get("type") != "null"]
            outer = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf", "allOf"}}
            schema = {**outer, **((real or choices)[0])}
        else:
            return schema
    return {}


def type_of(schema: Schema) -> str:
    """The type that a resolved schema asks for, ``""`` if it doesn't say."""
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is None and "properties" in schema:
        return "object"
    return kind if isinstance(kind, str) else ""


def properties(schema: Schema) -> dict[str, Any]:
    found = schema.get("properties")
    return dict(found) if isinstance(found, Mapping) else {}


def required(schema: Schema) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list | tuple) else []


def coerce(given: Any, schema: Schema, root: Schema) -> Any:
    """What was written, as a value of the schema's type, or `NOTHING`."""
    schema = resolve(schema, root)
    if isinstance(choices := schema.get("enum"), list | tuple):
        return next(
            (one for one in choices if one == given or str(one).lower() == str(given).lower()), NOTHING
        )
    kind = type_of(schema)
    if isinstance(given, str):
        return _parse(given.strip(), kind, schema, root)
    matches = {
        "string": isinstance(given, str),
        "boolean": isinstance(given, bool),
        "integer": isinstance(given, int) and not isinstance(given, bool),
        "number": isinstance(given, int | float) and not isinstance(given, bool),
        "array": isinstance(given, list),
        "object": isinstance(given, dict),
    }
    if kind == "string" and isinstance(given, int | float):
        return json.dumps(given)
    return given if matches.get(kind, True) else NOTHING


def _parse(text: str, kind: str, schema: Schema, root: Schema) -> Any:
    if kind == "string":
        return text
    if kind == "boolean":
        return True if text.lower() in _YES else False if text.lower() in _NO else NOTHING
    try:
        value = json.loads(text)
    except ValueError:
        value = NOTHING
    if kind == "array":
        item = schema.get("items", {})
        parts = value if isinstance(value, list) else [part for part in text.split(",") if part.strip()]
        values = [coerce(part, item, root) for part in parts]
        return NOTHING if NOTHING in values else values
    if kind in {"integer", "number", "object"}:
        return NOTHING if value is NOTHING else coerce(value, schema, root)
    return text if value is NOTHING else value


def minimal(schema: Any, root: Schema, depth: int = 0) -> Any:
    """A small value that the schema allows. Patterns are not looked at."""
    schema = resolve(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if choices := schema.get("enum"):
        return choices[0]
    kind = type_of(schema)
    if kind == "object":
        wanted = required(schema) if depth < _DEEPEST else []
        known = properties(schema)
        return {name: minimal(known.get(name, {}), root, depth + 1) for name in wanted}
    if kind == "array":
        count = int(schema.get("minItems", 0))
        return [minimal(schema.get("items", {}), root, depth + 1) for _ in range(count)]
    if kind in {"integer", "number"}:
        return _smallest_number(schema, whole=kind == "integer")
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    text = _FORMATS.get(str(schema.get("format", "")), "")
    return text.ljust(int(schema.get("minLength", 0)), "x")


def _smallest_number(schema: Schema, *, whole: bool) -> int | float:
    """The allowed number that is nearest to zero, give or take."""
    step = schema.get("multipleOf", 1 if whole else 0)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    value: int | float = 0
    if low is not None and (low > 0 or (low == 0 and "minimum" not in schema)):
        value = low if "minimum" in schema else low + (1 if whole else 0.5)
    elif high is not None and (high < 0 or (high == 0 and "maximum" not in schema)):
        value = high if "maximum" in schema else high - (1 if whole else 0.5)
    if step and value % step:
        value += -(value % step) if high is not None and high <= 0 else step - value % step
    return int(value) if whole else value

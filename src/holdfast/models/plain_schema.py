"""JSON schemas in the plain form that every service reads: no references, no "or null"."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["plain_schema"]

_DEEPEST: Final = 12


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` with its definitions put in where they are referred to, and X for "X or null".

    A reference to itself is followed a few times, then left open: ``{}`` allows anything.
    """
    plain: dict[str, Any] = _plain(schema, schema.get("$defs") or {}, 0)
    plain.pop("$defs", None)
    return plain


def _plain(schema: Any, known: Mapping[str, Any], depth: int) -> Any:
    if isinstance(schema, list | tuple):
        return [_plain(item, known, depth) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if depth > _DEEPEST:
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        target = known.get(reference.rpartition("/")[2], {})
        beside = {key: value for key, value in schema.items() if key not in {"$ref", "$defs"}}
        return _plain({**target, **beside}, known, depth + 1)
    choices = schema.get("anyOf")
    if isinstance(choices, list | tuple):
        real = [choice for choice in choices if choice != {"type": "null"}]
        if len(real) == 1 and len(choices) > 1:
            beside = {key: value for key, value in schema.items() if key != "anyOf"}
            if beside.get("default", 0) is None:
                del beside["default"]
            return _plain({**real[0], **beside}, known, depth + 1)
    return {key: _plain(value, known, depth + 1) for key, value in schema.items() if key != "$defs"}

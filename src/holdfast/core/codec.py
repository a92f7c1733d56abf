"""Typed JSON: `loads(dumps(value))` equals `value`, with the same types all the way down.

Plain JSON values are stored as plain JSON. Everything else is an object with the key ``$hf``::

    {"$hf": "datetime", "v": "2026-01-31T09:00:00+00:00"}

A type that has no such form is `InvalidInput` naming its path; it never quietly becomes a string.
Enums, dataclasses and pydantic models are written under the name they were given with `register`, and
read only if that name is registered: nothing is unpickled, nothing is imported.
"""

from __future__ import annotations

import base64
import enum
import json
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.core.frozen import FrozenDict, FrozenList
from holdfast.core.registry import class_of, describe, name_of, rebuild, register, unset_fields

__all__ = ["CODEC_VERSION", "MAX_DEPTH", "dumps", "has_mark", "is_unicode", "loads", "register", "same"]

CODEC_VERSION: Final = 1
MAX_DEPTH: Final = 200

_MARK: Final = "$hf"
_QUOTED_MARK: Final = '"$hf"'
# Python refuses to print integers beyond 4,300 decimal digits; hexadecimal has no such limit.
_MAX_DECIMAL_BITS: Final = 14_000

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_STRINGS: Final = frozenset({str})
_DICTS: Final = frozenset({dict, FrozenDict})
_LISTS: Final = frozenset({list, FrozenList})

# A high and a low surrogate side by side, as two characters: JSON's escapes would join them into one.
_SPLIT_PAIR: Final = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")

_encode_text: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
_encode_ascii: Final = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


class _Unencodable(Exception):
    """Carries the steps from the bad value up to the root, innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.steps: list[str] = []


def dumps(value: Any, *, path: str = "value") -> str:
    """Compact JSON text of `value`. Bad values raise `InvalidInput` naming their place under `path`.

    Equal values of equal types, dicts in the same order, give the same text.
    """
    try:
        if _is_plain(value, 0):
            text = _encode_text(value)
            if not has_mark(text):
                if text.isascii() or is_unicode(text):
                    return text
                if not _SPLIT_PAIR.search(text):
                    return _encode_ascii(value)
    except ValueError:
        pass  # NaN, an infinity, or an integer too long to print
    try:
        tagged = _tag(value, 0, set())
        text = _encode_text(tagged)
        return text if text.isascii() or is_unicode(text) else _encode_ascii(tagged)
    except _Unencodable as bad:
        raise InvalidInput(_join(path, bad.steps) + " " + bad.args[0]) from None
    except RecursionError:
        raise InvalidInput(f"{path} is nested too deeply to be stored") from None


def loads(text: str, *, place: str = "value") -> Any:
    """The value that `dumps` made `text` from. Damaged text raises `Corrupt` naming `place`.

    A name that is not registered in this process is `InvalidInput`: the data is fine, the program lacks it.
    """
    try:
        return _decode_tagged(text) if has_mark(text) else _decode_plain(text)
    except InvalidInput:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        raise Corrupt(f"{place} can't be read: {error}", place=place) from error


def has_mark(text: str) -> bool:
    """Whether `text` may hold typed values; if not, any JSON parser reads it right."""
    return "$" in text and _QUOTED_MARK in text  # one character is searched for far faster than five


def same(a: Any, b: Any) -> bool:
    """Whether two values are stored alike: 1, True and 1.0 differ, NaN is the same as NaN."""
    return a is b or dumps(a) == dumps(b)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether JSON itself keeps `value` and its types. NaN and the mark are left to the caller."""
    kind = type(value)
    if kind in _DICTS:
        if not _STRINGS.issuperset(map(type, value)):
            return False
        children = value.values()
    elif kind in _LISTS:
        children = value
    else:
        return kind in _SCALARS
    if _SCALARS.issuperset(map(type, children)):
        return depth <= MAX_DEPTH
    if depth > MAX_DEPTH:
        return False
    for child in children:  # noqa: SIM110 - all() of a generator takes 1.4 times as long here
        if type(child) not in _SCALARS and not _is_plain(child, depth + 1):
            return False
    return True


def is_unicode(text: str) -> bool:
    """False if `text` has lone surrogates, which no UTF-8 database or file can hold unescaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _join(path: str, steps: list[str]) -> str:
    steps = steps[::-1]
    if len(steps) > 30:  # a path that long helps nobody
        steps = [*steps[:15], "...", *steps[-5:]]
    return path + "".join(steps)


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


# --- writing: a tree of plain JSON values, with marked objects for the rest ---


def _tag(value: Any, depth: int, above: set[int]) -> Any:
    kind = type(value)
    if kind is bool or value is None:
        return value
    leaf = _LEAVES.get(kind)
    if leaf is not None:
        return leaf(value)
    branch = _BRANCHES.get(kind) or _registered(value, kind)
    if branch is None:
        return _tag_enum(value)
    if id(value) in above:
        raise _Unencodable("refers to itself and can't be stored; give a finite tree")
    if depth > MAX_DEPTH:
        raise _Unencodable(f"is nested deeper than {MAX_DEPTH} levels; flatten it")
    above.add(id(value))
    tagged = branch(value, depth + 1, above)
    above.discard(id(value))
    return tagged


def _registered(value: Any, kind: type[Any]) -> Callable[[Any, int, set[int]], Any] | None:
    """The way to write an object of a class of the user's own: None for an enum member."""
    if name_of(kind) is None:
        raise _Unencodable(_complaint(value, kind))
    return None if isinstance(value, enum.Enum) else _tag_object


def _complaint(value: Any, kind: type[Any]) -> str:
    full = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, enum.Enum) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_fields"):
        return f"is a {full}, which is not registered; call holdfast.core.codec.register({kind.__name__})"
    return (
        f"is a {full}, which can't be stored; convert it to a plain value, or make it an enum, a dataclass "
        "or a pydantic model and pass its class to holdfast.core.codec.register"
    )


def _child(value: Any, step: str, depth: int, above: set[int]) -> Any:
    try:
        return _tag(value, depth, above)
    except _Unencodable as bad:
        bad.steps.append(step)
        raise


def _tag_dict(value: dict[Any, Any], depth: int, above: set[int]) -> Any:
    if _STRINGS.issuperset(map(type, value)) and _MARK not in value and not any(map(_splits, value)):
        return {key: _child(item, _step(key), depth, above) for key, item in value.items()}
    return {
        _MARK: "dict",
        "v": [
            [_child(key, f"<key {key!r}>", depth, above), _child(item, _step(key), depth, above)]
            for key, item in value.items()
        ],
    }


def _tag_list(value: list[Any], depth: int, above: set[int]) -> Any:
    return [_child(item, f"[{index}]", depth, above) for index, item in enumerate(value)]


def _tag_tuple(value: tuple[Any, ...], depth: int, above: set[int]) -> Any:
    return {
        _MARK: "tuple",
        "v": [_child(item, f"[{index}]", depth, above) for index, item in enumerate(value)],
    }


def _tag_set(value: set[Any] | frozenset[Any], depth: int, above: set[int]) -> Any:
    items = [_child(item, f"{{{item!r}}}", depth, above) for item in value]
    # A set has no order of its own: sorted by text, equal sets give equal texts.
    return {_MARK: type(value).__name__, "v": sorted(items, key=_encode_ascii)}


def _tag_object(value: Any, depth: int, above: set[int]) -> Any:
    kind, data = describe(value)
    tagged = {_MARK: kind, "n": name_of(type(value)), "v": _tag_dict(data, depth, above)}
    unset = unset_fields(value)
    if unset:
        tagged["unset"] = unset
    return tagged


def _tag_enum(value: enum.Enum) -> Any:
    kind, data = describe(value)
    return {_MARK: kind, "n": name_of(type(value)), "v": data}


def _splits(text: str) -> bool:
    return not text.isascii() and _SPLIT_PAIR.search(text) is not None


def _tag_str(value: str) -> Any:
    return {_MARK: "str", "v": _SPLIT_PAIR.split(value)} if _splits(value) else value


def _tag_int(value: int) -> Any:
    return value if value.bit_length() <= _MAX_DECIMAL_BITS else {_MARK: "int", "v": hex(value)}


def _tag_float(value: float) -> Any:
    # Only NaN and the infinities give 0 * value != 0.
    return value if value * 0 == 0 else {_MARK: "float", "v": repr(value)}


def _tag_bytes(value: bytes | bytearray) -> Any:
    return {_MARK: type(value).__name__, "v": base64.b64encode(value).decode("ascii")}


def _tag_moment(value: datetime | time) -> Any:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise _Unencodable(f"is a {type(value).__name__} whose time zone has no fixed offset; give it one")
    tagged: dict[str, Any] = {_MARK: type(value).__name__, "v": value.isoformat()}
    if value.fold:
        tagged["fold"] = value.fold
    return tagged


_LEAVES: Final[dict[type[Any], Callable[[Any], Any]]] = {
    str: _tag_str,
    int: _tag_int,
    float: _tag_float,
    bytes: _tag_bytes,
    bytearray: _tag_bytes,
    datetime: _tag_moment,
    time: _tag_moment,
    date: lambda value: {_MARK: "date", "v": value.isoformat()},
    timedelta: lambda value: {_MARK: "timedelta", "v": [value.days, value.seconds, value.microseconds]},
    Decimal: lambda value: {_MARK: "decimal", "v": str(value)},
    UUID: lambda value: {_MARK: "uuid", "v": str(value)},
}
_BRANCHES: Final[dict[type[Any], Callable[[Any, int, set[int]], Any]]] = {
    dict: _tag_dict,
    FrozenDict: _tag_dict,
    list: _tag_list,
    FrozenList: _tag_list,
    tuple: _tag_tuple,
    set: _tag_set,
    frozenset: _tag_set,
}


# --- reading ---


def _untag(document: dict[str, Any]) -> Any:
    tag = document.get(_MARK)
    if tag is None and _MARK not in document:
        return document
    reader = _READERS.get(tag) if isinstance(tag, str) else None
    if reader is None:
        raise ValueError(f"unknown type mark {tag!r}")
    return reader(document)


def _read_object(document: dict[str, Any]) -> Any:
    name = document["n"]
    cls = class_of(name)
    if cls is None:
        raise InvalidInput(
            f"the stored value has the type {name!r}, which is not registered in this process; "
            f"call holdfast.core.codec.register(cls, name={name!r}) for its class before reading"
        )
    try:
        return rebuild(cls, document[_MARK], document["v"], document.get("unset"))
    except Exception as error:  # a class's own __init__ may raise anything
        raise ValueError(f"a stored {name!r} doesn't fit its class: {error}") from error


def _read_moment(cls: type[datetime] | type[time]) -> Callable[[dict[str, Any]], Any]:
    def read(document: dict[str, Any]) -> Any:
        value = cls.fromisoformat(document["v"])
        return value.replace(fold=document["fold"]) if "fold" in document else value

    return read


def _read_bytes(document: dict[str, Any]) -> bytes:
    return base64.b64decode(document["v"], validate=True)


def _read_float(document: dict[str, Any]) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[document["v"]]


def _read_list(document: dict[str, Any]) -> list[Any]:
    items = document["v"]
    if type(items) is not list:
        raise ValueError(f"a {document[_MARK]} needs a list, not {type(items).__name__}")
    return items


_READERS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "dict": lambda document: dict(_read_list(document)),
    "tuple": lambda document: tuple(_read_list(document)),
    "set": lambda document: set(_read_list(document)),
    "frozenset": lambda document: frozenset(_read_list(document)),
    "str": lambda document: "".join(_read_list(document)),
    "int": lambda document: int(document["v"], 16),
    "float": _read_float,
    "bytes": _read_bytes,
    "bytearray": lambda document: bytearray(_read_bytes(document)),
    "datetime": _read_moment(datetime),
    "time": _read_moment(time),
    "date": lambda document: date.fromisoformat(document["v"]),
    "timedelta": lambda document: timedelta(*_read_list(document)),
    "decimal": lambda document: Decimal(document["v"]),
    "uuid": lambda document: UUID(document["v"]),
    "enum": _read_object,
    "flag": _read_object,
    "model": _read_object,
    "dataclass": _read_object,
}


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decode_plain: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode
_decode_tagged: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_hook=_untag).decode

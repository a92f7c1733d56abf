"""Checks of arguments that both contracts share. Each returns the value, or raises before any I/O."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.core import codec
from holdfast.core.clock import to_us
from holdfast.core.errors import InvalidInput
from holdfast.core.frozen import thaw

MAX_ID_CHARACTERS = 255
MAX_LIMIT = 1_000_000_000
MAX_MICROSECONDS = 2**61  # 73,000 years; with a date of today it still fits in 64 bits


def identifier(value: object, field: str) -> str:
    """Any string with a visible character, up to 255 characters long."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be a string, got {type(value).__name__}: pass str({field})")
    if not value or value.isspace():
        raise InvalidInput(f"{field} must not be empty or blank, got {value!r}")
    if len(value) > MAX_ID_CHARACTERS:
        raise InvalidInput(
            f"{field} must have at most {MAX_ID_CHARACTERS} characters, got {len(value)}: hash or shorten it"
        )
    return value


def optional_identifier(value: object, field: str) -> str | None:
    return None if value is None else identifier(value, field)


def limit(value: object, field: str = "limit") -> int:
    """A whole number, 0 or more. One that no result can reach is cut to what any database takes."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{field} must be a whole number, got {type(value).__name__}")
    if value < 0:
        raise InvalidInput(f"{field} must be 0 or more, got {value}")
    return min(value, MAX_LIMIT)


def positive_number(value: object, field: str) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{field} must be a number, got {type(value).__name__}")
    if not 0 < value < float("inf"):
        raise InvalidInput(f"{field} must be a finite number above 0, got {value}")
    return value


def microseconds(seconds: float) -> int:
    """A valid number of seconds in whole microseconds, cut to what any database takes."""
    return round(max(-MAX_MICROSECONDS, min(seconds * 1_000_000, MAX_MICROSECONDS)))


def text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be a string, got {type(value).__name__}")
    return value


def moment(value: object, field: str) -> int:
    """A datetime (a naive one is taken as UTC) in microseconds."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{field} must be a datetime, got {type(value).__name__}")
    return to_us(value)


def metadata(value: object, field: str = "metadata") -> dict[str, Any]:
    """A mapping with string keys and values that the codec can store. ``None`` is the empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{field} must be a mapping, got {type(value).__name__}: pass a dict")
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(f"{field} keys must be strings, got {type(key).__name__} {key!r}")
    codec.dumps(dict(value), path=field)
    plain = thaw(dict(value))
    assert isinstance(plain, dict)
    return plain


def writes(value: object) -> list[tuple[str, Any]]:
    """A sequence of ``(channel, value)`` pairs."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInput(f"writes must be a list of (channel, value) pairs, got {type(value).__name__}")
    checked: list[tuple[str, Any]] = []
    for index, pair in enumerate(value):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InvalidInput(f"writes[{index}] must be a (channel, value) pair, got {type(pair).__name__}")
        codec.dumps(pair[1], path=f"writes[{index}]")
        checked.append((identifier(pair[0], f"writes[{index}] channel"), pair[1]))
    return checked


def namespace(value: object, field: str = "namespace") -> tuple[str, ...]:
    """A tuple (or list) of one or more non-empty strings."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInput(
            f"{field} must be a tuple of strings, got {type(value).__name__}: use ({value!r},)"
        )
    if not value:
        raise InvalidInput(f"{field} must have at least one part")
    return tuple(identifier(part, f"{field}[{index}]") for index, part in enumerate(value))

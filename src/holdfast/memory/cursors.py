"""Where a listing goes on: an opaque text that says which listing it belongs to."""

import base64
import json
from typing import Any

from holdfast.core.errors import InvalidInput


def encode_cursor(kind: str, *values: Any) -> str:
    """An opaque cursor for the listing ``kind``. Values are JSON values."""
    text = json.dumps([kind, *values], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: object, kind: str, size: int) -> list[Any]:
    """The values in a cursor that :func:`encode_cursor` made for this listing."""
    problem = f"after must be the `next` of a page of the same listing ({kind})"
    if not isinstance(cursor, str):
        raise InvalidInput(f"{problem}, got {type(cursor).__name__}")
    values: list[Any]
    try:
        found, *values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{problem}, got {cursor!r}") from error
    if found != kind or len(values) != size:
        raise InvalidInput(f"{problem}, got one of {found!r}")
    return values


def decode_numbers(cursor: object, kind: str, size: int) -> list[int]:
    """The values in a cursor that has only whole numbers."""
    values = decode_cursor(cursor, kind, size)
    if not all(type(value) is int and 0 <= value < 2**63 for value in values):
        raise InvalidInput(f"after must be the `next` of a page of the same listing ({kind}), got {cursor!r}")
    return values

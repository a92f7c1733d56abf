"""Values as text for people and for pipes: pure.

Whatever is stored may have been written by a stranger. `escape` makes it harmless: no control character (which
could move the cursor, set the title or hide a line), no reordering mark and no lone surrogate gets through.
"""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.core import codec

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(text: str) -> str:
    r"""On one line, with everything that a terminal would obey shown as ``\n``, ``\x1b``, ``\u202e``."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def escape_lines(text: str) -> str:
    """Like `escape`, but lines stay lines and tabs stay tabs."""
    kept = text.replace("\r\n", "\n")
    return _UNSAFE.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found[0]), kept)


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def plain(value: Any) -> Any:
    """A value that JSON takes: datetimes in ISO form, other typed values as the codec writes them."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or type(value) in (str, bool, int) or (type(value) is float and math.isfinite(value)):
        return value
    return json.loads(codec.dumps(value))


def to_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Exact JSON that is also safe to print."""
    separators = None if indent else (", ", ": ")
    text = json.dumps(plain(value), indent=indent, separators=separators, ensure_ascii=ascii_only)
    # Inside JSON an escape changes nothing; line feeds outside of strings are ours.
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def pairs(metadata: Mapping[str, Any]) -> str:
    """Metadata in short: ``turn=7 topic="shipping"``."""
    return " ".join(f"{escape(key)}={to_json(value)}" for key, value in metadata.items())


def cell(value: Any) -> str:
    """A value as one field of a tab-separated line."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return escape(value) if isinstance(value, str) else to_json(value)


def moment(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def age(value: datetime, now: datetime) -> str:
    """How long ago, roughly."""
    seconds = (now - value).total_seconds()
    if seconds < 60:
        return "just now" if seconds > -60 else "in the future"
    for unit, length, limit in (("min", 60, 60), ("h", 3600, 48), ("days", 86_400, 60)):
        if seconds < length * limit:
            number = int(seconds // length)
            return f"{number} {'day' if unit == 'days' and number == 1 else unit} ago"
    return f"{value.astimezone(UTC):%B %Y}"


def size(count: int) -> str:
    """Bytes in a unit that is easy to read."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{count:,} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def number(count: int, noun: str) -> str:
    """``1 thread``, ``2 threads``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

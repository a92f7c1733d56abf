"""Checks of a store's arguments. Each returns the value, or raises before any I/O."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isfinite
from typing import Any

from holdfast.core import codec
from holdfast.core.errors import InvalidInput
from holdfast.memory import validate
from holdfast.memory.store_requests import Namespace, Requirement

MAX_TTL = 100 * 365.25 * 86_400


def place(namespace: object, key: object, *, at: str = "") -> tuple[Namespace, str]:
    """A namespace and a key; ``at`` leads the names in an error."""
    return validate.namespace(namespace, at + "namespace"), validate.identifier(key, at + "key")


def places(given: object) -> list[tuple[Namespace, str]]:
    """Many ``(namespace, key)``."""
    wanted = _each(given, "places", "(namespace, key)")
    return [place(*_parts(item, f"places[{i}]", (2,)), at=f"places[{i}].") for i, item in enumerate(wanted)]


def put_tuples(given: object) -> list[Sequence[Any]]:
    """Many ``(namespace, key, value)`` or ``(..., metadata)``; their parts are not checked yet."""
    items = _each(given, "items", "(namespace, key, value, metadata)")
    return [_parts(item, f"items[{index}]", (3, 4)) for index, item in enumerate(items)]


def requirement(given: object, field: str) -> Requirement:
    """A ``(namespace, key, version)``."""
    namespace, key, number = _parts(given, field, (3,))
    return Requirement(*place(namespace, key, at=field + "."), version(number, field + ".version"))


def version(value: object, field: str) -> int:
    """A version; 0 for "no such item"."""
    number = whole(value, field)
    if not 0 <= number < 2**63:
        raise InvalidInput(f"{field} must be a version that the store gave, or 0, got {number}")
    return number


def expiry(ttl: object, now_us: int, field: str) -> int | None:
    """The moment at which an item that is written now is gone."""
    if ttl is None:
        return None
    seconds = validate.positive_number(ttl, field)
    if seconds > MAX_TTL:
        raise InvalidInput(f"{field} must be at most 100 years, got {ttl} seconds: without it an item stays")
    return now_us + ceil(seconds * 1_000_000)


def metadata(value: object, field: str) -> str:
    """The codec's text of a mapping with string keys. ``None`` is the empty one."""
    if value is None:
        return "{}"
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{field} must be a mapping, got {type(value).__name__}: pass a dict")
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(f"{field} keys must be strings, got {type(key).__name__} {key!r}")
    return codec.dumps(dict(value), path=field)


def flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} must be True or False, got {type(value).__name__}")
    return value


def whole(value: object, field: str) -> int:
    """A whole number of any sign."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{field} must be a whole number, got {type(value).__name__}")
    return value


def threshold(value: object) -> float | None:
    """A score, rounded to float32 as scores are. Any finite number: their range depends on the metric."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidInput(f"threshold must be a finite number, got {value!r} ({type(value).__name__})")
    return array("f", [value])[0]


def terms(given: object) -> list[str]:
    """The different terms, in order."""
    found = _each(given, "terms", "words as `query_terms` gives them")
    return list(dict.fromkeys(validate.text(term, f"terms[{index}]") for index, term in enumerate(found)))


def _each(given: object, field: str, of: str) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(f"{field} must be a list of {of}, got {type(given).__name__}")
    return list(given)


def _parts(item: object, field: str, sizes: tuple[int, ...]) -> Sequence[Any]:
    if isinstance(item, str | bytes) or not isinstance(item, Sequence) or len(item) not in sizes:
        size = f" with {len(item)} parts" if isinstance(item, Sequence) else ""
        wanted = " or ".join(map(str, sizes))
        raise InvalidInput(f"{field} must be a tuple of {wanted} parts, got {type(item).__name__}{size}")
    return item

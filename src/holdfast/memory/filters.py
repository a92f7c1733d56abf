r"""Metadata filters: ``{"kind": "note", "stars": {"$gte": 3}, "value.author.name": "Ada"}``. All must hold.

A field names a key of the metadata or, after a leading ``value.``, of the value. Dots go down into nested
dicts; a dot or backslash that belongs to a key is written ``\.`` or ``\\``. ``value`` alone is a metadata
key.

Comparison is typed and never fails: values of different types are unequal, and neither is greater. ``int``
and ``float`` are numbers and compare as such (1 equals 1.0, NaN equals nothing); a bool is not a number;
datetimes compare as moments (a naive one is taken as UTC). Whole lists and dicts can be tested for equality.

A field that an item doesn't have fails every test but two: ``$ne`` holds, since it is not that value, and
``{"$exists": False}``. ``{field: None}`` asks for a stored ``None``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from operator import ge, gt, le, lt
from typing import Any, Final, Literal

from holdfast.core import codec
from holdfast.core.clock import to_us
from holdfast.core.errors import InvalidInput

Operator = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists"]
OPERATORS: Final[tuple[Operator, ...]] = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists")
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_ORDERED: Final = (int, float, str, bytes, datetime, date, time, timedelta, Decimal)
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """One test. ``$in`` has a tuple as its operand."""

    source: Literal["metadata", "value"]
    path: tuple[str, ...]
    op: Operator
    operand: Any

    def matches(self, metadata: Any, value: Any) -> bool:
        found = _find(value if self.source == "value" else metadata, self.path)
        if self.op == "$exists":
            return (found is not _MISSING) is self.operand
        if found is _MISSING:
            return self.op == "$ne"
        if self.op == "$eq":
            return equal(found, self.operand)
        if self.op == "$ne":
            return not equal(found, self.operand)
        if self.op == "$in":
            return any(equal(found, item) for item in self.operand)
        return _compare(found, self.operand, _ORDER[self.op])


@dataclass(frozen=True, slots=True)
class Filter:
    """A checked filter: call it with an item's metadata and value, or push ``conditions`` down."""

    conditions: tuple[Condition, ...]

    def __call__(self, metadata: Any, value: Any) -> bool:
        return all(condition.matches(metadata, value) for condition in self.conditions)

    @property
    def needs_value(self) -> bool:
        return any(condition.source == "value" for condition in self.conditions)


def compile_filter(given: object, field: str = "filter") -> Filter:
    """Check a filter completely: a wrong one is `InvalidInput` before any I/O. ``None`` passes everything."""
    if given is None:
        return Filter(())
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{field} must be a mapping of field to value, got {type(given).__name__}")
    conditions: list[Condition] = []
    for name, test in given.items():
        source, path = _parse_field(name, field)
        where = f"{field}[{name!r}]"
        if isinstance(test, Mapping) and any(isinstance(key, str) and key.startswith("$") for key in test):
            conditions += [Condition(source, path, *_parse_test(op, x, where)) for op, x in test.items()]
        else:
            conditions.append(Condition(source, path, "$eq", _storable(test, where)))
    return Filter(tuple(conditions))


def equal(a: Any, b: Any) -> bool:
    """Equal with their types, except that 1 equals 1.0 and datetimes are moments."""
    if _is_number(a) and _is_number(b):
        return bool(a == b)
    if isinstance(a, datetime) and isinstance(b, datetime):
        return to_us(a) == to_us(b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(item, b[key]) for key, item in a.items())
    if type(a) is type(b) and isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and codec.same(a, b)


def _compare(a: Any, b: Any, test: Callable[[Any, Any], bool]) -> bool:
    if _is_number(a) and _is_number(b):
        return test(a, b)
    if isinstance(a, datetime) and isinstance(b, datetime):
        return test(to_us(a), to_us(b))
    if type(a) is not type(b):
        return False
    try:
        return test(a, b)
    except (TypeError, ArithmeticError):  # a naive and an aware time of day; a signalling NaN
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _find(document: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return _MISSING
        document = document[key]
    return document


def _parse_field(name: object, field: str) -> tuple[Literal["metadata", "value"], tuple[str, ...]]:
    if not isinstance(name, str):
        raise InvalidInput(f"{field} fields must be strings, got {type(name).__name__} {name!r}")
    if name.startswith("$"):
        raise InvalidInput(f"{field}: {name!r} must follow a field: {{'some_field': {{{name!r}: ...}}}}")
    if name.startswith("value."):
        return "value", _split(name.removeprefix("value."), name, field)
    return "metadata", _split(name, name, field)


def _split(text: str, name: str, field: str) -> tuple[str, ...]:
    parts, part = [], ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", "."):
                raise InvalidInput(
                    f"{field} field {name!r}: a backslash escapes a dot or a backslash; "
                    "write a literal one twice"
                )
            part += escaped
        elif character == ".":
            parts.append(part)
            part = ""
        else:
            part += character
    parts.append(part)
    if not all(parts):
        raise InvalidInput(
            f"{field} field {name!r} has an empty part: dots separate nested keys; "
            "write a literal dot as '\\.'"
        )
    return tuple(parts)


def _parse_test(op: object, operand: Any, where: str) -> tuple[Operator, Any]:
    known = next((name for name in OPERATORS if name == op), None)
    if known is None:
        nearest = get_close_matches(str(op), OPERATORS, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(OPERATORS)}"
        raise InvalidInput(f"{where}: unknown operator {op!r}: {hint}")
    where = f"{where}[{known!r}]"
    if known == "$exists":
        if not isinstance(operand, bool):
            raise InvalidInput(f"{where} must be True or False, got {type(operand).__name__}")
        return known, operand
    if known == "$in":
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InvalidInput(f"{where} must be a list of values, got {type(operand).__name__}")
        return known, tuple(_storable(item, f"{where}[{index}]") for index, item in enumerate(operand))
    if known in _ORDER and (isinstance(operand, bool) or not isinstance(operand, _ORDERED)):
        raise InvalidInput(
            f"{where} must be a number, a string, bytes, or a date or time, got {type(operand).__name__}: "
            "other values have no order"
        )
    return known, _storable(operand, where)


def _storable(operand: Any, where: str) -> Any:
    """A private copy, so that a caller who changes the operand later changes no running listing."""
    return codec.loads(codec.dumps(operand, path=where))

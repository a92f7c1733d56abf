"""Conditions on JSON that Oracle Database tests itself.

The path of `JSON_EXISTS` is part of a statement's text, never a bind: so only names that need no escape are written
into one, and all else is left to who tests the rows that come. Values are bound.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Condition = tuple[str, tuple[Any, ...]]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LONGEST_OPERAND = 1000  # characters: a bind in a condition has at most 4,000 bytes
_LARGEST_OPERAND = 1e38
_ALL: Final[Condition] = ("1 = 1", ())


def has_values(column: str, wanted: Mapping[Sequence[str], Any]) -> Condition:
    """A condition that documents meet which have these values at these paths; more may meet it."""
    tests: list[str] = []
    binds: list[Any] = []
    for path, value in wanted.items():
        if not path or any(_NAME.fullmatch(name) is None for name in path):
            continue
        place = "@" + "".join(f'."{name}"' for name in path)
        if type(value) is bool:
            tests.append(f"{place} == {str(value).lower()}")
        elif _is_operand(value):
            binds.append(value)
            tests.append(f"{place} == $v{len(binds)}")
    if not tests:
        return _ALL
    passed = ", ".join(f'? AS "v{number}"' for number in range(1, len(binds) + 1))
    passing = f" PASSING {passed}" if passed else ""
    return f"JSON_EXISTS({column}, '$?({' && '.join(tests)})'{passing})", tuple(binds)


def _is_operand(value: Any) -> bool:
    """An empty text would be NULL, and NULL is no value that can be compared."""
    if type(value) is str:
        return 0 < len(value) <= _LONGEST_OPERAND and value.isprintable()
    return (
        type(value) in (int, float)
        and abs(value) < _LARGEST_OPERAND
        and not 0 < abs(value) < 1 / _LARGEST_OPERAND
    )


def leaves(wanted: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values in a document that are no documents themselves, with their paths."""
    for name, value in wanted.items():
        if isinstance(value, dict):
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value

"""Filters: what each operator means, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.filters import Condition, compile_filter

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def holds(test: Any, value: Any) -> bool:
    return compile_filter({"f": test})({"f": value}, None)


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, True, False),
        (1, "1", False),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        ([1, "a"], [1, "a"], True),
        ([1], [True], False),
        ([1], (1,), False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({}, {}, True),
        ({"$eq": {"$gt": 1}}, {"$gt": 1}, True),
        ({"$eq": float("nan")}, float("nan"), False),
        ({"$ne": float("nan")}, float("nan"), True),
        ({"$ne": 1}, 2, True),
        ({"$ne": 1}, 1.0, False),
        ({"$ne": 1}, True, True),
        ({"$gt": 1}, 1.5, True),
        ({"$gt": 1}, 1, False),
        ({"$gte": 1}, 1, True),
        ({"$gt": 0}, True, False),
        ({"$gt": 0}, "5", False),
        ({"$lt": "b"}, "a", True),
        ({"$lt": "a"}, "B", True),
        ({"$lt": 5}, None, False),
        ({"$lte": b"b"}, b"a", True),
        ({"$gt": 2**53}, 2**53 + 1, True),
        ({"$gt": float(2**53)}, 2**53 + 1, True),
        ({"$gt": Decimal("1.1")}, Decimal("1.2"), True),
        ({"$gt": Decimal("1.1")}, 2, False),
        ({"$in": [1, "a"]}, "a", True),
        ({"$in": [1, "a"]}, 1.0, True),
        ({"$in": [1, "a"]}, True, False),
        ({"$in": []}, None, False),
        ({"$in": [None]}, None, True),
        ({"$exists": True}, None, True),
        ({"$exists": False}, None, False),
        ({"$gt": 1, "$lt": 3}, 2, True),
        ({"$gt": 1, "$lt": 3}, 3, False),
        (NOON, NOON.astimezone(timezone(timedelta(hours=2))), True),
        (NOON, NOON.replace(tzinfo=None), True),
        ({"$lt": NOON}, NOON - timedelta(microseconds=1), True),
        ({"$lt": NOON}, NOON.replace(tzinfo=None) - timedelta(microseconds=1), True),
        ({"$lt": NOON}, NOON.date(), False),
        ({"$lt": NOON.date()}, NOON, False),
        ({"$gte": NOON.date()}, NOON.date(), True),
        ({"$lt": NOON.time()}, NOON.timetz(), False),
    ],
)
def test_operators(test: Any, value: Any, expected: bool) -> None:
    assert holds(test, value) is expected


def test_a_missing_field_only_differs_or_does_not_exist() -> None:
    for test in (None, 1, {"$gt": 1}, {"$in": [None]}, {"$exists": True}, {"$lt": "x"}):
        assert compile_filter({"f": test})({}, None) is False
    assert compile_filter({"f": {"$ne": 1}})({}, None) is True
    assert compile_filter({"f": {"$exists": False}})({}, None) is True
    assert compile_filter({"f.g": 1})({"f": [1]}, None) is False


def test_no_filter_passes_everything() -> None:
    assert compile_filter(None)({}, None) is True
    assert compile_filter({})({}, None) is True


@pytest.mark.parametrize(
    ("field", "source", "path"),
    [
        ("a", "metadata", ("a",)),
        ("a.b", "metadata", ("a", "b")),
        ("a\\.b", "metadata", ("a.b",)),
        ("a\\\\.b", "metadata", ("a\\", "b")),
        ("value", "metadata", ("value",)),
        ("value.a", "value", ("a",)),
        ("value\\.a", "metadata", ("value.a",)),
        ("value.value.a\\.b", "value", ("value", "a.b")),
        ("a.$x", "metadata", ("a", "$x")),
    ],
)
def test_fields_are_parsed(field: str, source: str, path: tuple[str, ...]) -> None:
    assert [(c.source, c.path) for c in compile_filter({field: 1}).conditions] == [(source, path)]


def test_the_parsed_form_can_be_pushed_down() -> None:
    parsed = compile_filter({"a": {"$gte": 1, "$lt": 2}, "value.b": "x", "c": {"$in": {1}}})
    assert parsed.conditions == (
        Condition("metadata", ("a",), "$gte", 1),
        Condition("metadata", ("a",), "$lt", 2),
        Condition("value", ("b",), "$eq", "x"),
        Condition("metadata", ("c",), "$in", (1,)),
    )
    assert parsed.needs_value is True
    assert compile_filter({"a": 1}).needs_value is False


def test_a_filter_keeps_a_copy_of_its_operands() -> None:
    wanted = [1]
    parsed = compile_filter({"a": wanted, "b": {"$in": wanted}})
    wanted.append(2)
    assert parsed({"a": [1], "b": 1}, None) is True
    assert parsed({"a": [1], "b": 2}, None) is False


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("text", "mapping"),
        ({1: 1}, "strings"),
        ({"": 1}, "empty part"),
        ({"a..b": 1}, "empty part"),
        ({"value.": 1}, "empty part"),
        ({"a\\b": 1}, "backslash"),
        ({"a\\": 1}, "backslash"),
        ({"$or": []}, "must follow a field"),
        ({"a": {"$gtt": 1}}, r"did you mean '\$gt'"),
        ({"a": {"$exist": True}}, r"did you mean '\$exists'"),
        ({"a": {"$zzzzzz": 1}}, "known are"),
        ({"a": {"$gt": 1, "x": 1}}, "unknown operator 'x'"),
        ({"a": {"$in": "abc"}}, "list of values, got str"),
        ({"a": {"$exists": "yes"}}, "True or False, got str"),
        ({"a": {"$gt": None}}, "got NoneType"),
        ({"a": {"$gt": True}}, "got bool"),
        ({"a": {"$gt": {"b": 1}}}, "got dict"),
        ({"a": object()}, r"filter\['a'\]"),
        ({"a": {"$in": [1, object()]}}, r"\[1\]"),
    ],
)
def test_what_is_wrong_is_named(bad: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        compile_filter(bad)

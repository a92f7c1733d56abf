"""What filters promise: typed tests on metadata and value, done before the limit; a wrong one is refused."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.filters import compile_filter
from holdfast.testing.store_cases.base import (
    METACHARACTERS,
    NS,
    VALUES,
    OpenStore,
    StoreCases,
    keys,
    requires,
    wrong,
)

OPERANDS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    1.5,
    2,
    -1,
    2**53,
    2**53 + 1,
    2**70,
    math.inf,
    "",
    "1",
    "a",
    "A",
    "b",
    "é",
    "\uffff",
    "\U0001f600",
    "a\x00",
    [],
    [1],
    [1.0],
    [True],
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": 1, "b": 2},
    (1,),
    b"a",
    datetime(2026, 1, 1, 12, tzinfo=UTC),
    datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
    datetime(2026, 1, 1, 12),  # noqa: DTZ001 (naive values are data as well)
    datetime(2026, 1, 2, tzinfo=UTC),
    date(2026, 1, 1),
)
_ORDERED = (int, float, str, bytes, datetime, date)


class FilteringCases(StoreCases):
    async def test_every_operator_agrees_with_its_definition(self, open_store: OpenStore) -> None:
        """The definition is the pure function; a database that compares by itself must agree with it."""
        async with open_store() as store:
            requires(store, "metadata_filter")
            items: dict[str, dict[str, Any]] = {
                f"{index:03}": {"f": value} for index, value in enumerate(OPERANDS)
            }
            items |= {"absent": {}, "other": {"F": 1, "ff": 1}, "nested": {"f": {"f": 1}}}
            await store.put_batch([(NS, key, metadata, metadata) for key, metadata in items.items()])
            tests: list[Any] = [{"$exists": True}, {"$exists": False}, {"$in": []}, {"$in": [1, "a", None]}]
            for operand in OPERANDS:
                tests += [{"$eq": operand}, {"$ne": operand}, {"$in": [operand]}]
                if isinstance(operand, _ORDERED) and not isinstance(operand, bool):
                    tests += [{op: operand} for op in ("$gt", "$gte", "$lt", "$lte")]
            for test in tests:
                for field in ("f", "value.f"):
                    condition = compile_filter({field: test})
                    expected = [key for key, metadata in items.items() if condition(metadata, metadata)]
                    found = keys(await store.search(NS, limit=1000, filter={field: test}))
                    assert sorted(found) == sorted(expected), (field, test)

    async def test_equality_is_typed(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            values = {
                "one": 1,
                "true": True,
                "text": "1",
                "float": 1.0,
                "none": None,
                "zero": 0,
                "false": False,
            }
            for key, value in values.items():
                await store.put(NS, key, {"v": value}, {"v": value})
            await store.put(NS, "absent", {})

            async def matching(test: Any) -> set[str]:
                found = set(keys(await store.search(NS, limit=100, filter={"v": test})))
                assert found == set(keys(await store.search(NS, limit=100, filter={"value.v": test})))
                return found

            assert await matching(1) == {"one", "float"}
            assert await matching(1.0) == {"one", "float"}
            assert await matching(True) == {"true"}
            assert await matching("1") == {"text"}
            assert await matching(None) == {"none"}
            assert await matching(0) == {"zero"}
            assert await matching(False) == {"false"}
            assert await matching({"$in": [True, "1"]}) == {"true", "text"}
            assert await matching({"$gt": 0}) == {"one", "float"}
            assert await matching({"$lte": "1"}) == {"text"}
            assert await matching({"$ne": 1}) == {"true", "text", "none", "zero", "false", "absent"}
            assert await matching({"$exists": True}) == set(values)
            assert await matching({"$exists": False}) == {"absent"}
            assert await matching({"$gte": 0, "$lt": 1}) == {"zero"}

    async def test_all_conditions_must_hold(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            for a in range(4):
                for b in range(4):
                    await store.put(NS, f"{a}{b}", {"b": b}, {"a": a})
            found = await store.search(NS, limit=100, filter={"a": {"$gt": 1}, "value.b": {"$lte": 1}})
            assert sorted(keys(found)) == ["20", "21", "30", "31"]
            assert len(await store.search(NS, limit=100, filter={})) == 16
            stepped = [item.key async for item in store.iterate(NS, {"a": 3})]
            assert stepped == ["30", "31", "32", "33"]

    async def test_nested_fields_and_dots_in_keys(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            documents: dict[str, dict[str, Any]] = {
                "nested": {"a": {"b": 1}},
                "dotted": {"a.b": 1},
                "deep": {"a": {"b.c": {"d\\": 1}}},
                "list": {"a": [{"b": 1}]},
                "value": {"value": 1},
                "value dotted": {"value.a": 1},
            }
            for key, document in documents.items():
                await store.put(NS, key, document, document)

            async def matching(field: str) -> list[str]:
                return sorted(keys(await store.search(NS, filter={field: 1})))

            assert await matching("a.b") == ["nested"]
            assert await matching("value.a.b") == ["nested"]
            assert await matching("a\\.b") == ["dotted"]
            assert await matching("value.a\\.b") == ["dotted"]
            assert await matching("a.b\\.c.d\\\\") == ["deep"]
            assert await matching("value") == ["value"]
            assert await matching("value.value") == ["value"]
            assert await matching("value\\.a") == ["value dotted"]
            assert await matching("a.0.b") == []
            assert await matching("a.b.c") == []

    async def test_fields_and_operands_are_data(self, open_store: OpenStore) -> None:
        """No field and no operand is ever read as SQL, as a JSON path or as a pattern."""
        names = [name for name in METACHARACTERS if name.strip()] + [
            "$.a",
            "a->>'b'",
            "@.a",
            "a[0]",
            "a['b']",
            "é",
            "a b",
        ]
        async with open_store() as store:
            requires(store, "metadata_filter")
            for name in names:
                await store.put(NS, f"key {name}", {name: name}, {name: name})
            for name in names:
                if name.startswith("$"):
                    continue
                field = name.replace("\\", "\\\\").replace(".", "\\.")
                for test in (name, {"$in": [name]}, {"$gte": name, "$lte": name}, {"$exists": True}):
                    found = await store.search(NS, limit=1000, filter={field: test})
                    assert keys(found) == [f"key {name}"], (field, test)
                    found = await store.search(NS, limit=1000, filter={f"value.{field}": test})
                    assert keys(found) == [f"key {name}"], (field, test)

    async def test_the_limit_counts_what_passes(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            for index in range(300):
                await store.put(NS, f"k{index:03}", {"text": "apple"}, {"rare": index == 7, "n": index})
            assert keys(await store.search(NS, limit=1, filter={"rare": True})) == ["k007"]
            page = await store.search(NS, limit=3, filter={"n": {"$lt": 5}})
            assert keys(page) == ["k004", "k003", "k002"]
            assert page.next is not None
            rest = await store.search(NS, limit=3, filter={"n": {"$lt": 5}}, after=page.next)
            assert (keys(rest), rest.next) == (["k001", "k000"], None)
            assert [item.key async for item in store.iterate(NS, {"rare": True})] == ["k007"]
            if store.capabilities.text_search:
                assert keys(await store.search(NS, "apples", 1, filter={"rare": True})) == ["k007"]
                found = await store.text_candidates(NS, ["appl"], 1, {"rare": True})
                assert [candidate.item.key for candidate in found.candidates] == ["k007"]

    async def test_special_values_can_be_asked_for(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            for key, value in VALUES.items():
                await store.put(NS, key, 1, {"v": value})
            for key, value in VALUES.items():
                found = keys(await store.search(NS, limit=100, filter={"v": {"$eq": value}}))
                assert (key in found) is (key != "nan"), key

    async def test_wrong_filters_are_refused(self, open_store: OpenStore) -> None:
        bad_filters = wrong(
            "text",
            ["a"],
            1,
            {1: 1},
            {"": 1},
            {".": 1},
            {"a.": 1},
            {".a": 1},
            {"a..b": 1},
            {"value.": 1},
            {"a\\": 1},
            {"a\\b": 1},
            {"$eq": 1},
            {"$and": []},
            {"a": {"$equal": 1}},
            {"a": {"$eq": 1, "b": 2}},
            {"a": {"$GT": 1}},
            {"a": {"$in": "text"}},
            {"a": {"$in": {"b": 1}}},
            {"a": {"$exists": 1}},
            {"a": {"$exists": None}},
            {"a": {"$gt": None}},
            {"a": {"$lt": True}},
            {"a": {"$gte": [1]}},
            {"a": object()},
            {"a": {"$in": [object()]}},
        )
        async with open_store() as store:
            requires(store, "metadata_filter")
            await store.put(NS, "k", 1, {"a": 1})
            for bad in bad_filters:
                with pytest.raises(InvalidInput, match="filter"):
                    await store.search(NS, filter=bad)
                with pytest.raises(InvalidInput, match="filter"):
                    async for _ in store.iterate(NS, bad):
                        pass
            with pytest.raises(InvalidInput, match=r"\$gte"):
                await store.search(NS, filter={"a": {"$gtee": 1}})

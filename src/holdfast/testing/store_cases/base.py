"""What the cases share: how they open a backend, and the names and values that are hard on one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, ClassVar, Protocol
from uuid import UUID

import pytest

from holdfast.core.clock import Clock
from holdfast.memory.records import SearchHit, StoreItem
from holdfast.memory.store import BaseStore
from holdfast.testing.running import Suite

NS = ("suite", "items")


class OpenStore(Protocol):
    """What the fixture gives: each call opens a new object on the same storage, empty for each test."""

    def __call__(
        self,
        *,
        clock: Clock | None = None,
        dimension: int | None = None,
        distance_metric: str | None = None,
    ) -> BaseStore: ...


class StoreCases(Suite):
    """Base of all cases."""

    shared_storage: ClassVar[bool] = True
    """Whether two objects that the fixture opens see the same items. Not so for what is only in memory."""

    required: ClassVar[frozenset[str]] = frozenset()
    """Capabilities that this backend must declare: it can't get green by declaring less."""

    def share(self, open_store: OpenStore) -> OpenStore:
        """The same function, for tests that open a second object."""
        if not self.shared_storage:
            pytest.skip("each object has a storage of its own: there is nothing to share")
        return open_store


def requires(store: BaseStore, *capabilities: str) -> None:
    """Skip the test if the backend doesn't declare all of these."""
    for capability in capabilities:
        if not getattr(store.capabilities, capability):
            pytest.skip(f"{type(store).__name__} does not declare '{capability}'")


async def fill(
    store: BaseStore, namespace: Sequence[str], values: Mapping[str, Any] | Iterable[str]
) -> dict[str, int]:
    """Put these items, a value of their own for bare keys; gives the versions by key."""
    items = values if isinstance(values, Mapping) else {key: f"value of {key!a}" for key in values}
    return {key: await store.put(namespace, key, value) for key, value in items.items()}


def keys(found: Iterable[StoreItem] | Iterable[SearchHit]) -> list[str]:
    """The keys of what was found, in order."""
    return [entry.item.key if isinstance(entry, SearchHit) else entry.key for entry in found]


async def all_keys(store: BaseStore, namespace: Sequence[str], *, prefix: bool = False) -> list[str]:
    """The keys of every item, by iterating."""
    return [item.key async for item in store.iterate(namespace, prefix=prefix)]


def wrong(*values: Any) -> list[Any]:
    """Arguments that the types forbid, for tests that they are refused."""
    return list(values)


NASTY_NAMES: tuple[str, ...] = (
    "a/b",
    "a",
    "b",
    "/",
    "//",
    "a/",
    "/a",
    "a:b",
    "a::b",
    "a%b",
    "a%",
    "%",
    "%25",
    "%2F",
    "a_b",
    "_",
    "aXb",
    "*",
    "a*",
    "?",
    "[a]",
    "[!a]",
    "{a}",
    ".",
    "..",
    "../..",
    "a.b",
    "a..b",
    "a\nb",
    "a\r\nb",
    "a\tb",
    " a",
    "a ",
    " a ",
    "a b",
    "'",
    '"',
    "`",
    "a'b",
    'a"b',
    "''",
    "'; DROP TABLE items; --",
    "\\",
    "\\\\",
    "a\\",
    "\\0",
    "\\u0000",
    "~",
    "~0",
    "~1",
    "a~1b",
    "$",
    "$eq",
    "$hf",
    "value.",
    "null",
    "None",
    "0",
    "00",
    "1e3",
    "true",
    "case",
    "Case",
    "CASE",
    "straße",
    "strasse",
    "STRASSE",
    "\u0131",
    "i",
    "I",
    "\u0130",
    "caf\u00e9",
    "cafe\u0301",
    "\u00a0x",
    "\u200b",
    "\ufeff",
    "\ufffd",
    "\uffff",
    "\ue000",
    "\ue000\ue000",
    "\U0010ffff",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f468",
    "\x00",
    "a\x00b",
    "a\x00",
    "\x01",
    "\x01\x01",
    "\x01\x02",
    "\x7f",
    "\x1b[31m",
    "\ud800",
    "\udfff",
    "a\ud800b",
    "\ud83d",
    "日本語",
    "\u202eevil",
    "x" * 255,
    "x" * 254 + "y",
    "é" * 255,
    "\U0001f600" * 255,
    "\x00" * 255,
    "\ud800" * 255,
)
"""Valid keys and parts of namespaces, all different, most of them a trap for some database."""

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "one as float": 1.0,
    "one as text": "1",
    "minus": -7,
    "beyond 64 bits": 2**70,
    "beyond 53 bits": 2**53 + 1,
    "float": 0.1,
    "tiny": 5e-324,
    "minus zero": -0.0,
    "infinity": math.inf,
    "nan": math.nan,
    "empty text": "",
    "blank text": "  \n ",
    "nasty text": "a\x00b \ud800 \U0001f600 'quoted' \"twice\" \\ %s {} $1 :x ?",
    "empty list": [],
    "empty dict": {},
    "nested": {"a": [1, {"b": [[], {}, None, "x"]}], "": {"c.d": True}},
    "tuple": (1, (2, [3])),
    "set": {1, 2, 3},
    "bytes": b"\x00\xff",
    "naive": datetime(2026, 3, 29, 2, 30, 0, 123456),  # noqa: DTZ001 (naive values are data as well)
    "aware": datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
    "other zone": datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    "date": date(2026, 2, 28),
    "time": time(23, 59, 59, 999999),
    "duration": timedelta(days=-1, microseconds=1),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=7),
    "marked": {"$hf": "datetime", "v": "not one"},
    "number keys": {1: "a", (2, 3): "b"},
    "order of keys": {"z": 1, "a": 2, "m": 3},
}
"""Values that must come back exactly as they were put."""

METACHARACTERS: tuple[str, ...] = (
    '"',
    '"""',
    "'",
    "' OR 1=1 --",
    "; DROP TABLE items",
    "%",
    "_",
    "*",
    "?",
    "[",
    "[]",
    "(",
    ")",
    "((",
    "^",
    "^apple",
    "-apple",
    "+apple",
    "~apple",
    "apple*",
    "app?e",
    "NEAR(apple pear)",
    "NEAR/2",
    "AND",
    "apple AND",
    "OR OR",
    "NOT apple",
    "apple NOT pear",
    "text:apple",
    "{text}: apple",
    "apple:*",
    "apple & pear",
    "apple | !pear",
    "apple <-> pear",
    "\\",
    "\\apple",
    "a\x00b",
    "\ud800",
    "\ud83d apple",
    "$1",
    ":name",
    "{}",
    "%s",
    "\U0001f600",
    "\n",
    "",
    " ",
)
"""Queries, patterns and names that mean something to SQL, LIKE, glob, or a full text engine."""

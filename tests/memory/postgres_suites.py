"""The conformance suites on PostgreSQL: a test file says where the tables are and how they are made."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.backends.postgres_store import PostgresStore
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.store import StoreCapabilities
from holdfast.testing.checkpointer_cases.base import CheckpointerCases
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from holdfast.testing.store_cases.base import StoreCases
from holdfast.testing.store_suite import OpenStore


class PostgresCheckpointerCases(CheckpointerCases):
    """To be mixed with the suite, or with a part of it. ``url`` is a fixture of the test file's own; ``options`` are
    the constructor's."""

    required = frozenset(field.name for field in fields(CheckpointerCapabilities))
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def open_checkpointer(self, url: str) -> OpenCheckpointer:
        def open_one(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return PostgreSQLCheckpointer(
                url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds, min_pool_size=0, **self.options
            )

        return open_one


class PostgresCheckpointerSuite(PostgresCheckpointerCases, CheckpointerSuite):
    """All of it."""


class PostgresStoreCases(StoreCases):
    """The same for a store."""

    required = frozenset(field.name for field in fields(StoreCapabilities))
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture
    def open_store(self, url: str) -> OpenStore:
        def open_one(**options: Any) -> PostgresStore:
            given = {name: value for name, value in options.items() if value is not None}
            return PostgresStore(url, **self.options, **given)

        return open_one

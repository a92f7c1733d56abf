"""The conformance suite on a real PostgreSQL: asynchronous, and the blocking twin."""

from dataclasses import fields

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer, PostgreSQLSyncCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from tests.memory.facing import BlockingCheckpointerFace
from tests.servers.fixtures import Database

ALL = frozenset(field.name for field in fields(CheckpointerCapabilities))


class TestPostgreSQLCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, postgres: Database) -> OpenCheckpointer:
        def open_one(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return PostgreSQLCheckpointer(
                postgres.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds, min_pool_size=0
            )

        return open_one


class TestPostgreSQLSyncCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, postgres: Database) -> OpenCheckpointer:
        def open_twin(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            twin = PostgreSQLSyncCheckpointer(
                postgres.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds, min_pool_size=0
            )
            return BlockingCheckpointerFace(twin)

        return open_twin

"""The conformance suite on a real MariaDB: asynchronous, and the blocking twin."""

from dataclasses import fields

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.mysql import MySQLCheckpointer, MySQLSyncCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from tests.memory.facing import BlockingCheckpointerFace
from tests.servers.fixtures import MariaDatabase

ALL = frozenset(field.name for field in fields(CheckpointerCapabilities))


class TestMySQLCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, used_mariadb: MariaDatabase) -> OpenCheckpointer:
        def open_one(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return MySQLCheckpointer(used_mariadb.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

        return open_one


class TestMySQLSyncCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, used_mariadb: MariaDatabase) -> OpenCheckpointer:
        def open_twin(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            twin = MySQLSyncCheckpointer(
                used_mariadb.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds
            )
            return BlockingCheckpointerFace(twin)

        return open_twin

"""The conformance suite on a real MariaDB, and the blocking twin."""

from dataclasses import fields
from typing import Any

import pytest

from holdfast.memory.backends.mysql_store import MySQLStore, MySQLSyncStore
from holdfast.memory.store import BaseStore, StoreCapabilities
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.memory.facing_store import BlockingStoreFace
from tests.servers.fixtures import MariaDatabase

ALL = frozenset(field.name for field in fields(StoreCapabilities))


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class TestMySQLStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, used_mariadb: MariaDatabase) -> OpenStore:
        return lambda **options: MySQLStore(used_mariadb.url, **given(options))


class TestMySQLSyncStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, used_mariadb: MariaDatabase) -> OpenStore:
        def open_twin(**options: Any) -> BaseStore:
            return BlockingStoreFace(MySQLSyncStore(used_mariadb.url, vector_cache_bytes=0, **given(options)))

        return open_twin

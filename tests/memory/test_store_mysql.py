"""The conformance suite on a real MariaDB, and the blocking twin."""

import asyncio
from dataclasses import fields
from typing import Any

import pytest

from holdfast.memory.backends.mysql_store import MySQLStore, MySQLSyncStore
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sql.items_versions import Slots
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


def test_a_writer_waits_for_nobody_who_writes_elsewhere(used_mariadb: MariaDatabase) -> None:
    """Not even for the first slot, whose row is behind those from which versions are drawn."""
    assert Slots.slots([key_of(("a",))]) != [0]

    async def run() -> None:
        async with MySQLStore(used_mariadb.url) as store:
            await store.put(("a",), "k", {"text": "tea"})
            with used_mariadb.server.connect(used_mariadb.name) as other:
                other.begin()
                with other.cursor() as cursor:
                    cursor.execute("SELECT slot FROM holdfast_items_counters WHERE slot = 0 FOR UPDATE")
                writing = asyncio.create_task(store.put(("a",), "k", {"text": "more tea"}))
                done, _ = await asyncio.wait([writing], timeout=10)
                other.rollback()
                await writing
                assert done

    asyncio.run(run())

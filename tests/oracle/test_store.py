"""The conformance suite of stores on Oracle: asynchronous, and the blocking twin."""

from dataclasses import fields
from typing import Any

import pytest

from holdfast.memory.backends.oracle_store import OracleStore, OracleSyncStore
from holdfast.memory.store import BaseStore, StoreCapabilities
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.memory.facing_store import BlockingStoreFace
from tests.oracle.place import NEW, OLD, Place, given

ALL = frozenset(field.name for field in fields(StoreCapabilities))


@pytest.mark.parametrize("place", NEW, indirect=True)
class TestOracleStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, place: Place) -> OpenStore:
        def open_one(**options: Any) -> BaseStore:
            return OracleStore(**place.options(), **given(options))

        return open_one


@pytest.mark.long  # the plans are those of its twin; PostgreSQL and SQLite run the blocking suites each time
@pytest.mark.parametrize("place", OLD, indirect=True)
class TestOracleSyncStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, place: Place) -> OpenStore:
        def open_twin(**options: Any) -> BaseStore:
            return BlockingStoreFace(OracleSyncStore(**place.options(), **given(options)))

        return open_twin

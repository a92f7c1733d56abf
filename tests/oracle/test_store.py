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


@pytest.mark.parametrize("used_place", NEW, indirect=True)
class TestOracleStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, used_place: Place) -> OpenStore:
        def open_one(**options: Any) -> BaseStore:
            return OracleStore(**used_place.options(), **given(options))

        return open_one


@pytest.mark.parametrize("used_place", OLD, indirect=True)
class TestOracleSyncStore(StoreSuite):
    required = ALL

    @pytest.fixture
    def open_store(self, used_place: Place) -> OpenStore:
        def open_twin(**options: Any) -> BaseStore:
            return BlockingStoreFace(OracleSyncStore(**used_place.options(), **given(options)))

        return open_twin

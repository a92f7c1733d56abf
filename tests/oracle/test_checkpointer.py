"""The conformance suite of checkpointers on Oracle: asynchronous, and the blocking twin."""

from dataclasses import fields

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.oracle import OracleCheckpointer, OracleSyncCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from tests.memory.facing import BlockingCheckpointerFace
from tests.oracle.place import NEW, OLD, Place

ALL = frozenset(field.name for field in fields(CheckpointerCapabilities))


@pytest.mark.parametrize("used_place", NEW, indirect=True)
class TestOracleCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, used_place: Place) -> OpenCheckpointer:
        def open_one(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return OracleCheckpointer(
                **used_place.options(), clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds
            )

        return open_one


@pytest.mark.parametrize("used_place", OLD, indirect=True)
class TestOracleSyncCheckpointer(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self, used_place: Place) -> OpenCheckpointer:
        def open_twin(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            twin = OracleSyncCheckpointer(
                **used_place.options(), clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds
            )
            return BlockingCheckpointerFace(twin)

        return open_twin

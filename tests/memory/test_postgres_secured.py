"""The conformance suites where PostgreSQL itself keeps tenants apart: by a role that owns no table, an operator."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.backends.postgres_store import PostgresStore
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.memory.store import StoreCapabilities
from holdfast.testing.checkpointer_cases.base import CheckpointerCases
from holdfast.testing.checkpointer_cases.scopes import ScopesCases
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from holdfast.testing.store_cases.base import StoreCases
from holdfast.testing.store_cases.batches import BatchCases
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.servers.fixtures import Database
from tests.servers.tenancy import Secured, secured


@pytest.fixture
def place(postgres: Database) -> Iterator[Secured]:
    with secured(postgres) as made:
        yield made


class TestSecuredScopes(CheckpointerCases):
    """A sample of the suite below."""

    test_reading_never_reaches_across = ScopesCases.test_reading_never_reaches_across
    test_writing_never_reaches_across = ScopesCases.test_writing_never_reaches_across
    test_a_deleted_scope_is_gone_and_no_other = ScopesCases.test_a_deleted_scope_is_gone_and_no_other
    test_operators_see_every_scope = ScopesCases.test_operators_see_every_scope

    required = frozenset(field.name for field in fields(CheckpointerCapabilities))

    @pytest.fixture
    def open_checkpointer(self, place: Secured) -> OpenCheckpointer:
        def open_one(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            return PostgreSQLCheckpointer(
                place.operator_url,
                clock=clock or SYSTEM_CLOCK,
                ttl_seconds=ttl_seconds,
                min_pool_size=0,
                auto_create_table=False,
                row_security=True,
            )

        return open_one


@pytest.mark.long
class TestSecuredCheckpointer(TestSecuredScopes, CheckpointerSuite):
    """All of it."""


class TestSecuredBatches(StoreCases):
    """A sample of the suite below."""

    test_writes_are_done_in_order = BatchCases.test_writes_are_done_in_order
    test_search_knows_what_a_batch_did = BatchCases.test_search_knows_what_a_batch_did

    required = frozenset(field.name for field in fields(StoreCapabilities))

    @pytest.fixture
    def open_store(self, place: Secured) -> OpenStore:
        def open_one(**options: Any) -> PostgresStore:
            given = {name: value for name, value in options.items() if value is not None}
            return PostgresStore(place.operator_url, auto_create_table=False, row_security=True, **given)

        return open_one


@pytest.mark.long
class TestSecuredStore(TestSecuredBatches, StoreSuite):
    """All of it."""

"""What a store keeps in memory between two questions changes no answer, on a server either."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.memory.backends.sql.items_store import SqlStore
from holdfast.testing.clock import FrozenClock
from tests.memory.kept_checks import check_while_others_write, check_whoever_writes
from tests.servers.oracle import Server


@pytest.fixture(params=["used_postgres", "used_mariadb", "used_oracle"])
def open_store(request: pytest.FixtureRequest) -> Callable[[FrozenClock], SqlStore]:
    database: Server = request.getfixturevalue(request.param)

    def open_one(clock: FrozenClock) -> SqlStore:
        store = database.store(database.url, clock=clock)
        assert isinstance(store, SqlStore)
        return store

    return open_one


def test_recall_answers_from_what_is_stored_whoever_wrote_it(
    open_store: Callable[[FrozenClock], SqlStore],
) -> None:
    asyncio.run(check_whoever_writes(open_store, steps=80))


def test_recall_answers_from_what_is_stored_after_many_wrote_at_once(
    open_store: Callable[[FrozenClock], SqlStore],
) -> None:
    asyncio.run(check_while_others_write(open_store, writes=40))

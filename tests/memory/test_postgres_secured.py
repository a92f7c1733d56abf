"""The conformance suites where PostgreSQL itself keeps tenants apart: by a role that owns no table, an operator."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast import connect
from holdfast.cli.commands import app
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.embedder import HashEmbedder
from holdfast.resolving import LazyMemory
from holdfast.testing.checkpointer_cases.scopes import ScopesCases
from holdfast.testing.checkpointer_suite import CheckpointerSuite
from holdfast.testing.store_cases.batches import BatchCases
from holdfast.testing.store_suite import StoreSuite
from tests.cli.memories import HARBOUR, fill
from tests.memory.postgres_suites import PostgresCheckpointerCases, PostgresStoreCases
from tests.servers.fixtures import Database, kept
from tests.servers.postgres import PostgresServer
from tests.servers.tenancy import Secured, secured


@pytest.fixture
def place(postgres: Database) -> Iterator[Secured]:
    with secured(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def _kept(postgres_server: PostgresServer) -> Iterator[Secured]:
    with kept(postgres_server, "secured") as database, secured(database) as made:
        yield made


@pytest.fixture
def url(_kept: Secured) -> str:
    """Of an operator, where the suites run: tests before have used the tables, and they are empty."""
    _kept.database.empty()
    return _kept.operator_url


OPTIONS = {"auto_create_table": False, "row_security": True}


class TestSecuredScopes(PostgresCheckpointerCases):
    """A sample of the suite below."""

    options = OPTIONS
    test_reading_never_reaches_across = ScopesCases.test_reading_never_reaches_across
    test_writing_never_reaches_across = ScopesCases.test_writing_never_reaches_across
    test_a_deleted_scope_is_gone_and_no_other = ScopesCases.test_a_deleted_scope_is_gone_and_no_other
    test_operators_see_every_scope = ScopesCases.test_operators_see_every_scope


@pytest.mark.long  # the plans are those of the plain tables
class TestSecuredCheckpointer(TestSecuredScopes, CheckpointerSuite):
    """All of it."""


class TestSecuredBatches(PostgresStoreCases):
    """A sample of the suite below."""

    options = OPTIONS
    test_writes_are_done_in_order = BatchCases.test_writes_are_done_in_order
    test_search_knows_what_a_batch_did = BatchCases.test_search_knows_what_a_batch_did


@pytest.mark.long  # likewise
class TestSecuredStore(TestSecuredBatches, StoreSuite):
    """All of it."""


def test_a_whole_memory_needs_no_operator(place: Secured) -> None:
    async def run() -> None:
        async with LazyMemory(place.url, embedder=HashEmbedder(64)) as memory:
            await fill(memory)
            (hit, *_) = await memory.recall_scored("Where do I live?", 1, user_id="alice")
            assert (hit.episode.text, "meaning" in hit.parts) == (HARBOUR, True)
            assert await memory.recall("Where do I live?", user_id="nobody") == []
            assert set(await memory.users()) >= {"alice", "bob"}
            receipt = await memory.forget(user_id="alice", threads=True)
            assert receipt.complete
            assert await memory.recall("Where do I live?", user_id="alice") == []
            assert await memory.recall("anything at all", user_id="bob") is not None

    asyncio.run(run())
    assert all("alice" not in ns for (ns,) in place.database.sql("SELECT ns FROM holdfast_items_namespaces"))


def test_an_operator_moves_everything_in_and_out(place: Secured, tmp_path: Path) -> None:
    async def prepare() -> None:
        async with connect(f"sqlite:{tmp_path}/from.db") as db:
            for user in ("ann", "bob"):
                state = AgentState().with_message(Message.user(f"secret of {user}"))
                await db.checkpointer.scoped(user).save(state, "t")
                await db.store.put(("users", user), "k", user)

    def migrate(source: str, destination: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ["migrate", source, destination, "--json"])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else None

    asyncio.run(prepare())
    done = migrate(f"sqlite:{tmp_path}/from.db", place.operator_url)
    assert (done["threads"]["verified"], done["items"]["verified"]) == (2, 2)
    done = migrate(place.operator_url, f"sqlite:{tmp_path}/to.db")
    assert (done["threads"]["verified"], done["items"]["verified"]) == (2, 2)
    migrate(place.url, f"sqlite:{tmp_path}/not.db", code=4)  # the database is there, and not for him

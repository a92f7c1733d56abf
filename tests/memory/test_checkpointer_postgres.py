"""The conformance suite on a real PostgreSQL: asynchronous, and the blocking twin."""

from typing import Any

import psycopg
import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.state import AgentState
from holdfast.memory.backends.postgres import PostgreSQLSyncCheckpointer
from holdfast.memory.backends.postgres_engine import POSTGRES
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from tests.memory.facing import BlockingCheckpointerFace
from tests.memory.postgres_suites import PostgresCheckpointerSuite
from tests.servers.fixtures import Database


class TestPostgreSQLCheckpointer(PostgresCheckpointerSuite):
    @pytest.fixture
    def url(self, used_postgres: Database) -> str:
        return used_postgres.url


class TestPostgreSQLSyncCheckpointer(CheckpointerSuite):
    required = PostgresCheckpointerSuite.required

    @pytest.fixture
    def open_checkpointer(self, used_postgres: Database) -> OpenCheckpointer:
        def open_twin(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            twin = PostgreSQLSyncCheckpointer(
                used_postgres.url, clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds, min_pool_size=0
            )
            return BlockingCheckpointerFace(twin)

        return open_twin


@pytest.mark.long  # another server, the same plans
class TestPostgreSQL15Checkpointer(PostgresCheckpointerSuite):
    @pytest.fixture
    def url(self, postgres15: Database) -> str:
        return postgres15.url


ODD: list[Any] = [
    *(
        "plain",
        "nul \0 inside",
        "lone \ud800 surrogate",
        "back\\slash and \\u0041",
        "tab\tand\x01",
        "Ünïcödé 🎈",
        "",
    ),
    *(
        1,
        True,
        1.0,
        -0.0,
        0,
        None,
        float("inf"),
        10**40,
        [1, "a"],
        ["a", 1],
        {"deep": [1]},
        {"deep": [1, 2]},
        (1, "a"),
    ),
]


def test_metadata_is_found_by_value_whatever_it_is_and_in_forks(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url) as checkpointer:
        state = AgentState()
        ids = [checkpointer.save(state, "t", metadata={"odd": value, "n": n}) for n, value in enumerate(ODD)]
        checkpointer.save(state, "t")
        checkpointer.scoped("other").save(state, "t", metadata={"odd": "plain"})
        checkpointer.fork("t", ids[4], "f")
        for n, value in enumerate(ODD):
            found = checkpointer.query_by_metadata("odd", value)
            expected = [("t", ids[n])] if n > 4 else [("f", ids[n]), ("t", ids[n])]
            assert [(row["thread_id"], row["checkpoint_id"]) for row in found] == expected, value
        assert checkpointer.query_by_metadata("odd", "missing") == []


def test_a_query_by_metadata_reads_an_index_and_not_the_table(postgres: Database) -> None:
    with PostgreSQLSyncCheckpointer(postgres.url) as checkpointer:
        for number in range(40):
            checkpointer.save(AgentState(), f"t{number}", metadata={"n": number})
    condition = POSTGRES.metadata_contains.replace("?", "'{\"n\": 7}'")
    with psycopg.connect(postgres.url) as connection:
        connection.execute("SET enable_seqscan = off")  # the table is too small for an index to pay
        query = f"EXPLAIN SELECT c.life FROM holdfast_checkpoints c WHERE {condition}"
        text = "\n".join(line for (line,) in connection.execute(query.encode()))
    assert "holdfast_checkpoints_metadata" in text
    assert "holdfast_checkpoints_escaped" in text

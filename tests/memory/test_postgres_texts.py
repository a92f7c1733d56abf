"""What PostgreSQL is sent: a guard and its inserts as one statement, values by their types."""

import asyncio
from typing import Any

import psycopg
import pytest

from holdfast.core.state import AgentState
from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
from holdfast.memory.backends.postgres_texts import encoded, fused
from holdfast.memory.backends.sql.plan import GUARD, LAST_GUARD, Statement, change, many
from tests.servers.fixtures import Database

MOVE = Statement("change", "UPDATE t SET n = ? WHERE n = ?", (2, 1), LAST_GUARD)
ROW = change("INSERT INTO a (x, y) VALUES (?, ?)", "x", b"y")
ROWS = many("INSERT INTO b (z) VALUES (?)", [(1,), (2,)])


def test_a_guard_and_its_inserts_are_one_statement() -> None:
    parts = (
        "WITH held AS (UPDATE t SET n = $1 WHERE n = $2 RETURNING 1)",
        "part_0 AS (INSERT INTO a (x, y) SELECT $3, $4 FROM held)",
        "part_1 AS (INSERT INTO b (z) SELECT $5 FROM held) INSERT INTO b (z) SELECT $6 FROM held",
    )
    assert fused([MOVE, ROW, ROWS]) == (", ".join(parts).encode(), [2, 1, "x", b"y", 1, 2])


@pytest.mark.parametrize(
    "batch",
    [
        [],
        [MOVE],
        [MOVE, many("INSERT INTO b (z) VALUES (?)", [])],
        [ROW, ROWS],
        [MOVE._replace(mark=GUARD), ROW],
        [MOVE, ROW, MOVE],
        [MOVE, change("DELETE FROM a WHERE x = ?", 1)],
        [MOVE, change("INSERT INTO a (x) VALUES (COALESCE(?, 1))", 1)],
        [MOVE, change("INSERT INTO a (x) SELECT x FROM b")],
        [MOVE, many("INSERT INTO b (z) VALUES (?)", [(n,) for n in range(50)])],
    ],
)
def test_any_other_batch_is_left_as_it_is(batch: list[Statement]) -> None:
    assert fused(batch) is None


def test_values_arrive_as_they_are(postgres: Database) -> None:
    given: dict[Any, bytes | None] = {
        "text": b"text",
        "": b"",
        "ä'\"\\": "ä'\"\\".encode(),
        0: b"0",
        -5: b"-5",
        2**62: b"4611686018427387904",
        1.5: b"1.5",
        b"\x00y": b"\\x0079",
        None: None,
    }
    params = [*given, True]
    values, types, formats = encoded(params)
    places = ", ".join(f"${number + 1}" for number in range(len(params)))
    with psycopg.connect(postgres.url) as connection:
        answer = connection.pgconn.exec_params(f"SELECT {places}".encode(), values, types, formats, 0)
        found = [answer.get_value(0, column) for column in range(len(params))]
    assert found == [*given.values(), b"t"]


def test_a_save_whose_guard_fails_inserts_nothing_and_is_done_another_way(postgres: Database) -> None:
    async def scenario() -> None:
        async with (
            PostgreSQLCheckpointer(postgres.url) as ours,
            PostgreSQLCheckpointer(postgres.url) as other,
        ):
            parent = await ours.save(AgentState(), "t")
            await other.put_writes("t", parent, "task", [("channel", 1)])  # which we don't know of
            state = AgentState(errors=("one",))
            newest = await ours.save(state, "t", parent=parent)
            assert await other.load("t") == state
            assert await other.get_writes("t", parent) == []
            assert [info.checkpoint_id for info in await other.history("t")] == [newest, parent]

    asyncio.run(scenario())
    assert postgres.sql("SELECT COUNT(*) FROM holdfast_entries") == [(1,)]

"""The versioned saver on a real PostgreSQL, asynchronous and blocking."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.memory.backends.postgres import PostgreSQLCheckpointSaver, PostgreSQLSyncCheckpointSaver
from tests.memory.saver_suite import SaverSuite, opened
from tests.servers.fixtures import Database


@pytest.fixture(params=["used_postgres", pytest.param("postgres15", marks=pytest.mark.long)])
def database(request: pytest.FixtureRequest) -> Database:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Database)
    return found


@pytest.fixture(params=[PostgreSQLCheckpointSaver, PostgreSQLSyncCheckpointSaver])
def saver(request: pytest.FixtureRequest, database: Database) -> Iterator[Any]:
    blocking = request.param is PostgreSQLSyncCheckpointSaver
    with opened(request.param(database.url), blocking=blocking) as facing:
        yield facing


class TestPostgreSQLSaver(SaverSuite):
    pass


def test_a_growing_list_is_stored_by_its_new_elements(saver: Any, database: Database) -> None:
    messages: list[dict[str, str]] = []
    for step in range(60):
        messages.append({"role": "user", "content": f"message {step} " + "x" * 100})
        document = {"step": step, "channel_values": {"messages": messages, "note": [step]}}
        saver.put(thread_id="t", checkpoint_id=f"c{step}", checkpoint_data=document)
    ((stored,),) = database.sql("SELECT SUM(LENGTH(body)) FROM holdfast_entries")
    assert stored < 1.5 * sum(len(str(message)) for message in messages)
    for step in (0, 7, 30, 59):
        found = saver.get(thread_id="t", checkpoint_id=f"c{step}")["checkpoint"]
        assert found["channel_values"]["messages"] == messages[: step + 1]

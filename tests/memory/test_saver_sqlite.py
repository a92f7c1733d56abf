"""The versioned saver on SQLite, asynchronous and blocking, against the promises of its contract."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.state import AgentState
from holdfast.memory.backends import SQLiteCheckpointer, SQLiteCheckpointSaver, SQLiteSyncCheckpointSaver
from tests.memory.saver_suite import SaverSuite, opened


@pytest.fixture(params=[SQLiteCheckpointSaver, SQLiteSyncCheckpointSaver])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    blocking = request.param is SQLiteSyncCheckpointSaver
    with opened(request.param(tmp_path / "saver.db"), blocking=blocking) as facing:
        yield facing


class TestSQLiteSaver(SaverSuite):
    pass


def test_a_growing_list_is_stored_by_its_new_elements(saver: Any, tmp_path: Path) -> None:
    messages: list[dict[str, str]] = []
    for step in range(60):
        messages.append({"role": "user", "content": f"message {step} " + "x" * 100})
        document = {"step": step, "channel_values": {"messages": messages, "note": [step]}}
        saver.put(thread_id="t", checkpoint_id=f"c{step}", checkpoint_data=document)
    with sqlite3.connect(tmp_path / "saver.db") as connection:
        ((stored,),) = connection.execute("SELECT SUM(LENGTH(body)) FROM holdfast_entries").fetchall()
        ((heads,),) = connection.execute("SELECT SUM(LENGTH(head)) FROM holdfast_checkpoints").fetchall()
    connection.close()
    once = sum(len(str(message)) for message in messages)
    assert stored < 1.5 * once
    assert heads < 60 * 2000
    for step in (0, 7, 8, 30, 59):
        found = saver.get(thread_id="t", checkpoint_id=f"c{step}")["checkpoint"]
        assert found["channel_values"]["messages"] == messages[: step + 1]
        assert found["channel_values"]["note"] == [step]


def test_saver_and_checkpointer_share_tables_but_not_threads(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "both.db"
        async with SQLiteCheckpointer(path) as checkpointer, SQLiteCheckpointSaver(path) as saver:
            await checkpointer.save(AgentState(), "t", "c")
            await saver.put(thread_id="t", checkpoint_id="c", checkpoint_data={"x": 1})
            assert await checkpointer.list_threads() == ["t"]
            assert await saver.delete_thread("t") is True
            assert await checkpointer.load("t") is not None
            await saver.put(thread_id="u", checkpoint_id="c", checkpoint_data={"x": 1})
            assert await checkpointer.list_threads() == ["t"]
            assert await checkpointer.delete("t") is True
            assert await saver.get(thread_id="u") is not None

    asyncio.run(run())

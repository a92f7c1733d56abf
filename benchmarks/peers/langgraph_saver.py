"""LangGraph's AsyncSqliteSaver with the same conversation. Run by its environment's Python; tells JSON.

As its users have it: message objects of langchain-core, the default serializer, the saver's own connection settings.
"""

import asyncio
import json
import sqlite3
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_core.messages import (  # type: ignore[import-not-found]  # it is in the peer's environment
    AIMessage,
    HumanMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import empty_checkpoint  # type: ignore[import-not-found]  # likewise
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # type: ignore[import-not-found]  # likewise

from benchmarks.floors import database_bytes, file_bytes, write_log
from benchmarks.timing import Run, interleaved
from benchmarks.workload import Turn, Vocabulary, conversation, json_bytes

TASKS = 16
PACKAGES = ("langgraph-checkpoint-sqlite", "langgraph-checkpoint", "langchain-core", "aiosqlite")


def as_messages(turn: Turn) -> list[Any]:
    return [_as_message(message) for message in turn]


def _as_message(message: dict[str, Any]) -> Any:
    if message["role"] == "user":
        return HumanMessage(message["content"])
    if message["role"] == "tool":
        return ToolMessage(message["content"], tool_call_id=message["tool_call_id"], name=message["name"])
    calls = [
        {"id": c["id"], "name": c["name"], "args": c["arguments"]} for c in message.get("tool_calls", ())
    ]
    return AIMessage(message.get("content", ""), tool_calls=calls)


async def put(saver: Any, config: Any, messages: list[Any], step: int) -> Any:
    """One checkpoint with all messages, as a graph with a list of messages makes it at each step."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = versions = {"messages": step}
    return await saver.aput(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, versions)


def first_config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def save_all(path: Path, turns: list[list[Any]], sizes: list[tuple[int, int]] | None = None) -> Run:
    run = Run()
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        config, messages = first_config("thread"), list[Any]()
        begin = time.process_time()
        for step, turn in enumerate(turns, 1):
            before = time.process_time()
            messages = [*messages, *turn]
            config = await put(saver, config, messages, step)
            run.saves.append(time.process_time() - before)
            if sizes is not None and step % 25 == 0:
                sizes.append((step, database_bytes(path)))
    run.total = time.process_time() - begin
    return run


async def append_all(path: Path, appends: int) -> int:
    """16 tasks append to one thread; returns how many messages its final state has."""
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()

        async def append(writer: int) -> None:
            for number in range(appends):
                found = await saver.aget_tuple(first_config("thread"))
                messages = [] if found is None else found.checkpoint["channel_values"]["messages"]
                config = first_config("thread") if found is None else found.config
                message = HumanMessage(f"writer {writer}, message {number}")
                await put(saver, config, [*messages, message], len(messages) + 1)

        await asyncio.gather(*(append(writer) for writer in range(TASKS)))
        found = await saver.aget_tuple(first_config("thread"))
        return len(found.checkpoint["channel_values"]["messages"])


async def durability(path: Path) -> str:
    async with (
        AsyncSqliteSaver.from_conn_string(str(path)) as saver,
        saver.conn.execute("SELECT * FROM pragma_journal_mode, pragma_synchronous") as cursor,
    ):
        mode, level = await cursor.fetchone()
    return f"{mode}, synchronous {'FULL' if level == 2 else level}"


def main(folder: Path, count: int, repeat: int, appends: int, vocabulary: Vocabulary) -> dict[str, Any]:
    turns = conversation(count, vocabulary)
    sizes: list[tuple[int, int]] = []

    def peer(number: int) -> Run:
        return asyncio.run(save_all(folder / f"peer-{number}.db", [as_messages(turn) for turn in turns]))

    rounds = interleaved(
        {"floor": lambda n: write_log(folder / f"floor-{n}.db", turns), "peer": peer}, repeat
    )
    asyncio.run(save_all(folder / "sizes.db", [as_messages(turn) for turn in turns], sizes))
    return {
        "versions": {**{name: version(name) for name in PACKAGES}, "sqlite": sqlite3.sqlite_version},
        "durability": asyncio.run(durability(folder / "peer-0.db")),
        "total": [run.total for run in rounds["peer"]],
        "floor": [run.total for run in rounds["floor"]],
        "disk": file_bytes(folder / "peer-0.db"),
        "json": json_bytes(turns),
        "saves": rounds["peer"][0].saves,
        "sizes": sizes,
        "kept": asyncio.run(append_all(folder / "tasks.db", appends)),
        "appended": TASKS * appends,
    }


if __name__ == "__main__":
    _, folder_name, turn_count, round_count, append_count, words = sys.argv
    chosen: Vocabulary = "uniform" if words == "uniform" else "zipf"
    print(json.dumps(main(Path(folder_name), int(turn_count), int(round_count), int(append_count), chosen)))

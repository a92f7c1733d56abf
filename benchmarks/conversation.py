"""The workload in the product's own types, and saving it."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import Run
from benchmarks.workload import Turn
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.sync import SyncCheckpointer

THREAD = "thread"


def as_messages(turns: Sequence[Turn]) -> list[list[Message]]:
    """New objects at each call, so that nothing that one run has learnt about a message helps the next."""
    return [[_as_message(message) for message in turn] for turn in turns]


def _as_message(message: dict[str, Any]) -> Message:
    if message["role"] == "user":
        return Message.user(message["content"])
    if message["role"] == "tool":
        call_id, name = message["tool_call_id"], message["name"]
        return Message.tool(ToolResult(tool_call_id=call_id, name=name, content=message["content"]))
    calls = [ToolCall(**call) for call in message.get("tool_calls", ())]
    return Message.assistant(message.get("content"), tool_calls=calls or None)


async def save_all(
    checkpointer: BaseCheckpointer, turns: Sequence[list[Message]], *, ids: list[str] | None = None
) -> Run:
    """One save a turn, each a compare-and-set on the one before; then close."""
    await checkpointer.exists(THREAD)  # the tables are made before, as the floor's are
    run, state = Run(), AgentState()
    parent: str | None = None
    begin = time.process_time()
    for messages in turns:
        before = time.process_time()
        state = state.with_messages(messages)
        parent = await checkpointer.save(state, THREAD, parent=parent)
        run.saves.append(time.process_time() - before)
        if ids is not None:
            ids.append(parent)
    await checkpointer.close()
    run.total = time.process_time() - begin
    return run


def save_all_blocking(checkpointer: SyncCheckpointer, turns: Sequence[list[Message]]) -> Run:
    """The same with the blocking twin."""
    checkpointer.exists(THREAD)
    run, state = Run(), AgentState()
    parent: str | None = None
    begin = time.process_time()
    for messages in turns:
        before = time.process_time()
        state = state.with_messages(messages)
        parent = checkpointer.save(state, THREAD, parent=parent)
        run.saves.append(time.process_time() - before)
    checkpointer.close()
    run.total = time.process_time() - begin
    return run


async def stored_conversation(path: Path, turns: Sequence[Turn]) -> list[str]:
    """A file with the whole conversation, its text index caught up; returns the checkpoints' ids."""
    ids: list[str] = []
    await save_all(SQLiteCheckpointer(path), as_messages(turns), ids=ids)
    return ids

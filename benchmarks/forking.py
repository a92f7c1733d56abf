"""What a fork writes to the write-ahead log, by the length of its thread and by how often it was forked before."""

import asyncio
import sqlite3
from pathlib import Path
from statistics import median

from benchmarks.conversation import THREAD, as_messages
from benchmarks.report import Measure, at_most, size
from benchmarks.settings import Settings, progress
from benchmarks.workload import conversation
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.sql.branching import MAX_SPANS
from holdfast.memory.backends.sqlite import SQLiteCheckpointer

LIMIT = 16 * 1024


def run(settings: Settings) -> list[Measure]:
    """The measures of forking."""
    return asyncio.run(_run(settings))


async def _run(settings: Settings) -> list[Measure]:
    path = settings.place("forking") / "forks.db"
    turns = as_messages(conversation(settings.fork_lengths[-1], settings.vocabulary))
    pending = iter(message for turn in turns for message in turn)
    state = AgentState()
    measures: list[Measure] = []
    async with SQLiteCheckpointer(path) as checkpointer:
        for length in settings.fork_lengths:
            progress(f"forking: a thread of {length} messages")
            while len(state.messages) < length:
                state = state.with_messages([next(pending)])
                await checkpointer.save(state, THREAD)
            written = [
                await _fork(checkpointer, path, THREAD, f"{length}, {n}") for n in range(settings.forks)
            ]
            what = f"WAL bytes of a fork, thread of {length:,} messages, largest of {settings.forks}"
            split = "now and then a page that is full is split"
            note = f"the median is {size(median(written))}: {split}" if max(written) > median(written) else ""
            measures.append(at_most(what, max(written), LIMIT, "B", note=note))
        measures += await _generations(checkpointer, path, state, settings.generations)
    return measures


async def _generations(
    checkpointer: SQLiteCheckpointer, path: Path, state: AgentState, count: int
) -> list[Measure]:
    """Forks of forks, each of which went on for a turn. One that would have too many ancestors is a copy."""
    progress("forking: forks of forks")
    source, written = THREAD, list[int]()
    for number in range(count):
        written.append(await _fork(checkpointer, path, source, f"generation {number}"))
        source = f"generation {number}"
        state = state.with_message(Message.user(f"said in {source}"))
        await checkpointer.save(state, source)
    sharing = written[:MAX_SPANS]
    what = f"WAL bytes of a fork of a fork ..., {len(sharing)} generations with a save in each, largest"
    bounded = at_most(what, max(sharing), LIMIT, "B", note=f"the median is {size(median(sharing))}")
    if len(written) <= MAX_SPANS:
        return [bounded]
    copy = written[MAX_SPANS]
    return [bounded, Measure(f"WAL bytes of generation {MAX_SPANS + 1}, a copy", size(copy), value=copy)]


async def _fork(checkpointer: SQLiteCheckpointer, path: Path, source: str, name: str) -> int:
    """Fork with an empty log before; its size then is what the fork wrote, SQLite's own headers included."""
    connection = sqlite3.connect(path)
    try:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.close()
    wal = path.with_name(path.name + "-wal")
    assert not busy
    assert wal.stat().st_size == 0
    await checkpointer.fork(source, None, name)
    return wal.stat().st_size

"""Listing threads does not depend on how many checkpoints they hold."""

import asyncio
import time
from pathlib import Path

from benchmarks.report import Measure, within_floor
from benchmarks.settings import Settings, progress
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer

PAGE = 100


def run(settings: Settings) -> list[Measure]:
    """The measures of listing."""
    folder = settings.place("listing")
    for name, checkpoints in (("few.db", 1), ("many.db", settings.checkpoints)):
        progress(f"listing: making {settings.threads:,} threads with {checkpoints} checkpoints each")
        _fill(folder / name, settings.threads, checkpoints)
    progress("listing: in turns")
    spent = asyncio.run(_list(folder, 20 * settings.repeat))
    what = f"CPU to list {PAGE} of {settings.threads:,} threads, {settings.checkpoints} checkpoints each against 1"
    note = "made with durability normal and without a text index; only the listing is measured"
    return [within_floor(what, spent["many.db"], spent["few.db"], 1.5, floor_name="with 1", note=note)]


def _fill(path: Path, threads: int, checkpoints: int) -> None:
    states = [AgentState()]
    for number in range(checkpoints):
        states.append(states[-1].with_messages([Message.user(f"message {number}")]))
    with SQLiteSyncCheckpointer(path, durability="normal", text_index=False) as checkpointer:
        for number in range(threads):
            for state in states[1:]:
                checkpointer.save(state, f"thread {number}")


async def _list(folder: Path, times: int) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {"few.db": [], "many.db": []}
    async with SQLiteCheckpointer(folder / "few.db") as few, SQLiteCheckpointer(folder / "many.db") as many:
        for _ in range(times):
            for name, checkpointer in (("few.db", few), ("many.db", many)):
                begin = time.process_time()
                page = await checkpointer.list_threads(PAGE)
                spent[name].append(time.process_time() - begin)
                assert len(page) == PAGE
    return spent

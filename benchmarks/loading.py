"""Loading by a fresh object, and a look at the newest checkpoints that reads no state."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.conversation import THREAD, stored_conversation
from benchmarks.floors import load_log, write_log
from benchmarks.report import Measure, fact, within_floor
from benchmarks.settings import Settings, progress
from benchmarks.timing import cpu, interleaved
from benchmarks.tracing import traced
from benchmarks.workload import Turn, conversation
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer

NEWEST = 10


def run(settings: Settings) -> list[Measure]:
    """The measures of loading."""
    progress("loading: storing the conversation")
    turns = conversation(settings.turns, settings.vocabulary)
    folder = settings.place("loading")
    ids = asyncio.run(stored_conversation(folder / "ours.db", turns))
    write_log(folder / "floor.db", turns)
    middle = len(turns) // 2
    return [
        _against_floor(settings, folder, "newest", None, turns),
        _against_floor(settings, folder, "middle", ids[middle - 1], turns[:middle]),
        *asyncio.run(_newest(settings, folder)),
    ]


def _against_floor(
    settings: Settings, folder: Path, name: str, checkpoint_id: str | None, turns: Sequence[Turn]
) -> Measure:
    progress(f"loading: the {name} checkpoint")
    messages = sum(map(len, turns))

    def floor(_: int) -> float:
        return cpu(lambda: load_log(folder / "floor.db", len(turns)))

    def ours(_: int) -> float:
        return asyncio.run(_load(folder / "ours.db", checkpoint_id, messages))

    rounds = interleaved({"floor": floor, "ours": ours}, max(settings.repeat, 3))
    what = f"CPU to open and load the {name} checkpoint ({messages:,} messages)"
    return within_floor(what, rounds["ours"], rounds["floor"], 3.0)


async def _load(path: Path, checkpoint_id: str | None, messages: int) -> float:
    begin = time.process_time()
    checkpointer = SQLiteCheckpointer(path)
    state = await checkpointer.load(THREAD, checkpoint_id)
    await checkpointer.close()
    spent = time.process_time() - begin
    assert state is not None
    assert len(state.messages) == messages
    return spent


# ── the ten newest, without states ────────────────────────────────────────────────────────────────


async def _newest(settings: Settings, folder: Path) -> list[Measure]:
    progress("loading: the newest checkpoints' metadata")
    async with SQLiteCheckpointer(folder / "small.db") as small:
        state = AgentState()
        for number in range(NEWEST):
            state = state.with_messages([Message.user("x")])
            await small.save(state, THREAD, metadata={"number": number})
    statements: list[str] = []
    spent: dict[str, list[float]] = {"ours.db": [], "small.db": []}
    async with (
        _open_traced(folder / "ours.db", statements) as large,
        SQLiteCheckpointer(folder / "small.db") as small,
    ):
        for _ in range(20 * settings.repeat):
            for name, checkpointer in (("ours.db", large), ("small.db", small)):
                begin = time.process_time()
                found = await checkpointer.history(THREAD, NEWEST)
                spent[name].append(time.process_time() - begin)
                assert len(found) == NEWEST
        tables = large._tables
    reads = [sql for sql in statements if tables.entries in sql or ".head" in sql or ".lists" in sql]
    against = within_floor(
        f"CPU of the {NEWEST} newest ids with metadata, long thread against one of {NEWEST} words",
        *(spent["ours.db"], spent["small.db"], 1.5),
        floor_name="short thread",
    )
    return [
        fact(
            f"statements of history({NEWEST}) that touch a state or an entry",
            f"{len(reads)} of {len(statements) // len(spent['ours.db'])}",
            "none",
            holds=bool(statements) and not reads,
        ),
        against,
    ]


@asynccontextmanager
async def _open_traced(path: Path, statements: list[str]) -> AsyncIterator[SQLiteCheckpointer]:
    """A checkpointer whose statements are written down, those apart that open the file."""
    with traced(lambda: statements.append):
        checkpointer = SQLiteCheckpointer(path)
        await checkpointer.history(THREAD, NEWEST)
    statements.clear()
    try:
        yield checkpointer
    finally:
        await checkpointer.close()

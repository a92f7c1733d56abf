"""Many writers on one thread: every message is in the final state, none twice."""

import asyncio
import subprocess
import sys
from pathlib import Path

from benchmarks.conversation import THREAD
from benchmarks.report import Measure, fact
from benchmarks.settings import ROOT, Settings, progress
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Conflict
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer


def run(settings: Settings) -> list[Measure]:
    """The measures of contention."""
    folder, appends = settings.place("contention"), settings.appends
    progress(f"contention: {settings.tasks} tasks")
    conflicts = asyncio.run(_tasks(folder / "tasks.db", settings.tasks, appends))
    tasks = _verdict("tasks", folder / "tasks.db", settings.tasks, appends, conflicts)
    progress(f"contention: {settings.processes} processes")
    conflicts = _processes(folder / "processes.db", settings.processes, appends)
    return [tasks, _verdict("processes", folder / "processes.db", settings.processes, appends, conflicts)]


def _verdict(who: str, path: Path, writers: int, appends: int, conflicts: int) -> Measure:
    with SQLiteSyncCheckpointer(path) as checkpointer:
        state = checkpointer.load(THREAD)
    assert state is not None
    texts = [message.content for message in state.messages]
    wanted = {_text(writer, number) for writer in range(writers) for number in range(appends)}
    missing, twice = len(wanted - set(texts)), len(texts) - len(set(texts))
    return fact(
        f"messages of {writers} {who}, {appends} appended by each, in the final state",
        f"{len(wanted) - missing} of {len(wanted)}, {twice} twice",
        f"{len(wanted)} of {len(wanted)}, 0 twice",
        note=f"{conflicts:,} conflicts, each tried again",
    )


def _text(writer: int, number: int) -> str:
    return f"writer {writer}, message {number}"


async def _tasks(path: Path, tasks: int, appends: int) -> int:
    async with SQLiteCheckpointer(path) as checkpointer:
        return sum(await asyncio.gather(*(_append(checkpointer, writer, appends) for writer in range(tasks))))


async def _append(checkpointer: SQLiteCheckpointer, writer: int, appends: int) -> int:
    """Load, append, save on what was loaded; on `Conflict` again. Returns how many conflicts there were."""
    conflicts = 0
    for number in range(appends):
        while True:
            found = await checkpointer.get(THREAD)
            state = AgentState() if found is None else found.state
            parent = None if found is None else found.info.checkpoint_id
            try:
                await checkpointer.save(
                    state.with_message(Message.user(_text(writer, number))), THREAD, parent=parent
                )
                break
            except Conflict:
                conflicts += 1
    return conflicts


def _processes(path: Path, processes: int, appends: int) -> int:
    command = [sys.executable, "-m", "benchmarks.contention", str(path)]
    started = [
        subprocess.Popen([*command, str(writer), str(appends)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for writer in range(processes)
    ]
    outputs = [process.communicate()[0] for process in started]
    failed = [process.returncode for process in started if process.returncode]
    if failed:
        raise RuntimeError(f"{len(failed)} of {processes} writers failed, with status {failed}")
    return sum(map(int, outputs))


async def _write_alone(path: Path, writer: int, appends: int) -> int:
    async with SQLiteCheckpointer(path) as checkpointer:
        return await _append(checkpointer, writer, appends)


if __name__ == "__main__":
    print(asyncio.run(_write_alone(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))

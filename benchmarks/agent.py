"""The agent: what it adds to its own saves, whether it is fair, whether it stays small, whether threads may be long."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Measure, at_most, size, within_floor
from benchmarks.settings import ROOT, Settings, progress
from benchmarks.timing import interleaved
from holdfast import Agent, tool
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec

PROMPT = "Please look this up for me, and tell me in a sentence or two what you have found. " * 2
ANSWER = "This is what I found: the thing that you asked about is there, and it is as you thought. " * 8


class Instant:
    """Answers at once: first with a tool call, then with text. What is measured is the agent alone."""

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        if messages[-1].role is Role.TOOL:
            return ModelResponse(Message.assistant(ANSWER))
        call = ToolCall(name="look_up", arguments={"word": "thing"})
        return ModelResponse(Message.assistant(tool_calls=[call]), finish_reason="tool_calls")

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> Any:
        yield ModelChunk(response=await self.complete(messages, tools))


@tool
async def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: " + "a line of the dictionary, " * 8


@tool(name="look_up")
def look_up_blocking(word: str) -> str:
    """Look a word up."""
    return f"{word}: " + "a line of the dictionary, " * 8


def agent_on(checkpointer: SQLiteCheckpointer, used: Any = look_up) -> Agent:
    return Agent("Help.", model=Instant(), tools=[used], checkpointer=checkpointer)


def run(settings: Settings) -> list[Measure]:
    """The measures of the agent."""
    folder = settings.place("agent")
    return [
        *_overhead(settings),
        _fairness(settings, folder / "fair.db"),
        *_lengths(settings, folder),
        memory(settings, sampled(settings, folder / "memory.db")),
    ]


# ── what it adds to its own saves ─────────────────────────────────────────────────────────────────


class Recording(SQLiteCheckpointer):
    """Keeps what it is asked to write, so that the same can be written again without an agent."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes: list[tuple[Any, ...]] = []

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        saved = await super().save(state, thread_id, checkpoint_id, metadata, **options)
        self.writes.append((state, metadata, options["parent"], saved))
        return saved

    async def put_writes(
        self, thread_id: str, checkpoint_id: str, task_id: str, writes: Sequence[tuple[str, Any]]
    ) -> None:
        await super().put_writes(thread_id, checkpoint_id, task_id, writes)
        self.writes.append((checkpoint_id, task_id, writes))


async def _record(path: Path, turns: int, used: Any) -> list[tuple[Any, ...]]:
    async with Recording(path) as checkpointer:
        agent = agent_on(checkpointer, used)
        for _ in range(turns):
            await agent.run(PROMPT, thread_id="t")
        return checkpointer.writes


async def _replay(path: Path, writes: list[tuple[Any, ...]]) -> float:
    """CPU of the same saves and pending writes, made directly."""
    ids: dict[str | None, str | None] = {None: None}
    async with SQLiteCheckpointer(path) as checkpointer:
        await checkpointer.exists("t")
        begin = time.process_time()
        for write in writes:
            if len(write) == 4:
                state, metadata, parent, saved = write
                ids[saved] = await checkpointer.save(state, "t", metadata=metadata, parent=ids[parent])
            else:
                checkpoint_id, task_id, values = write
                await checkpointer.put_writes("t", ids[checkpoint_id] or "", task_id, values)
        return time.process_time() - begin


async def _turns(path: Path, turns: int, used: Any) -> float:
    async with SQLiteCheckpointer(path) as checkpointer:
        await checkpointer.exists("t")
        agent = agent_on(checkpointer, used)
        begin = time.process_time()
        for _ in range(turns):
            await agent.run(PROMPT, thread_id="t")
        return time.process_time() - begin


def _overhead(settings: Settings) -> list[Measure]:
    return [
        _against_saves(settings, settings.place("agent/async"), "an async", look_up),
        _against_saves(settings, settings.place("agent/blocking"), "a blocking", look_up_blocking),
    ]


def _against_saves(settings: Settings, folder: Path, name: str, used: Any) -> Measure:
    progress(f"agent: turns with {name} tool")
    turns = settings.agent_turns
    writes = asyncio.run(_record(folder / "record.db", turns, used))
    rounds = interleaved(
        {
            "saves": lambda number: asyncio.run(_replay(folder / f"saves-{number}.db", writes)),
            "agent": lambda number: asyncio.run(_turns(folder / f"turns-{number}.db", turns, used)),
        },
        settings.repeat,
    )
    note = f"{len(writes) / turns:g} writes a turn"
    what = f"CPU of {turns} turns with {name} tool call each, against their own saves"
    return within_floor(what, rounds["agent"], rounds["saves"], 2.0, floor_name="its saves", note=note)


# ── 200 conversations at once ─────────────────────────────────────────────────────────────────────


def _fairness(settings: Settings, path: Path) -> Measure:
    progress(f"agent: {settings.conversations} conversations at once")
    counts = asyncio.run(_side_by_side(path, settings.conversations, settings.conversation_turns))
    return at_most(
        f"turns of the busiest of {settings.conversations} conversations in one process, against the least busy",
        max(counts) / min(counts),
        1.5,
        "x",
        note=f"{min(counts)} to {max(counts)} turns",
    )


async def _side_by_side(path: Path, conversations: int, turns: int) -> list[int]:
    """All go on until the first has done its turns."""
    counts = [0] * conversations
    first_done = asyncio.Event()
    async with SQLiteCheckpointer(path) as checkpointer:
        agent = agent_on(checkpointer)

        async def talk(number: int) -> None:
            while not first_done.is_set():
                await agent.run(PROMPT, thread_id=f"conversation {number}")
                counts[number] += 1
                if counts[number] >= turns:
                    first_done.set()

        await asyncio.gather(*(talk(number) for number in range(conversations)))
    return counts


# ── long threads ──────────────────────────────────────────────────────────────────────────────────


def _lengths(settings: Settings, folder: Path) -> list[Measure]:
    progress("agent: a turn on a short and on a long thread")
    short, long = settings.lengths
    found = asyncio.run(_by_length(folder, settings.repeat, short, long))
    warm = within_floor(
        f"CPU of a turn on a thread of {long:,} turns, against one of {short}",
        found["warm", long],
        found["warm", short],
        3.0,
        floor_name="short",
    )
    cold = within_floor(
        "the same by an agent that has not seen the thread before, and loads it",
        found["cold", long],
        found["cold", short],
        3.0,
        floor_name="short",
    )
    return [warm, cold]


async def _by_length(folder: Path, repeat: int, *lengths: int) -> dict[tuple[str, int], list[float]]:
    found: dict[tuple[str, int], list[float]] = {
        (kind, length): [] for kind in ("warm", "cold") for length in lengths
    }
    paths = {length: folder / f"length-{length}.db" for length in lengths}
    for length, path in paths.items():
        async with SQLiteCheckpointer(path) as checkpointer:
            agent = agent_on(checkpointer)
            for _ in range(length):
                await agent.run(PROMPT, thread_id="t")
    for number in range(repeat):
        for length, path in paths.items():
            async with SQLiteCheckpointer(path) as checkpointer:
                # Each on a fork of its own, so that the thread stays as long as it is.
                await checkpointer.fork("t", None, f"t{number}")
                agent = agent_on(checkpointer)
                await agent.run(PROMPT, thread_id=f"t{number}")
                found["warm", length].append(min([await _one(agent, f"t{number}") for _ in range(5)]))
            found["cold", length].append(min([await _cold(path, f"c{number}-{each}") for each in range(5)]))
    return found


async def _cold(path: Path, thread_id: str) -> float:
    """A turn of an agent and a connection that have not seen the thread."""
    async with SQLiteCheckpointer(path) as checkpointer:
        await checkpointer.fork("t", None, thread_id)
        return await _one(agent_on(checkpointer), thread_id)


async def _one(agent: Agent, thread_id: str) -> float:
    begin = time.process_time()
    await agent.run(PROMPT, thread_id=thread_id)
    return time.process_time() - begin


# ── memory ────────────────────────────────────────────────────────────────────────────────────────


def sampled(settings: Settings, path: Path) -> list[tuple[int, int]]:
    """Turns, and the resident size of a process of its own after them."""
    progress(f"agent: memory over {settings.memory_turns:,} turns")
    command = [sys.executable, "-m", "benchmarks.agent", str(path), str(settings.memory_turns)]
    command.append(str(settings.memory_threads))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [(turns, resident) for turns, resident in json.loads(done.stdout)]


def memory(settings: Settings, samples: Sequence[tuple[int, int]]) -> Measure:
    by_turns = dict(samples)
    last = max(by_turns)
    early = min(by_turns, key=lambda turns: abs(turns - last // 5))
    found = by_turns[last] / by_turns[early]
    what = f"memory after {last:,} turns on {settings.memory_threads} threads, against that after {early:,}"
    return Measure(
        what,
        size(by_turns[last]),
        size(by_turns[early]),
        found,
        "<= 1.1 x",
        found <= 1.1,
        timed=True,
        note="resident size of the process",
        value=found,
        samples={"turns": [t for t, _ in samples], "bytes": [b for _, b in samples]},
    )


async def _grow(path: Path, turns: int, threads: int) -> list[tuple[int, int]]:
    samples = []
    every = max(turns // 40, 1)
    async with SQLiteCheckpointer(path) as checkpointer:
        agent = agent_on(checkpointer)
        for number in range(1, turns + 1):
            await agent.run(PROMPT, thread_id=f"thread {number % threads}")
            if number % every == 0:
                samples.append((number, _resident()))
    return samples


def _resident() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def main() -> None:
    """The child that grows, or not: prints its samples."""
    path, turns, threads = sys.argv[1:]
    print(json.dumps(asyncio.run(_grow(Path(path), int(turns), int(threads)))))


if __name__ == "__main__":
    main()

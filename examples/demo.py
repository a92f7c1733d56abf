"""A conversation goes through save, crash, resume, rewind, fork, diff and search on one SQLite file.

Run it with ``make demo`` or ``python examples/demo.py``; ``--keep`` leaves the file for you to look at.
"""

import argparse
import asyncio
import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from holdfast.connection import Connection, connect
from holdfast.core.messages import Message, Role, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.errors import Conflict
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import CheckpointDiff
from holdfast.memory.store import BaseStore

THREAD, BRANCH, LONG = "trip", "trip-cheaper", "long-talk"
LONG_TURNS, WINDOW = 200, 20

BOOKING = ToolCall(id="call-1", name="book_hotel", arguments={"hotel": "Casa do Rio", "nights": 3})
BEFORE_THE_CRASH = [
    [
        Message.user("Help me plan three days in Lisbon in May."),
        Message.assistant("Lovely. Alfama and Belém on foot, then a day in Sintra. Shall I look at hotels?"),
    ],
    [
        Message.user("Yes: near the river, under 150 euros a night."),
        Message.assistant("Two fit: Casa do Rio for 140 euros, and Torre Azul for 95."),
    ],
    [
        Message.user("Book Casa do Rio, please."),
        Message.assistant(tool_calls=[BOOKING]),
        Message.tool(
            ToolResult(tool_call_id="call-1", name="book_hotel", content='{"confirmation": "LX-4471"}')
        ),
        Message.assistant("Booked: Casa do Rio, three nights, confirmation LX-4471."),
    ],
]
IN_THE_CHILD = [
    [
        Message.user("And a table for Saturday evening?"),
        Message.assistant("Reserved for eight o'clock, by the window."),
    ],
    [
        Message.user("I forgot to say: I'm vegetarian."),
        Message.assistant("Noted. I asked the kitchen for their vegetarian menu."),
    ],
]
NEVER_ANSWERED = [Message.user("What will the weather be like?")]
AFTER_THE_CRASH = [
    Message.user("Are you still there? What do we have?"),
    Message.assistant("All of it: the hotel (LX-4471), a table on Saturday at eight, vegetarian."),
]
OTHERWISE = [
    Message.user("Take the cheaper one instead."),
    Message.assistant("Booked: Torre Azul, three nights. That saves you 135 euros."),
]

STYLES = {Role.USER: "cyan", Role.ASSISTANT: "green", Role.TOOL: "yellow", Role.SYSTEM: "magenta"}
console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)


# ── what is shown: the bodies of these functions are printed, then run ────────────────────────────────


async def save(checkpointer: BaseCheckpointer, state: AgentState, head: str | None, turn: int) -> str:
    return await checkpointer.save(state, "trip", parent=head, metadata={"turn": turn})


async def resume(checkpointer: BaseCheckpointer) -> AgentState | None:
    return await checkpointer.load("trip")


async def rewind(checkpointer: BaseCheckpointer, checkpoint_id: str) -> AgentState | None:
    return await checkpointer.load("trip", checkpoint_id)


async def fork(checkpointer: BaseCheckpointer, checkpoint_id: str) -> str:
    return await checkpointer.fork("trip", checkpoint_id, "trip-cheaper")


async def diff(checkpointer: BaseCheckpointer, head: str) -> CheckpointDiff | None:
    return await checkpointer.diff("trip", head, after_thread="trip-cheaper")


async def search(checkpointer: BaseCheckpointer) -> list[dict[str, Any]]:
    return await checkpointer.search("booking a hotel")


async def remember(store: BaseStore) -> int:
    return await store.put(("users", "42"), "diet", {"text": "Eats vegetarian, no mushrooms"})


async def recall(store: BaseStore) -> list[Any]:
    return await store.search(("users", "42"), "what does a vegetarian guest eat?")


async def too_late(store: BaseStore) -> int:
    return await store.put(("users", "42"), "diet", {"text": "Eats anything"}, expected_version=0)


# ── the sections ──────────────────────────────────────────────────────────────────────────────────────


async def show_saving(checkpointer: BaseCheckpointer) -> None:
    section("Save", "Each turn becomes a checkpoint. `parent=` makes sure that nobody else was faster.")
    code(save)
    state, head = AgentState(agent_id="travel-agent"), None
    for turn, messages in enumerate(BEFORE_THE_CRASH, 1):
        state = state.with_messages(messages)
        head = await save(checkpointer, state, head, turn)
        talk(messages)
        effect(f"checkpoint {head}")


def show_crash(path: Path) -> list[str]:
    """The ids that the child was given before it died."""
    section("Crash", "Another process goes on with the conversation, and is killed in the middle of a save.")
    code(child)
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(path)]
    died = subprocess.run(command, capture_output=True, text=True, check=False)
    acknowledged = died.stdout.split()
    if died.returncode == 0 or len(acknowledged) != len(IN_THE_CHILD):
        raise SystemExit(f"the child did not die as planned: {died}")
    for messages in IN_THE_CHILD:
        talk(messages)
    effect(f"{len(acknowledged)} saves acknowledged, then killed by signal {abs(died.returncode)}", "red")
    return acknowledged


async def child(checkpointer: BaseCheckpointer, state: AgentState, head: str, turn: int) -> None:
    unfinished = asyncio.create_task(save(checkpointer, state, head, turn))
    await asyncio.sleep(0)  # the save is on its way
    os.kill(os.getpid(), signal.SIGKILL)
    await unfinished


async def run_child(path: str) -> None:
    """Go on where the thread stands, tell of each save that returned, die in the next one."""
    async with connect(f"sqlite:{path}") as db:
        found = await db.checkpointer.get(THREAD)
        assert found is not None
        state, head, turn = found.state, found.info.checkpoint_id, len(BEFORE_THE_CRASH)
        for messages in IN_THE_CHILD:
            turn += 1
            state = state.with_messages(messages)
            head = await save(db.checkpointer, state, head, turn)
            print(head, flush=True)
        await child(db.checkpointer, state.with_messages(NEVER_ANSWERED), head, turn + 1)


async def show_resume(checkpointer: BaseCheckpointer, acknowledged: list[str]) -> str:
    section("Resume", "A new process opens the file. What was acknowledged is there, on disk, whole.")
    code(resume)
    state = await resume(checkpointer)
    head = await checkpointer.head(THREAD)
    assert state is not None
    assert head is not None
    stored = set(await checkpointer.list_checkpoints(THREAD, 100))
    lost = [checkpoint_id for checkpoint_id in acknowledged if checkpoint_id not in stored]
    effect(f"resumed with {len(state.messages)} messages; acknowledged saves lost: {len(lost)}")
    if head.checkpoint_id not in acknowledged:
        effect("the save that was cut short had reached the disk too: whole, as a save is whole or not there")
    state = state.with_messages(AFTER_THE_CRASH)
    talk(AFTER_THE_CRASH)
    new_head = await save(checkpointer, state, head.checkpoint_id, head.sequence + 1)
    if lost:
        raise SystemExit(f"lost: {lost}")
    return new_head


async def show_rewind(checkpointer: BaseCheckpointer) -> str:
    section("Rewind", "Nothing is overwritten: every checkpoint can be loaded, at any time.")
    history = await checkpointer.history(THREAD, 100)
    chosen = next(info for info in history if info.metadata["turn"] == 2)
    for info in history:
        mark, style = ("◀ let's go back here", "bold") if info is chosen else ("", "dim")
        console.print(Text(f"    turn {info.metadata['turn']}  {info.checkpoint_id}  {mark}", style))
    code(rewind)
    state = await rewind(checkpointer, chosen.checkpoint_id)
    assert state is not None
    effect(f"the conversation as it was: {len(state.messages)} messages, nothing booked yet")
    return chosen.checkpoint_id


async def show_fork(checkpointer: BaseCheckpointer, checkpoint_id: str) -> None:
    section("Fork", "From there a second thread takes another way. The first one does not notice.")
    code(fork)
    head = await fork(checkpointer, checkpoint_id)
    state = await checkpointer.load(BRANCH)
    assert state is not None
    talk(OTHERWISE)
    await checkpointer.save(state.with_messages(OTHERWISE), BRANCH, parent=head, metadata={"turn": 3})
    effect(f"thread {BRANCH!r} shares its past with {THREAD!r}: no message was copied")


async def show_diff(checkpointer: BaseCheckpointer, head: str) -> None:
    section("Diff", "What is different between the two?")
    code(diff)
    found = await diff(checkpointer, head)
    assert found is not None
    change = found.lists["messages"]
    console.print(Text(f"    {change.common} messages in common", "dim"))
    for sign, style, messages in (("-", "red", change.removed), ("+", "green", change.added)):
        for message in messages:
            console.print(
                Text(f"    {sign} {message.role}: {said(message)}", style), overflow="ellipsis", no_wrap=True
            )


async def show_search(checkpointer: BaseCheckpointer) -> None:
    section("Search", "Full text over all threads. Words count by their stem: booking finds Booked.")
    code(search)
    hits = await search(checkpointer)
    for hit in hits[:4]:
        line = Text.assemble(
            f"    {hit['score']:5.2f}  ", (f"{hit['thread_id']:<12}", "bold cyan"), f"  {hit['snippet']}"
        )
        console.print(line, overflow="ellipsis", no_wrap=True)
    effect(f"{len(hits)} messages found")


async def show_store(store: BaseStore) -> None:
    section("Remember", "What should outlive a conversation goes into the store, in the same file.")
    code(remember)
    version = await remember(store)
    effect(f"version {version}")
    code(recall)
    for item in await recall(store):
        effect(f"{item.key}: {item.value['text']}")
    code(too_late)
    try:
        await too_late(store)
    except Conflict as error:
        effect(f"Conflict: {error}", "yellow")


async def show_cost(path: Path) -> None:
    section("Cost", f"{LONG_TURNS} turns in one thread: what does a save cost as the talk gets longer?")
    log = path.with_name(path.name + "-wal")
    state, rows = AgentState(), []
    for first in range(0, LONG_TURNS, WINDOW):
        async with connect(f"sqlite:{path}") as db:  # a fresh log for each row of the chart
            written = []
            for turn in range(first + 1, first + WINDOW + 1):
                question, answer = f"Question {turn}: " + "why? " * 40, f"Answer {turn}: " + "because. " * 90
                state = state.with_messages([Message.user(question), Message.assistant(answer)])
                before = log.stat().st_size if log.exists() else 0
                await db.checkpointer.save(state, LONG)
                written.append(log.stat().st_size - before)
        # The log's own header comes with the first save.
        rows.append(
            (first + WINDOW, sum(written[1:]) / len(written[1:]), len(json.dumps(state.to_checkpoint())))
        )
    chart(rows)
    growth = rows[-1][1] / rows[0][1]
    effect(f"at turn {LONG_TURNS} a save writes {growth:.1f} x what it wrote at the beginning")
    note = "a turn is 1 KB here; SQLite writes it as pages of 4 KB, those of the text index too"
    console.print(Text(f"      ({note})", "dim"))


def chart(rows: list[tuple[int, float, int]]) -> None:
    """A bar for what a save writes, beside how long the conversation has become."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("    up to turn", justify="right")
    table.add_column("a save writes", justify="left")
    table.add_column("the conversation so far", justify="left")
    scale = 30 / max(*[written for _, written, _ in rows], *[size for _, _, size in rows])
    for turn, written, size in rows:
        flat = Text.assemble(("█" * max(1, round(written * scale)), "green"), f" {written / 1000:.0f} KB")
        growing = Text.assemble(("░" * max(1, round(size * scale)), "dim"), f" {size / 1000:.0f} KB")
        table.add_row(str(turn), flat, growing)
    console.print(table)


# ── printing ──────────────────────────────────────────────────────────────────────────────────────────


def section(title: str, line: str) -> None:
    console.print()
    console.print(Text.assemble((f"{title}  ", "bold magenta"), (line, "")))


def code(function: Callable[..., Any]) -> None:
    """The body of the function that is about to run."""
    lines = textwrap.dedent(inspect.getsource(function).partition(":\n")[2]).strip()
    body = lines.removeprefix("return ")
    if console.is_terminal:
        syntax = Syntax(body, "python", theme="ansi_dark", background_color="default", word_wrap=True)
        console.print(Padding(syntax, (1, 0, 1, 4)))
    else:
        console.print("\n" + textwrap.indent(body, "    ") + "\n", markup=False, soft_wrap=True)


def talk(messages: list[Message]) -> None:
    for message in messages:
        speaker = (f"    {message.role:>9}  ", STYLES[message.role])
        console.print(Text.assemble(speaker, said(message)), overflow="ellipsis", no_wrap=True)


def said(message: Message) -> str:
    calls = [
        f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"
        for call in message.tool_calls
    ]
    return " ".join([message.content or "", *calls]).strip()


def effect(line: str, style: str = "bold") -> None:
    console.print(Text.assemble(("    → ", "dim"), (line, style)))


async def run(path: Path) -> None:
    console.print(
        Text.assemble(("Holdfast", "bold"), f": a conversation that survives. One SQLite file: {path}")
    )
    async with connect(f"sqlite:{path}") as db:
        await show_saving(db.checkpointer)
    acknowledged = show_crash(path)
    async with connect(f"sqlite:{path}") as db:
        await tour(db, acknowledged)
    await show_cost(path)


async def tour(db: Connection, acknowledged: list[str]) -> None:
    head = await show_resume(db.checkpointer, acknowledged)
    checkpoint_id = await show_rewind(db.checkpointer)
    await show_fork(db.checkpointer, checkpoint_id)
    await show_diff(db.checkpointer, head)
    await show_search(db.checkpointer)
    await show_store(db.store)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave the database file for the command `holdfast`"
    )
    parser.add_argument("--child", metavar="PATH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a pipe may not know every letter
    if options.child:
        asyncio.run(run_child(options.child))
        return
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        asyncio.run(run(folder / "demo.db"))
        if options.keep:
            section(
                "Yours", f"The file stays. Look into it: holdfast --db {folder / 'demo.db'} show {THREAD}"
            )
        else:
            section(
                "Yours", "That was one file and no server. With --keep the file stays for you to look into."
            )
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

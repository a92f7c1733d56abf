"""An agent works, is killed in the middle of its tools, goes on in a new process, is rewound and forked.

Run it with ``make demo`` or ``python examples/demo.py``; ``--keep`` leaves the SQLite file for you to look at. The
model is a script, so that it runs offline and says the same every time. Processes, kill and database are real.
"""

import argparse
import asyncio
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo_view import code, console, effect, one_line, play, said, section
from rich.text import Text

from holdfast import Agent, tool
from holdfast.agent import Event, Run, ToolCompleteEvent
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.records import CheckpointDiff, CheckpointInfo
from holdfast.testing import FunctionModel
from holdfast.tools import Tool

# ── the model: a script ───────────────────────────────────────────────────────────────────────────────


def call(*calls: tuple[str, dict[str, Any]]) -> Message:
    return Message.assistant(tool_calls=[ToolCall(name=name, arguments=given) for name, given in calls])


LOOK = "Three days in Lisbon in May: which hotels by the river are under 150 euros?"
BOOK = "Take Casa do Rio for three nights, pay its deposit of 90 euros, and how will the weather be?"
PIRATE = "From now on, talk like a pirate."
CHEAPER = "Take the cheaper one instead, for three nights."

SCRIPT: dict[str | None, list[str | Message]] = {
    LOOK: [
        call(("find_hotels", {"city": "Lisbon", "most": 150})),
        "Two fit: Casa do Rio for 140 euros a night, and Torre Azul for 95.",
    ],
    BOOK: [
        call(
            ("book_hotel", {"name": "Casa do Rio", "nights": 3}),
            ("pay_deposit", {"euros": 90, "to": "Casa do Rio"}),
            ("get_weather", {"city": "Lisbon"}),
        ),
        call(("list_payments", {})),  # it was told that the payment's outcome is unknown, so it looks
        "Casa do Rio is booked. The deposit had left before I was cut off: I did not pay it twice. Mild weather.",
    ],
    PIRATE: ["Arr! Yer berth at Casa do Rio be booked, and the sky be clear, matey."],
    CHEAPER: [
        call(("book_hotel", {"name": "Torre Azul", "nights": 3})),
        "Torre Azul is booked for three nights. That saves you 135 euros.",
    ],
}


def think(messages: Sequence[Message], tools: object = None, **options: object) -> str | Message:
    """The next line of the script: by the last question, and how often the model has spoken since."""
    asked = max(place for place, message in enumerate(messages) if message.role is Role.USER)
    spoken = [message for message in messages[asked:] if message.role is Role.ASSISTANT]
    return SCRIPT[messages[asked].content][len(spoken)]


model = FunctionModel(think)


# ── the tools, and the world that they change ─────────────────────────────────────────────────────────


class World:
    """What is done outside stays done: a line in a file for every tool that ran."""

    file: Path
    signals: int | None = None
    """A pipe to the one who will kill this process; without it, the world answers."""

    def write_down(self, name: str, what: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{name} {what}\n")

    def done(self) -> dict[str, list[str]]:
        """What each tool did."""
        done: dict[str, list[str]] = {tool.name: [] for tool in tools}
        for line in self.file.read_text(encoding="utf-8").splitlines():
            name, _, what = line.partition(" ")
            done[name].append(what)
        return done

    def answer(self) -> None:
        """Takes for ever in the process that is to be killed."""
        if self.signals is not None:
            os.write(self.signals, b".")
            threading.Event().wait()

    def tell(self, event: Event) -> None:
        """Tell the one who will kill this process that a tool is done."""
        if self.signals is not None and isinstance(event, ToolCompleteEvent):
            os.write(self.signals, b".")


world = World()


@tool(idempotent=True)
def find_hotels(city: str, most: int) -> list[str]:
    """Hotels in a city that cost at most so many euros a night."""
    return ["Casa do Rio, 140 euros", "Torre Azul, 95 euros"]


@tool
def book_hotel(name: str, nights: int) -> str:
    """Book a hotel."""
    world.write_down("book_hotel", name)
    return f"{name}, {nights} nights, confirmation LX-{len(world.done()['book_hotel']):03}"


@tool
def pay_deposit(euros: int, to: str) -> str:
    """Pay a deposit. Twice would be a pity."""
    world.write_down("pay_deposit", f"{euros} euros to {to}")  # it is gone ...
    world.answer()  # ... and here the process dies
    return f"{euros} euros went to {to}"


@tool(idempotent=True)
def get_weather(city: str) -> str:
    """The weather in a city. To ask again does no harm."""
    world.write_down("get_weather", city)
    world.answer()
    return "Mild, 21 degrees, hardly any rain"


@tool(idempotent=True)
def list_payments() -> list[str]:
    """The payments that the bank has made."""
    return world.done()["pay_deposit"]


tools: list[Tool[..., Any]] = [find_hotels, book_hotel, pay_deposit, get_weather, list_payments]


# ── what is shown: the bodies of these functions are printed, then run ────────────────────────────────


def build(url: str) -> Agent:
    return Agent("You plan trips.", model=model, tools=tools, checkpointer=url)


def work(agent: Agent, prompt: str) -> Run:
    return agent.run(prompt, thread_id="trip")  # async for event in it, or await it


def resume(agent: Agent) -> Run:
    return agent.resume("trip")


async def rewind(agent: Agent, checkpoint_id: str) -> str:
    return await agent.rewind("trip", checkpoint_id)


async def fork(agent: Agent, checkpoint_id: str) -> str:
    return await agent.fork("trip", checkpoint_id, "trip-cheaper")


async def diff(checkpointer: BaseCheckpointer, head: str) -> CheckpointDiff | None:
    return await checkpointer.diff("trip", head, after_thread="trip-cheaper")


async def search(checkpointer: BaseCheckpointer) -> list[dict[str, Any]]:
    return await checkpointer.search("paying a deposit twice")


# ── the sections ──────────────────────────────────────────────────────────────────────────────────────


async def show_work(agent: Agent) -> None:
    section("Work", "An agent has a model, tools and a database. It stores each step before the next begins.")
    code(build, work)
    await play(work(agent, LOOK), LOOK)


def show_crash(path: Path) -> None:
    section("Crash", "Another process takes the next turn. It is killed while its tools are at work.")
    code(pay_deposit.__wrapped__)
    reading, writing = os.pipe()
    child = subprocess.Popen([*command(path, "--signals"), str(writing)], pass_fds=[writing])
    os.close(writing)
    seen = b""
    while len(seen) < 3:  # one tool is done, two are waiting for an answer
        heard = os.read(reading, 3)
        if not heard:
            raise SystemExit(f"the child came to its end before it was killed: {child.wait()}")
        seen += heard
    child.kill()
    child.wait()
    os.close(reading)
    effect(f"kill -9: the process is dead (signal {-child.returncode}), two tools were still running", "red")


async def run_child(path: Path) -> None:
    """The process that is killed."""
    async with build(f"sqlite:{path}") as agent:
        await play(work(agent, BOOK), BOOK, then=world.tell)


def show_resume(path: Path) -> None:
    section("Resume", "A third process opens the file. The name of the thread is all that it is told.")
    code(resume)
    subprocess.run(command(path, "--resume"), check=True)
    ran = {name: len(times) for name, times in world.done().items()}
    once, twice = (", ".join(name for name in ran if ran[name] == times) for times in (1, 2))
    effect(f"in all, {once} ran once; {twice} ran twice, and may: it is idempotent")


async def run_resumed(path: Path) -> None:
    async with build(f"sqlite:{path}") as agent:
        await play(resume(agent))


async def show_rewind(agent: Agent) -> str:
    """The id of the checkpoint that it went back to."""
    section(
        "Rewind", "One more turn, and it was a mistake. Every step is still there: go back to any of them."
    )
    await play(work(agent, PIRATE), PIRATE)
    console.print()
    history = await agent.checkpointer.history("trip", 100)
    chosen = next(info for info in history if info.metadata["run_id"] != history[0].metadata["run_id"])
    for info in history[:5]:
        mark, style = ("◀ back to here", "bold") if info is chosen else ("", "dim")
        console.print(
            Text(f"    {info.sequence:>2}  {info.metadata['step']:<8} {info.checkpoint_id}  {mark}", style)
        )
    code(rewind)
    await rewind(agent, chosen.checkpoint_id)
    state = await agent.get_state("trip")
    assert state is not None
    effect(f"the thread has {len(state.messages)} messages again; the pirate stays in its history only")
    return chosen.checkpoint_id


async def show_fork(agent: Agent) -> None:
    section("Fork", "And what if we had decided otherwise? A second thread, from where the first turn ended.")
    history: list[CheckpointInfo] = await agent.checkpointer.history("trip", 100)
    chosen = next(info for info in reversed(history) if info.metadata["step"] == "answer")
    code(fork)
    await fork(agent, chosen.checkpoint_id)
    await play(agent.run(CHEAPER, thread_id="trip-cheaper"), CHEAPER)
    effect("'trip-cheaper' shares its past with 'trip': no message was copied, and 'trip' notices nothing")


async def show_diff(checkpointer: BaseCheckpointer, head: str) -> None:
    section("Diff", "How do the two differ?")
    code(diff)
    found = await diff(checkpointer, head)
    assert found is not None
    change = found.lists["messages"]
    console.print(Text(f"    {change.common} messages in common", "dim"))
    for sign, style, messages in (("-", "red", change.removed), ("+", "green", change.added)):
        for message in messages:
            one_line(Text(f"    {sign} {message.role.value}: {said(message)}", style))


async def show_search(checkpointer: BaseCheckpointer) -> None:
    section("Search", "Full text over all threads. Words count by their stem: paying finds pay.")
    code(search)
    hits = await search(checkpointer)
    for hit in hits[:4]:
        one_line(
            Text.assemble(
                f"    {hit['score']:5.2f}  ", (hit["thread_id"], "bold cyan"), f"  {hit['snippet']}"
            )
        )
    effect(f"{len(hits)} messages found")


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────


def command(path: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--file", str(path), *arguments]


async def run(path: Path) -> None:
    console.print(Text.assemble(("Holdfast", "bold"), f": an agent that survives. One SQLite file: {path}"))
    async with build(f"sqlite:{path}") as agent:
        await show_work(agent)
    show_crash(path)
    show_resume(path)
    async with build(f"sqlite:{path}") as agent:
        head = await show_rewind(agent)
        await show_fork(agent)
        await show_diff(agent.checkpointer, head)
        await show_search(agent.checkpointer)


def tell_the_end(path: Path, *, keep: bool) -> None:
    if keep:
        section("Yours", "The file stays. Look into it, or go on with the conversation:")
        console.print(f"    holdfast --db {path} show trip", soft_wrap=True)
        console.print(f"    holdfast --db {path} chat --thread trip --model mock:", soft_wrap=True)
    else:
        section("Yours", "That was one file and no server. With --keep the file stays for you to look into.")


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent that survives.")
    parser.add_argument(
        "--keep", action="store_true", help="leave the database file for the command `holdfast`"
    )
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--signals", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a pipe may not know every letter
    folder = options.file.parent if options.file else Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    path, world.file, world.signals = folder / "demo.db", folder / "world.txt", options.signals
    if options.file:
        asyncio.run(run_resumed(path) if options.resume else run_child(path))
        return
    try:
        asyncio.run(run(path))
        tell_the_end(path, keep=options.keep)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

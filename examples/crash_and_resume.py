"""A process is killed in the middle of a tool, and another one goes on with its work.

The first process takes an order: it checks the stock, charges a card and books a courier. While the courier's answer is
still out, the process is killed (SIGKILL: no handler, no farewell). The second process knows the database and the name
of the thread, and resumes. Every tool writes down that it ran, so that you can see which did so twice: none.

    python examples/crash_and_resume.py

Offline, on SQLite, with the mock model; ``config.py`` says how to use another one.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

from config import get_model

from holdfast.agent import Agent, Event, ResumeEvent, TerminateEvent, ToolCompleteEvent, ToolStartEvent
from holdfast.core.messages import Role
from holdfast.core.state import AgentState
from holdfast.tools import tool

THREAD = "order-1"
PROMPT = (
    "Check the stock of kettles, then call charge_card with euros=45 and book_courier with city=Lisbon,"
    " then send the receipt to alice@example.org."
)
ORDER = ("check_stock", "charge_card", "book_courier", "send_receipt")
NO_ANSWER = "    ... and the courier's answer does not come"


class Shop:
    """The world outside: what is done there stays done. It keeps a list of who did what."""

    def __init__(self, folder: Path, process: str) -> None:
        self._list = folder / "done.txt"
        self._process = process

    def write_down(self, what: str) -> None:
        with self._list.open("a") as file:
            file.write(f"{what} {self._process}\n")

    def done(self) -> list[tuple[str, str]]:
        lines = self._list.read_text().splitlines()
        return [(what, process) for what, _, process in (line.partition(" ") for line in lines)]


def make_agent(folder: Path, shop: Shop) -> Agent:
    """The same in both processes. Nothing is handed over but the database."""

    @tool(idempotent=True)
    def check_stock(item: str) -> str:
        """Look up how many of an item are in stock. Changes nothing, so it may run twice."""
        shop.write_down("check_stock")
        return f"There are 7 {item}"

    @tool
    def charge_card(euros: int) -> str:
        """Charge the customer's card. Running it twice would cost the customer twice."""
        shop.write_down("charge_card")
        return f"Charged {euros} euros"

    @tool
    def book_courier(city: str) -> str:
        """Book a courier to a city."""
        shop.write_down("book_courier")
        if [what for what, _ in shop.done()].count("book_courier") == 1:
            print(NO_ANSWER, flush=True)
            threading.Event().wait()  # the first request is never answered
        return f"A courier to {city} is booked"

    @tool
    def send_receipt(email: str) -> str:
        """Send the receipt by email."""
        shop.write_down("send_receipt")
        return f"The receipt went to {email}"

    return Agent(
        "You handle orders. Do what is asked, in that order.",
        model=get_model(),
        tools=[check_stock, charge_card, book_courier, send_receipt],
        checkpointer=f"sqlite:{folder / 'orders.db'}",
    )


def show(event: Event) -> None:
    """One line for what a reader should see."""
    if isinstance(event, ToolStartEvent):
        arguments = ", ".join(f"{name}={value!r}" for name, value in event.arguments.items())
        print(f"    -> {event.tool_name}({arguments})", flush=True)
    elif isinstance(event, ToolCompleteEvent):
        how = "  [ran in process 1, not run again]" if event.recovered and event.result.success else ""
        print(f"    {event.tool_name}: {event.result.content or 'outcome unknown'}{how}", flush=True)
    elif isinstance(event, ResumeEvent):
        print(
            f"    of the calls that were on their way, {len(event.finished)} had finished,"
            f" {len(event.repeated)} will run again, {len(event.unknown)} may or may not have taken effect"
        )
    elif isinstance(event, TerminateEvent):
        print(wrapped(f"answer: {event.final_message}"))


def wrapped(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    ")


async def process_1(folder: Path) -> None:
    async with make_agent(folder, Shop(folder, "1")) as agent:
        async for event in agent.run(PROMPT, thread_id=THREAD):
            show(event)


async def process_2(folder: Path) -> None:
    async with make_agent(folder, Shop(folder, "2")) as agent:
        async for event in agent.resume(THREAD):
            show(event)
        state = await agent.get_state(THREAD)
        assert state is not None
        report(state, Shop(folder, "2").done())


def report(state: AgentState, done: list[tuple[str, str]]) -> None:
    told = next(
        message.content or ""
        for message in state.messages
        if message.role is Role.TOOL and message.name == "book_courier"
    )
    print("\nWhat the model was told of the courier")
    print(wrapped(told))
    print("\nHow often each tool ran\n                  process 1   process 2")
    for name in ORDER:
        print(f"    {name:<14}{done.count((name, '1')):>7}{done.count((name, '2')):>12}")


def run_until_killed(folder: Path) -> None:
    """Start process 1, and kill it when the card is charged and the courier's answer is awaited."""
    waited_for = {"charge_card: Charged 45 euros", NO_ANSWER.strip()}
    command = [sys.executable, __file__, "--process", "1", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="")
            waited_for.discard(line.strip())
            if not waited_for:
                child.kill()
                break
    if waited_for:
        sys.exit("process 1 came to its end before it could be killed: this model took another way")
    print(f"    [process 1 was killed by signal {-child.returncode}]", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Killed in the middle of a tool, resumed in another process."
    )
    parser.add_argument("--process", choices=["1", "2"], help=argparse.SUPPRESS)
    parser.add_argument("folder", nargs="?", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        asyncio.run(process_1(options.folder) if options.process == "1" else process_2(options.folder))
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as folder:
        print(f"User: {PROMPT}\n\nProcess 1 works", flush=True)
        run_until_killed(Path(folder))
        print(f"\nProcess 2 calls agent.resume({THREAD!r})", flush=True)
        subprocess.run([sys.executable, __file__, "--process", "2", folder], check=True)


if __name__ == "__main__":
    main()

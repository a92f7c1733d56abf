"""A tool that a person must approve, and an approval that waits across a restart.

A tool with ``requires_approval=True`` does not run when the model calls it: the turn stops with the reason
"approval", and the process may end. Whoever is asked may answer tomorrow, from another process.

    python examples/approval.py                         # all of it, on a temporary file

or step by step, each a process of its own:

    python examples/approval.py ask --db shop.db        # the agent asks, and the process ends
    python examples/approval.py list --db shop.db       # what waits
    python examples/approval.py approve --db shop.db    # or: refuse --reason "too expensive"

Offline, with the mock model; ``config.py`` says how to use another one.
"""

import argparse
import asyncio
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from config import get_model

from holdfast import Agent, tool
from holdfast.agent import AgentResult
from holdfast.core.messages import ToolCall

THREAD = "invoice-17"
PROMPT = "Pay 250 euros to Alice."


def make_agent(db: Path) -> Agent:
    payments = db.with_suffix(".payments")

    @tool(requires_approval=True)
    def pay(euros: int, to: str) -> str:
        """Pay somebody: the money is gone at once."""
        with payments.open("a") as file:
            file.write(f"{euros} euros to {to}\n")
        return f"Paid {euros} euros to {to}"

    return Agent("You pay invoices.", model=get_model(), tools=[pay], checkpointer=f"sqlite:{db}")


async def ask(db: Path) -> None:
    """The turn begins, and stops before the tool runs."""
    async with make_agent(db) as agent:
        print(f"User:  {PROMPT}")
        show(await agent.run(PROMPT, thread_id=THREAD), db)


async def list_waiting(db: Path) -> None:
    async with make_agent(db) as agent:
        await print_waiting(agent)


async def print_waiting(agent: Agent) -> bool:
    waiting = await agent.pending_approvals(THREAD)
    print("\n".join(f"Waits: {described(call)}" for call in waiting) or "Nothing waits.")
    return bool(waiting)


async def decide(db: Path, verdict: bool | str) -> None:
    """``True`` runs the tool; a text refuses it, and is what the model hears. Several calls: a dict by their ids."""
    async with make_agent(db) as agent:
        if not await print_waiting(agent):
            return
        show(await agent.resume(THREAD, approve=verdict), db)


def show(result: AgentResult, db: Path) -> None:
    if result.stop_reason == "approval":
        print(f"Agent: (wants to call {', '.join(described(call) for call in result.approvals)})")
    else:
        print(f"Agent: {result.message}")
    payments = db.with_suffix(".payments")
    made = payments.read_text().splitlines() if payments.exists() else []
    print(f"       stop reason: {result.stop_reason}; payments made: {made or 'none'}")


def described(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def run_all(folder: Path) -> None:
    """Two invoices: one is approved, one refused."""
    for title, db, answer in (
        ("approved", folder / "first.db", ["approve"]),
        ("refused", folder / "second.db", ["refuse", "--reason", "the invoice is not ours"]),
    ):
        print(f"=== A payment that is {title} ===")
        for step in (["ask"], answer):
            print(f"\n$ python examples/approval.py {shlex.join(step)}", flush=True)
            subprocess.run([sys.executable, __file__, *step, "--db", str(db)], check=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description="A tool that a person must approve.")
    parser.add_argument("step", nargs="?", choices=["ask", "list", "approve", "refuse"])
    parser.add_argument("--db", type=Path, default=Path("approval.db"), help="the SQLite file of a step")
    parser.add_argument("--reason", default="not today", help="why it is refused")
    options = parser.parse_args()
    if options.step is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-approval-") as folder:
            run_all(Path(folder))
    elif options.step == "ask":
        asyncio.run(ask(options.db))
    elif options.step == "list":
        asyncio.run(list_waiting(options.db))
    else:
        asyncio.run(decide(options.db, True if options.step == "approve" else options.reason))


if __name__ == "__main__":
    main()

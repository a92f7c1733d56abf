"""Notebook 16: an agent's memory, in five parts.

An agent with a checkpointer writes every step of every turn to a database. Another agent, in another process, that
is given the same database and the same ``thread_id``, goes on where the first one stopped: it has the messages, the
tool calls, the confidence.

1. A conversation that is remembered from one turn to the next.
2. Tools, with a checkpoint after each step of the loop.
3. A new process that remembers what an old one was told.
4. Many threads in one database, each to itself.
5. A look into what is stored.

It runs offline on one SQLite file, with a mock for a model (see ``config.py``)::

    python examples/notebook_16_agent_memory.py            # in a temporary directory
    python examples/notebook_16_agent_memory.py my-folder  # the file stays there

and on Oracle Database when it is told where that is::

    export ORACLE_DSN=mydb_low ORACLE_USER=holdfast_app ORACLE_PASSWORD=... ORACLE_WALLET=~/wallets/mydb
    export ORACLE_WALLET_PASSWORD=...  # if the wallet has one
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from config import get_model, print_config

from holdfast.agent import Agent
from holdfast.errors import Unavailable
from holdfast.memory import backends
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.tools import tool

ORACLE_VARIABLES = ("ORACLE_DSN", "ORACLE_USER", "ORACLE_PASSWORD", "ORACLE_WALLET")
FILE = "notebook_16.db"


def missing_variables() -> list[str]:
    """What Oracle needs and the environment does not have."""
    return [name for name in ORACLE_VARIABLES if not os.environ.get(name)]


def build_checkpointer(folder: Path, part: str) -> BaseCheckpointer:
    """Oracle if the environment names one, else the SQLite file in the folder."""
    if missing_variables():
        return backends.sqlite_checkpointer(folder / FILE)
    return backends.oracle_checkpointer(
        dsn=os.environ["ORACLE_DSN"],
        user=os.environ["ORACLE_USER"],
        password=os.environ["ORACLE_PASSWORD"],
        wallet_location=str(Path(os.environ["ORACLE_WALLET"]).expanduser()),
        wallet_password=os.environ.get("ORACLE_WALLET_PASSWORD", ""),
        table_name=f"holdfast_notebook_16_{part}",
    )


# ── Part 1 ────────────────────────────────────────────────────────────────────────────────────────────


def conversation_memory(folder: Path) -> None:
    """Two turns with one ``thread_id``: the second knows what was said in the first."""
    agent = Agent(
        model=get_model(max_tokens=100),
        system_prompt="You are a helpful assistant. Remember what the user tells you.",
        checkpointer=build_checkpointer(folder, "convo"),
    )
    for prompt in ("My name is Alice.", "What's my name?"):
        result = agent.run_sync(prompt, thread_id="conversation_001")
        show(prompt, result.message)
    print(f"\nThe thread holds {len(result.state.messages)} messages.")


# ── Part 2 ────────────────────────────────────────────────────────────────────────────────────────────

NOTES: list[str] = []


@tool
def save_note(content: str) -> str:
    """Save a note for later reference."""
    NOTES.append(content)
    return f"Note saved: {content}"


@tool
def get_notes() -> str:
    """Get all saved notes."""
    lines = "".join(f"\n- {note}" for note in NOTES)
    return f"You have {len(NOTES)} note(s):{lines}" if NOTES else "No notes saved yet."


def checkpoints_with_tools(folder: Path) -> None:
    """A checkpoint after every step: a process that dies between two of them loses neither.

    What a tool is about to do, and what came of it, is always written first, whatever
    ``checkpoint_every_n_iterations`` says; ``crash_and_resume.py`` shows why.
    """
    checkpointer = build_checkpointer(folder, "notes")
    agent = Agent(
        model=get_model(max_tokens=150),
        tools=[save_note, get_notes],
        system_prompt="You are a note-taking assistant.",
        checkpointer=checkpointer,
        checkpoint_every_n_iterations=1,
    )
    for prompt in ("Save a note: Buy groceries", "What notes do I have?"):
        result = agent.run_sync(prompt, thread_id="notes_session")
        show(prompt, result.message)
        print(f"Tool calls: {result.metrics.tool_calls}")
    steps = asyncio.run(saved_steps(checkpointer, "notes_session"))
    print(f"\nCheckpoints of these two turns: {', '.join(steps)}")


async def saved_steps(checkpointer: BaseCheckpointer, thread_id: str) -> list[str]:
    """What each of the last eight checkpoints was saved after, oldest first."""
    return [info.metadata["step"] for info in reversed(await checkpointer.history(thread_id, 8))]


# ── Part 3 ────────────────────────────────────────────────────────────────────────────────────────────


def persistence_across_processes(folder: Path) -> None:
    """This process is told something, another one is asked. They share nothing but the database."""
    one_turn(folder, "Remember: The secret code is 42.")
    print(f"\n[This process is number {os.getpid()}. Another one goes on with the thread.]", flush=True)
    subprocess.run([sys.executable, __file__, str(folder), "--ask", "What was the secret code?"], check=True)


def one_turn(folder: Path, prompt: str) -> None:
    agent = Agent(
        model=get_model(max_tokens=100),
        system_prompt="You are a helpful assistant.",
        checkpointer=build_checkpointer(folder, "persist"),
    )
    result = agent.run_sync(prompt, thread_id="persistent_chat")
    show(prompt, result.message)


def another_process(folder: Path, prompt: str) -> None:
    """What the other process of part 3 does."""
    print(f"\n[Process {os.getpid()}]", end="")
    one_turn(folder, prompt)


# ── Part 4 ────────────────────────────────────────────────────────────────────────────────────────────


def many_threads(folder: Path) -> None:
    """Two people, two threads, one agent, one database: neither hears of the other."""
    agent = Agent(
        model=get_model(max_tokens=100),
        system_prompt="You are a helpful assistant.",
        checkpointer=build_checkpointer(folder, "multi"),
    )
    agent.run_sync("I'm Alice and I like pizza.", thread_id="thread_alice")
    agent.run_sync("I'm Bob and I like sushi.", thread_id="thread_bob")
    for thread_id in ("thread_alice", "thread_bob"):
        prompt = "What's my favorite food?"
        result = agent.run_sync(prompt, thread_id=thread_id)
        print(f"\n[{thread_id}]", end="")
        show(prompt, result.message)


# ── Part 5 ────────────────────────────────────────────────────────────────────────────────────────────


async def look_inside(folder: Path) -> None:
    """Load the stored state and read it field by field.

    ``reflexion=True`` keeps a confidence between 0 and 1: a tool call that succeeds raises it, one that fails
    lowers it. Here each of two turns calls a tool once, so it rises twice.
    """
    facts: list[str] = []

    @tool
    def record_fact(fact: str) -> str:
        """Persist a fact the user has shared so the agent can remember it."""
        facts.append(fact)
        return f"Recorded fact #{len(facts)}: {fact}"

    checkpointer = build_checkpointer(folder, "inspect")
    agent = Agent(
        agent_id="inspector",
        model=get_model(max_tokens=200),
        system_prompt=(
            "You are a helpful assistant. Whenever the user shares a fact about themselves (their name, job,"
            " hobbies, and so on), call record_fact exactly once with a short summary of it, then reply."
        ),
        tools=[record_fact],
        checkpointer=checkpointer,
        reflexion=True,
    )
    thread_id = "inspect_thread"
    # Blocking calls inside a running event loop are fine: they need nothing of the loop that they block.
    agent.run_sync("Hello, my name is Charlie.", thread_id=thread_id)
    agent.run_sync("I work as a data scientist.", thread_id=thread_id)

    state = await checkpointer.load(thread_id)
    assert state is not None
    print(f"\nThread:             {thread_id}")
    print(f"Agent:              {state.agent_id}")
    print(f"Iterations:         {state.iteration}")
    print(f"Tool calls:         {len(state.tool_history)} ({', '.join(state.tool_history)})")
    print(f"Tokens:             {state.total_tokens}")
    print(f"Confidence:         {state.confidence:.2f}")
    print(f"Confidence history: {[round(value, 2) for value in state.confidence_history]}")
    print(f"Messages:           {len(state.messages)}")
    for number, message in enumerate(state.messages):
        calls = " ".join(f"-> {call.name}({dict(call.arguments)})" for call in message.tool_calls)
        print(f"  {number}. [{message.role.value}] {message.content or ''}{calls}")
    print(f"Facts in the tool's own list: {facts}")


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────


def show(prompt: str, answer: str) -> None:
    print(f"\nUser:  {prompt}")
    print(f"Agent: {answer}")


def title(number: int, text: str) -> None:
    print(f"\n=== Part {number}: {text} ===")


def say_where(folder: Path) -> None:
    missing = missing_variables()
    if missing:
        print(f"Database: SQLite, {folder / FILE} (to run on Oracle, set {', '.join(missing)})")
    else:
        print(f"Database: Oracle, {os.environ['ORACLE_DSN']}")


def run_all(folder: Path) -> None:
    print("Notebook 16: an agent's memory")
    say_where(folder)
    print_config()
    title(1, "a conversation is remembered")
    conversation_memory(folder)
    title(2, "a checkpoint after each step")
    checkpoints_with_tools(folder)
    title(3, "a new process remembers")
    persistence_across_processes(folder)
    title(4, "many threads, each to itself")
    many_threads(folder)
    title(5, "what is stored")
    asyncio.run(look_inside(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent's memory, in five parts.")
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where the SQLite file stays; else it is temporary"
    )
    parser.add_argument("--ask", metavar="PROMPT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-notebook-") as temporary:
            run_all(Path(temporary))
    elif options.ask:
        another_process(options.folder, options.ask)
    else:
        options.folder.mkdir(parents=True, exist_ok=True)
        run_all(options.folder)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Unavailable as error:
        sys.exit(f"{error}\nUnset {ORACLE_VARIABLES[0]} to run on SQLite.")

"""Notebook 11: an agent with a memory that is shared by all threads of a user.

A checkpointer keeps *one thread*: who comes back with the same ``thread_id`` goes on with the conversation (notebook
16). A store keeps what holds *across threads*. ``LLMMemoryManager`` puts sentences about a user there when a turn has
ended, and gives those that matter to the agent when the next turn begins, in whatever thread.

1. In thread A an agent is told something about Alice. The manager keeps it.
2. What lies in the store then, as an administrator sees it.
3. In thread B a brand-new agent is shown it with Alice's question. It never sees a message of thread A.
4. Bob has the same store and a prefix of his own: nothing of Alice reaches him.
5. The same thing said again under a new key is still one memory; something else under the same key takes the place
   of the old one, which stays as history.

It runs offline on one SQLite file, with a mock for a model (see ``config.py``)::

    python examples/notebook_11_oracle_store.py            # in a temporary directory
    python examples/notebook_11_oracle_store.py my-folder  # the file stays there

and on Oracle Database when it is told where that is::

    export ORACLE_DSN=mydb_low ORACLE_USER=holdfast_app ORACLE_PASSWORD=... ORACLE_WALLET=~/wallets/mydb
    export ORACLE_WALLET_PASSWORD=...  # if the wallet has one
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
import uuid
from pathlib import Path

from config import get_model, print_config

from holdfast.agent import Agent, MemoryEvent, TerminateEvent
from holdfast.core.messages import Message, Role
from holdfast.errors import Unavailable
from holdfast.memory import store_backends
from holdfast.memory.backends import sqlite_checkpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.manager import LLMMemoryManager, Memory, MemoryType
from holdfast.memory.store import BaseStore

ORACLE_VARIABLES = ("ORACLE_DSN", "ORACLE_USER", "ORACLE_PASSWORD", "ORACLE_WALLET")
FILE = "notebook_11.db"
INSTRUCTIONS = "You help with cloud infrastructure. Be brief, and use what is remembered of the user."


def missing_variables() -> list[str]:
    """What Oracle needs and the environment does not have."""
    return [name for name in ORACLE_VARIABLES if not os.environ.get(name)]


def build_store(folder: Path) -> BaseStore:
    """Oracle if the environment names one, else the SQLite file in the folder."""
    if missing_variables():
        return store_backends.SQLiteStore(folder / FILE)
    return store_backends.OracleStore(
        dsn=os.environ["ORACLE_DSN"],
        user=os.environ["ORACLE_USER"],
        password=os.environ["ORACLE_PASSWORD"],
        wallet_location=str(Path(os.environ["ORACLE_WALLET"]).expanduser()),
        wallet_password=os.environ.get("ORACLE_WALLET_PASSWORD", ""),
        table_name="holdfast_notebook_11_store",
        dimension=None,  # words are enough here: no vectors
    )


# ── what is worth keeping ─────────────────────────────────────────────────────────────────────────────

REGION = re.compile(r"\bI prefer (?P<value>[\w-]+)", re.IGNORECASE)
WORK = re.compile(r"\bI work on (?P<value>[^.,;]+?)(?= and\b|[.,;]|$)", re.IGNORECASE)


async def extract(messages: list[Message]) -> list[Memory]:
    """Two patterns, so that the output is always the same. Leave ``extract_fn`` out for rules that know more, or give
    the manager a ``model``, which understands what is said."""
    found: list[Memory] = []
    fresh = f"heard_{uuid.uuid4().hex[:8]}"  # new each time: the manager sees by itself what is the same
    for message in messages:
        if message.role is not Role.USER or not message.content or "?" in message.content:
            continue
        for key, pattern, sentence in (
            (fresh, REGION, "Prefers the region {}."),
            ("work", WORK, "Works on {}."),
        ):
            if match := pattern.search(message.content):
                found.append(
                    Memory(
                        type=MemoryType.USER,
                        key=key,
                        content=sentence.format(match["value"]),
                        metadata={"source": "pattern"},
                    )
                )
    return found


def build_manager(store: BaseStore, user_id: str) -> LLMMemoryManager:
    """The prefix is the tenant: managers with different ones see nothing of each other."""
    return LLMMemoryManager(store=store, namespace_prefix=("users", user_id), extract_fn=extract)


# ── talking ───────────────────────────────────────────────────────────────────────────────────────────


async def say(
    prompt: str, thread_id: str, manager: LLMMemoryManager, checkpointer: BaseCheckpointer | None = None
) -> None:
    """One turn of a brand-new agent. The events tell what its memory gave and took."""
    agent = Agent(
        model=get_model(max_tokens=120),
        system_prompt=INSTRUCTIONS,
        memory_manager=manager,
        checkpointer=checkpointer,
    )
    print(f"\n[{thread_id}] User:  {prompt}")
    async for event in agent.run(prompt, thread_id=thread_id):
        if isinstance(event, MemoryEvent):
            print(f"[{thread_id}] {event.action}: {list(event.contents)}")
        elif isinstance(event, TerminateEvent):
            print(f"[{thread_id}] Agent: {(event.final_message or '').strip()}")


async def show_store(store: BaseStore) -> None:
    """Everything below the prefix of every user that we know of."""
    for user_id in ("alice", "bob"):
        for memory_type in MemoryType:
            namespace = ("users", user_id, memory_type.value)
            for item in await store.search(namespace, query=None, limit=10):
                print(f"{'/'.join(namespace)}/{item.key}: {item.value['content']}")


async def show_thread(checkpointer: BaseCheckpointer, thread_id: str) -> None:
    state = await checkpointer.load(thread_id)
    assert state is not None
    print(f"\nStored in {thread_id}:")
    for message in state.messages:
        print(f"  [{message.role.value}] {message.content}")


# ── all of it ─────────────────────────────────────────────────────────────────────────────────────────


async def run_all(folder: Path) -> None:
    print("Notebook 11: a memory across threads")
    store = build_store(folder)
    missing = missing_variables()
    if missing:
        print(f"Store: SQLite, {folder / FILE} (to run on Oracle, set {', '.join(missing)})")
    else:
        print(f"Store: Oracle, {os.environ['ORACLE_DSN']}")
    print_config()
    alice, bob = build_manager(store, "alice"), build_manager(store, "bob")
    question = "Which region do I prefer for inference, and what do I work on?"
    async with store, sqlite_checkpointer(folder / "threads.db") as checkpointer:
        title(1, "thread A tells")
        await say("I work on the GenAI platform and I prefer us-chicago-1 for inference.", "thread-a", alice)

        title(2, "what is in the store")
        await show_store(store)

        title(3, "thread B is asked")
        await say(question, "thread-b", alice, checkpointer)
        await show_thread(checkpointer, "thread-b")

        title(4, "Bob asks the same")
        await say(question, "thread-bob", bob)

        title(5, "said again, and changed")
        await say("As I said, I prefer us-chicago-1.", "thread-c", alice)
        await say("I work on the billing service.", "thread-d", alice)
        await show_store(store)
        for item in await alice.history():
            print(f"history: {item.value['content']} ({item.value['why']})")

        await alice.forget(everything=True)
        await bob.forget(everything=True)
        print(f"\nForgotten: {len(await alice.retrieve())} memories are left.")


def title(number: int, text: str) -> None:
    print(f"\n=== Part {number}: {text} ===")


def main() -> None:
    parser = argparse.ArgumentParser(description="A memory across threads, in five parts.")
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where the SQLite files stay; else they are temporary"
    )
    options = parser.parse_args()
    if options.folder is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-notebook-") as temporary:
            asyncio.run(run_all(Path(temporary)))
    else:
        options.folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(run_all(options.folder))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Unavailable as error:
        sys.exit(f"{error}\nUnset {ORACLE_VARIABLES[0]} to run on SQLite.")

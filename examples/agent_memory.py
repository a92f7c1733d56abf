"""An agent's memory on the database of your choice: the same program, told where to keep it in one of three ways.

An agent hears what Alice and Bob tell it. Later, in other threads, it is asked; a tool sees for whom it runs. What one
user said never comes up for the other.

    python examples/agent_memory.py

Offline, with the mock model; ``config.py`` says how to use another one. Chroma needs its extra: without it, that part
says so and the others run.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config import get_model, print_config

from holdfast import Agent, get_run_context, tool
from holdfast.errors import MissingExtra
from holdfast.memory import AgentMemory
from holdfast.memory.embedder import HashEmbedder

ORDERS = {"alice": ["kettle", "teapot"], "bob": ["bicycle"]}


@tool
async def my_orders() -> list[str]:
    """List the orders of the user who asks."""
    return ORDERS[get_run_context().user_id or ""]


async def visit(where: str, memory: str | Mapping[str, Any] | AgentMemory) -> None:
    """Two users talk to one agent on one memory."""
    print(f"\n=== {where}")
    async with Agent(
        "You are a helpful shop assistant.", model=get_model(), tools=[my_orders], memory=memory
    ) as agent:
        await agent.run("Hi, I'm Alice and I live in Tokyo.", user_id="alice")
        await agent.run("Hi, I'm Bob. I live in Lisbon and my dog is called Biscuit.", user_id="bob")
        assert agent.memory is not None
        for user_id in ("alice", "bob"):
            result = await agent.run("Call my_orders.", user_id=user_id)
            known = agent.memory.facts
            facts = [] if known is None else await known.query(predicate="lives_in", user_id=user_id)
            recalled = await agent.memory.recall("Whose dog is it?", user_id=user_id)
            print(f"{user_id}: lives in {', '.join(fact.object for fact in facts) or '?'}")
            print(f"{user_id}: orders {', '.join(ORDERS[user_id])} -> {result.message}")
            dogs = [episode.text for episode in recalled if "dog" in episode.text]
            print(f"{user_id}: dog -> {dogs[0] if dogs else 'nothing'}")


async def remembers(where: str, memory: str | AgentMemory) -> None:
    """Another agent, another thread: what was said is still there."""
    async with Agent("You are a helpful shop assistant.", model=get_model(), memory=memory) as agent:
        assert agent.memory is not None
        found = await agent.memory.recall("Where does Alice live?", 1, user_id="alice")
        print(f"afterwards, {where}: {found[0].text if found else 'nothing'}")


async def main(folder: Path) -> None:
    # 1. A URL. What it does not say is chosen for you.
    await visit("inmemory", "inmemory")
    await remembers("another memory of this process", "inmemory")
    await visit("sqlite:bot.db", f"sqlite:{folder}/bot.db")
    await remembers("in the same file", f"sqlite:{folder}/bot.db")
    try:
        # 2. A dict, for more.
        spec = {
            "backend": "chroma",
            "path": f"{folder}/chroma-db",
            "namespace": "tenant_a",
            "embedder": "hash",  # knows words only, offline; "openai-large" knows what they mean
            "with_facts": True,
        }
        await visit("chroma, by a dict", spec)
        # 3. An instance, for full control. Who made it closes it.
        from holdfast.memory.chroma import ChromaMemory

        async with ChromaMemory.local(
            f"{folder}/chroma-two", with_facts=True, embedder=HashEmbedder()
        ) as memory:
            await visit("chroma, by an instance", memory)
            await remembers("in the same directory", memory)
    except MissingExtra as missing:
        print(f"\nChroma is left out: {missing}")


if __name__ == "__main__":
    print_config()
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
    sys.stdout.flush()

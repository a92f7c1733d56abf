"""Working memory in six scenarios: what an agent keeps of a conversation, and where.

A `WorkingMemoryAgent` is told each message of a conversation. It reads the memory so far, has a model rewrite it, and
stores it with a memory manager. The conversation is named in the metadata, and the answer is a status.

1. Basic operations: a memory that grows over four messages.
2. Many conversations, at once, each with its own memory.
3. What is refused, and what a failing storage does.
4. An agent without a manager.
5. A support case, from the first call to the refund.
6. A customer who comes back: another agent reads the memory from a file.

    python examples/agents/03_memory_patterns.py

Without a model in the environment (see ``config.py``) it runs offline, and `NoteTaker` writes the memories.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from config import get_model, print_config

from holdfast import connect
from holdfast.memory.working import (
    AgentInput,
    ILLMInput,
    InMemoryManager,
    StoreMemoryManager,
    WorkingMemoryAgent,
)
from holdfast.models import MockModel


class NoteTaker:
    """A client of our own: any object with `chat` will do. It keeps every message, where a model would sum them up."""

    async def chat(self, input: ILLMInput) -> dict[str, Any]:
        parts = dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", input.user_message, re.DOTALL))
        known = [line for line in parts["current_memory"].splitlines() if line.startswith("- ")]
        return {"llm_response": "\n".join([*known, f"- {parts['new_message']}"])}


class FullDisk(InMemoryManager):
    """A manager that can read, but not store."""

    async def store(self, data: Mapping[str, Any]) -> None:
        raise OSError("no space left on device")


class Conversation:
    """A conversation, said message by message to an agent."""

    def __init__(self, agent: WorkingMemoryAgent, conversation_id: str) -> None:
        self.agent, self.id = agent, conversation_id

    async def say(self, *messages: str) -> None:
        for message in messages:
            status = await self.agent.process(AgentInput(message, {"conversation_id": self.id}))
            print(f"  [{self.id}] {message}\n      -> {status}")


def choose_client() -> Any:
    """The model that the environment names. The mock answers, but it takes no notes."""
    model = get_model(max_tokens=500)
    if not isinstance(model, MockModel):
        return model
    print("The mock takes no notes: NoteTaker writes the memories, message by message.")
    return NoteTaker()


def title(number: int, text: str) -> None:
    print(f"\n=== Scenario {number}: {text} ===")


async def basic_operations(agent: WorkingMemoryAgent, manager: InMemoryManager) -> None:
    title(1, "basic memory operations")
    alice = Conversation(agent, "user_alice_session_001")
    await alice.say(
        "My name is Alice, and I write software for a shipping company",
        "I want to use machine learning in my current project",
        "Above all I need help with the processing of natural language",
        "Show me examples rather than theory",
    )
    manager.show_memory(alice.id)


async def many_conversations(agent: WorkingMemoryAgent, manager: InMemoryManager) -> None:
    title(2, "many conversations")
    bob, alice = Conversation(agent, "user_bob_session_002"), Conversation(agent, "user_alice_session_003")
    await asyncio.gather(
        bob.say("I'm Bob, a product manager", "My team thinks about a chatbot for customer support"),
        alice.say("It's Alice again, with a question about deployment"),
    )
    for conversation in (bob, alice):
        manager.show_memory(conversation.id)
    print(f"Conversations: {len(manager.memories)}, stored: {sum(manager.access_count.values())} times")


async def errors(agent: WorkingMemoryAgent) -> None:
    title(3, "errors")
    for metadata in ({}, None, {"conversation_id": ""}):
        print(f"  metadata={metadata!r}: {await agent.process(AgentInput('Whose is this?', metadata))}")
    failing = WorkingMemoryAgent(agent.llm_client, FullDisk())
    message = AgentInput("The order number is 77", {"conversation_id": "order_77"})
    print(f"  a full disk: {await failing.process(message)}")
    print(f"  the text is not lost: {failing.last_memory}")


async def without_manager(client: Any) -> None:
    title(4, "no memory manager")
    agent = WorkingMemoryAgent(client, None)
    await Conversation(agent, "standalone").say("Nobody keeps this")
    print(f"  agent.last_memory: {agent.last_memory}")


async def support_case(agent: WorkingMemoryAgent, manager: InMemoryManager) -> None:
    title(5, "a support case")
    ticket = Conversation(agent, "support_ticket_12345")
    await ticket.say(
        "Alice called about invoice #4567",
        "She was charged twice for one month of service",
        "The two transactions are TXN001 and TXN002",
        "The second charge of $99.99 was refunded",
        "She is content, the case is closed",
    )
    manager.show_memory(ticket.id)


async def returning_customer(client: Any, folder: Path) -> None:
    title(6, "a returning customer")
    url = f"sqlite:{folder / 'memory.db'}"
    async with connect(url) as database:
        agent = WorkingMemoryAgent(client, StoreMemoryManager(database.store))
        await Conversation(agent, "customer_bob").say("Bob ordered a blue kettle", "He prefers mail to calls")
    print("  ... the program ends; weeks later another one opens the same file ...")
    async with connect(url) as database:
        manager = StoreMemoryManager(database.store)
        for record in await manager.retrieve({"conversation_id": "customer_bob"}) or ():
            print(f"  What is known already:\n{record.working_memory}")
        later = Conversation(WorkingMemoryAgent(client, manager), "customer_bob")
        await later.say("Bob asks whether the kettle also comes in red")
        print(f"  And now:\n{later.agent.last_memory}")


async def main() -> None:
    print_config()
    client, manager = choose_client(), InMemoryManager()
    agent = WorkingMemoryAgent(client, manager)
    await basic_operations(agent, manager)
    await many_conversations(agent, manager)
    await errors(agent)
    await without_manager(client)
    await support_case(agent, manager)
    with tempfile.TemporaryDirectory() as folder:
        await returning_customer(client, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())

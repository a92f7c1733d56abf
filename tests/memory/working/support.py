"""Clients and managers for tests of working memory."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.working import (
    AgentInput,
    ILLMInput,
    InMemoryManager,
    StoreMemoryManager,
    WorkingMemoryAgent,
)

MEMORY = re.compile(r"<current_memory>\n(.*)\n</current_memory>", re.DOTALL)
MESSAGE = re.compile(r"<new_message>\n(.*)\n</new_message>", re.DOTALL)


def said(text: str) -> tuple[str, str]:
    """The current memory and the new message of a prompt."""
    memory, message = MEMORY.search(text), MESSAGE.search(text)
    assert memory is not None
    assert message is not None
    return "" if memory[1] == "(nothing yet)" else memory[1], message[1]


class Appender:
    """A client whose new memory is the old one with the message as one more line: what is lost is seen."""

    def __init__(self) -> None:
        self.inputs: list[ILLMInput] = []

    async def chat(self, input: ILLMInput) -> dict[str, Any]:
        self.inputs.append(input)
        memory, message = said(input.user_message)
        await asyncio.sleep(0)  # others get their turn in the middle of this one
        return {"llm_response": f"{memory}\n{message}".strip(), "usage": {"total_tokens": 1}}


class Broken(InMemoryManager):
    """A manager that can't read, or can't write."""

    def __init__(self, *, reading: Exception | None = None, storing: Exception | None = None) -> None:
        super().__init__()
        self.reading, self.storing = reading, storing

    async def retrieve(self, query: Mapping[str, Any]) -> Any:
        if self.reading:
            raise self.reading
        return await super().retrieve(query)

    async def store(self, data: Mapping[str, Any]) -> None:
        if self.storing:
            raise self.storing
        await super().store(data)


def message(text: str, conversation_id: str = "c1") -> AgentInput:
    return AgentInput(text, {"conversation_id": conversation_id})


def take_turns(path: Path, name: str, count: int) -> list[str]:
    """In a process of its own: `count` turns of the conversation "shared"."""

    async def work() -> list[str]:
        async with SQLiteStore(path) as store:
            agent = WorkingMemoryAgent(Appender(), StoreMemoryManager(store))
            return [await agent.process(message(f"{name}{turn}", "shared")) for turn in range(count)]

    return asyncio.run(work())

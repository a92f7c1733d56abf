"""Agents with a memory as children of `children`: killed around the moment at which a turn is learned."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from holdfast.agent import Agent
from holdfast.agent.progress import unfinished
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.messages import Message
from holdfast.memory import AgentMemory
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.manager import LLMMemoryManager
from holdfast.memory.store import BaseStore
from holdfast.testing import FunctionModel
from holdfast.testing.faults import StatementCounter
from tests.reliability import children
from tests.reliability.children import Children, Report
from tests.reliability.opening import kinds_of, watched_engine

THREAD: Final = "t"
USER: Final = "alice"
MODULE: Final = "tests.reliability.memory_jobs"


class MemoryChildren(Children):
    """`Children` that run the jobs of this module."""

    module = MODULE


def answer(messages: Sequence[Message], tools: object = None, **options: Any) -> str:
    said = (messages[-1].content or "").splitlines()[-1]
    return f"Noted: {said}"


class Later:
    """A clock that is three minutes ahead: leases of dead processes have run out."""

    def now_us(self) -> int:
        return SYSTEM_CLOCK.now_us() + 180_000_000


class Opened:
    """Threads and memories in one place, whose statements are counted."""

    def __init__(self, url: str, die_at: int = 0, clock: Clock = SYSTEM_CLOCK) -> None:
        self.counter = StatementCounter(die_at)
        engine = watched_engine(url, self.counter, durability="normal")
        kinds = kinds_of(url)
        self.threads: BaseCheckpointer = kinds.threads(engine=engine, owns_engine=True)
        self.store: BaseStore = kinds.store(engine=engine)
        self.memory = AgentMemory(self.store, self.threads, clock=clock)

    def agent(self, kind: str, **options: Any) -> Agent:
        model = FunctionModel(answer)
        if kind == "memory":
            options = {"memory": self.memory, **options}
        else:
            options = {"memory_manager": LLMMemoryManager(self.store), **options}
        return Agent(model=model, checkpointer=self.threads, **options)


def talk(report: Report, url: str, *, kind: str, prompt: str, die_at: int = 0) -> None:
    """One turn. The agent is closed, which waits for what is learned. Dies before the statement with that number."""

    async def scenario() -> None:
        opened = Opened(url, die_at)
        agent = opened.agent(kind)
        await agent.run(prompt, thread_id=THREAD, user_id=USER)
        await agent.aclose()
        report(f"statements {len(opened.counter.seen)}")
        await opened.threads.close()

    asyncio.run(scenario())


def go_on(report: Report, url: str, *, kind: str, prompt: str, resumes: bool) -> None:
    """What a process does after one that was killed: resume, or send the prompt again if it has no answer. Leases of
    the dead one have run out. Then a third process catches up, and says what is there."""

    async def scenario() -> None:
        opened = Opened(url)
        agent = opened.agent(kind)
        state = await opened.threads.scoped(USER).load(THREAD)
        asked = state is not None and prompt in [message.content for message in state.messages]
        answered = asked and state is not None and not unfinished(state)
        if asked and (resumes or answered):
            await agent.resume(THREAD, user_id=USER)
        else:
            await agent.run(prompt, thread_id=THREAD, user_id=USER)
        await agent.aclose()
        await opened.threads.close()
        opened = Opened(url, clock=Later())
        await opened.agent(kind).catch_up()
        await _look(report, opened)

    asyncio.run(scenario())


def rewind(report: Report, url: str, *, die_at: int = 0) -> None:
    """Put the thread back to where it was after its first turn; its memories follow."""

    async def scenario() -> None:
        opened = Opened(url, die_at)
        agent = opened.agent("memory", memory_follows_thread=True)
        history = await opened.threads.scoped(USER).history(THREAD, 10)
        first = [info for info in history if info.metadata["step"] == "answer"][-1]
        await agent.rewind(THREAD, first.checkpoint_id, user_id=USER)
        report(f"statements {len(opened.counter.seen)}")
        await opened.threads.close()

    asyncio.run(scenario())


def follow_up(report: Report, url: str) -> None:
    """The next process on that thread, and what is there then."""

    async def scenario() -> None:
        opened = Opened(url)
        async with opened.agent("memory", memory_follows_thread=True) as agent:
            await agent.resume(THREAD, user_id=USER)
        await _look(report, opened)

    asyncio.run(scenario())


async def _look(report: Report, opened: Opened) -> None:
    """What is there: the thread's messages, the episodes in their order, facts, and memories."""
    memory, where = opened.memory, ("memory", f"u:{USER}", "user")
    state = await opened.threads.scoped(USER).load(THREAD)
    facts = (await memory.profile(user_id=USER)).facts
    found = {
        "thread": [] if state is None else [message.content for message in state.messages],
        "episodes": [e.text for e in await memory.session_messages(THREAD, 1_000, user_id=USER)],
        "stored": [item.value["text"] async for item in memory._episodes.each(USER)],
        "facts": sorted(f"{fact.predicate} {fact.object} {len(fact.sources)}" for fact in facts),
        "memories": sorted([item.value["content"] async for item in opened.store.iterate(where)]),
    }
    report(json.dumps(found))
    await opened.threads.close()


if __name__ == "__main__":
    children.JOBS = MODULE
    children.serve()

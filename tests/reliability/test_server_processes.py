"""Processes and tasks that append to one thread on one server: all is there, nothing twice."""

import asyncio
from typing import Any

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.errors import Conflict
from holdfast.memory.checkpointer import BaseCheckpointer
from tests import forking
from tests.servers.oracle import Server, on_all_servers

PROCESSES, TASKS, EACH = 8, 16, 6


async def append(checkpointer: BaseCheckpointer, text: str) -> None:
    """Add a message to what is there, however many others do so."""
    while True:
        found = await checkpointer.get("t")
        state = found.state if found is not None else AgentState()
        parent = None if found is None else found.info.checkpoint_id
        try:
            await checkpointer.save(state.with_message(Message.user(text)), "t", parent=parent)
        except Conflict:
            continue
        return


async def _append_each(kind: type[Server], url: str, name: str) -> None:
    async with kind.checkpointer(url, max_pool_size=2) as checkpointer:
        for number in range(EACH):
            await append(checkpointer, f"{name} {number}")


def _process(kind: type[Server], url: str, name: str, barrier: Any) -> None:
    barrier.wait()
    asyncio.run(_append_each(kind, url, name))


def whole(database: Server, wanted: set[str]) -> None:
    with database.blocking(database.url) as checkpointer:
        state = checkpointer.load("t")
        assert state is not None
        texts = [message.content for message in state.messages]
        assert sorted(map(str, texts)) == sorted(wanted)
        assert len(checkpointer.list_checkpoints("t", limit=1000)) == len(wanted)


@on_all_servers()
def test_what_eight_processes_append_to_one_thread_is_all_there_and_nothing_twice(
    database: Server,
) -> None:
    context = forking.context()
    barrier = context.Barrier(PROCESSES)
    children = [
        context.Process(target=_process, args=(type(database), database.url, f"p{n}", barrier))
        for n in range(PROCESSES)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(180)
    assert [child.exitcode for child in children] == [0] * PROCESSES
    whole(database, {f"p{n} {number}" for n in range(PROCESSES) for number in range(EACH)})


@on_all_servers()
def test_what_sixteen_tasks_append_to_one_thread_is_all_there_and_nothing_twice(
    database: Server,
) -> None:
    async def run() -> None:
        async with database.checkpointer(database.url, max_pool_size=8) as checkpointer:
            await asyncio.gather(*(append(checkpointer, f"t{n}") for n in range(TASKS)))

    asyncio.run(run())
    whole(database, {f"t{n}" for n in range(TASKS)})

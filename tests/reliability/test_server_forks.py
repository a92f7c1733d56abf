"""Threads on a server that many writers fork, extend and delete at once: nothing is lost, nothing is left."""

import asyncio
import random

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer
from tests.servers.oracle import Server, on_all_servers

NAMES = [f"t{number}" for number in range(8)]


async def _one_writer(threads: BaseCheckpointer, seed: int, steps: int) -> None:
    draw = random.Random(seed)
    for number in range(steps):
        name = draw.choice(NAMES)
        kind = draw.choices(("save", "fork", "delete", "drop"), (4, 5, 4, 1))[0]
        try:
            if kind == "save":
                state = await threads.load(name) or AgentState()
                await threads.save(state.with_message(Message.user(f"{seed}.{number}")), name)
            elif kind == "fork":
                if ids := await threads.list_checkpoints(name, 20):
                    await threads.fork(name, draw.choice(ids), draw.choice(NAMES))
            elif kind == "delete":
                await threads.delete(name)
            elif len(ids := await threads.list_checkpoints(name, 20)) > 1:
                await threads.delete(name, draw.choice(ids))
        except (Conflict, InvalidInput):
            pass  # somebody else was first: it is there already, or gone


async def _race(database: Server, seed: int) -> None:
    async with database.checkpointer(database.url, max_pool_size=6) as threads:
        await asyncio.gather(*(_one_writer(threads, 100 * seed + writer, 40) for writer in range(6)))
        left = await threads.list_threads(100)
        for name in left:  # what is there is whole
            for checkpoint_id in await threads.list_checkpoints(name, 1000):
                assert await threads.load(name, checkpoint_id) is not None
        counted = sum([len(await threads.list_checkpoints(name, 1000)) for name in left])
        assert (await threads.stats()).checkpoints == counted
        await asyncio.gather(*(threads.delete(name) for name in left))


@on_all_servers(long=True)
def test_forks_and_deletions_by_many_writers_leave_nothing_behind(database: Server) -> None:
    for seed in range(2):
        asyncio.run(_race(database, seed))
        tables = ("threads", "lives", "ghosts", "hidden", "checkpoints", "entries", "writes")
        counts = {table: database.sql(f"SELECT COUNT(*) FROM holdfast_{table}")[0][0] for table in tables}
        assert set(counts.values()) == {0}, (seed, counts)

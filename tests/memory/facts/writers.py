"""What the processes of `test_processes` do."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.facts import Fact, FactStore
from holdfast.memory.store import BaseStore
from tests.servers.oracle import Server

SAME_DAY = datetime(2024, 5, 1, tzinfo=UTC)
ROUNDS = 5


@dataclass(frozen=True)
class Orders:
    """``path``: of a file, or the address of a database of that ``kind``. ``same_day``: all say from when, and all say
    the same day. ``confirm``: all say the same city."""

    path: str
    same_day: bool = False
    confirm: bool = False
    kind: type[Server] | None = None

    def open(self) -> BaseStore:
        return SQLiteStore(self.path) if self.kind is None else self.kind.store(self.path)


def move(number: int, orders: Orders, barrier: Barrier, answers: "Queue[list[Fact]]") -> None:
    """Move again and again while the others do, then say where the user lives."""
    asyncio.run(_move(number, orders, barrier, answers))


async def _move(number: int, orders: Orders, barrier: Barrier, answers: "Queue[list[Fact]]") -> None:
    async with orders.open() as store:
        facts = FactStore(store)
        barrier.wait(60)
        for turn in range(ROUNDS):
            city = "Rome" if orders.confirm else f"City {number}.{turn}"
            start = SAME_DAY if orders.same_day else None
            fact = Fact("user", "lives_in", city, confidence=0.5, valid_from=start)
            await facts.add(fact, user_id="alice", source=f"episode {turn}" if orders.confirm else None)
        barrier.wait(60)
        answers.put(await facts.query(subject="user", predicate="lives_in", user_id="alice"))

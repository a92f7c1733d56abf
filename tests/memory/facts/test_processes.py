"""Eight processes that supersede one fact at the same time agree, and lose nothing."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from holdfast.memory.facts import Fact, FactStore
from tests import forking
from tests.memory.facts.writers import ROUNDS, Orders, move
from tests.servers.oracle import Server, on_all_servers

WRITERS = 8
BEFORE = datetime(2020, 1, 1, tzinfo=UTC)


def race(orders: Orders) -> tuple[list[list[Fact]], list[Fact]]:
    """What each process sees in the end, and the history."""
    asyncio.run(_begin(orders))
    context = forking.context()
    barrier, answers = context.Barrier(WRITERS), context.Queue()
    processes = [
        context.Process(target=move, args=(number, orders, barrier, answers)) for number in range(WRITERS)
    ]
    for process in processes:
        process.start()
    seen = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    answers.close()
    answers.join_thread()
    return seen, asyncio.run(_history(orders))


async def _begin(orders: Orders) -> None:
    async with orders.open() as store:
        fact = Fact("user", "lives_in", "Paris", confidence=0.5, valid_from=BEFORE)
        await FactStore(store).add(fact, user_id="alice")


async def _history(orders: Orders) -> list[Fact]:
    async with orders.open() as store:
        return await FactStore(store).history("user", "lives_in", user_id="alice")


def test_eight_processes_that_move_end_with_one_home(tmp_path: Path) -> None:
    assert_one_home(Orders(str(tmp_path / "facts.db")))


@on_all_servers()
def test_eight_processes_that_move_end_with_one_home_on_a_server(database: Server) -> None:
    assert_one_home(Orders(database.url, kind=type(database)))


def assert_one_home(orders: Orders) -> None:
    seen, history = race(orders)
    assert len(seen[0]) == 1
    assert all(facts == seen[0] for facts in seen)
    assert len({fact.object for fact in history}) == 1 + WRITERS * ROUNDS
    assert all(older.valid_until == newer.valid_from for older, newer in pairwise(history))
    assert [fact.valid_until for fact in history][-1] is None


def test_eight_processes_that_move_on_the_same_day_end_with_one_home(tmp_path: Path) -> None:
    seen, history = race(Orders(str(tmp_path / "facts.db"), same_day=True))
    assert len(seen[0]) == 1
    assert all(facts == seen[0] for facts in seen)
    assert len({fact.object for fact in history}) == 1 + WRITERS * ROUNDS
    held = [fact.object for fact in history if fact.valid_from != fact.valid_until]
    assert held == ["Paris", seen[0][0].object]


def test_eight_processes_that_repeat_one_source_say_it_once(tmp_path: Path) -> None:
    seen, history = race(Orders(str(tmp_path / "facts.db"), confirm=True))
    ((rome,), *_) = seen
    assert all(facts == [rome] for facts in seen)
    assert (rome.object, len(rome.sources)) == ("Rome", ROUNDS)
    assert rome.confidence == 1 - 0.5**ROUNDS
    assert [fact.object for fact in history] == ["Paris", "Rome"]

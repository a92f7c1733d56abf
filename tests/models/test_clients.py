"""One client per event loop, closed with it."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.models.clients import PerLoop
from tests.models.wire import WAIT


class Client:
    """A client that only its own loop may close, as the vendors' are."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = 0

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        self.closed += 1


@pytest.fixture
def clients() -> PerLoop[Client]:
    return PerLoop(Client.close)


def test_a_loop_has_one_client_and_another_loop_another(clients: PerLoop[Client]) -> None:
    async def ask() -> tuple[Client, Client]:
        first = clients.get(Client)
        await asyncio.sleep(0)
        return first, await asyncio.create_task(again())

    async def again() -> Client:
        return clients.get(Client)

    first, second = asyncio.run(ask())
    assert first is second
    other, _ = asyncio.run(ask())
    assert other is not first


def test_a_client_is_closed_when_its_loop_shuts_down(clients: PerLoop[Client]) -> None:
    async def ask() -> Client:
        client = clients.get(Client)
        assert not client.closed
        return client

    assert asyncio.run(ask()).closed == 1


def test_closing_closes_the_loops_client_once_and_the_next_is_new(clients: PerLoop[Client]) -> None:
    async def ask() -> tuple[Client, Client]:
        await clients.aclose()
        first = clients.get(Client)
        await clients.aclose()
        await clients.aclose()
        assert first.closed == 1
        return first, clients.get(Client)

    first, second = asyncio.run(ask())
    assert (first is second, first.closed, second.closed) == (False, 1, 1)


def test_a_dropped_holder_closes_its_client_on_the_loop() -> None:
    async def ask() -> Client:
        closed = asyncio.Event()

        async def close(client: Client) -> None:
            await client.close()
            closed.set()

        clients = PerLoop(close)
        client = clients.get(Client)
        del clients
        gc.collect()
        await asyncio.wait_for(closed.wait(), WAIT)
        return client

    assert asyncio.run(ask()).closed == 1


def test_clients_of_loops_that_ended_without_a_word_are_let_go(clients: PerLoop[Client]) -> None:
    async def ask() -> Client:
        return clients.get(Client)

    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(ask())
        loop.close()  # and no shutdown_asyncgens()
    asyncio.run(ask())
    assert len(clients._kept) <= 1


def test_threads_with_loops_of_their_own_get_clients_of_their_own(clients: PerLoop[Client]) -> None:
    together = threading.Barrier(8, timeout=WAIT)

    async def ask() -> Client:
        together.wait()
        client = clients.get(Client)
        assert clients.get(Client) is client
        assert client.loop is asyncio.get_running_loop()
        return client

    with ThreadPoolExecutor(8) as pool:
        got = [job.result(WAIT) for job in [pool.submit(asyncio.run, ask()) for _ in range(8)]]
    assert len({id(client) for client in got}) == 8
    assert [client.closed for client in got] == [1] * 8


def test_outside_of_a_loop_there_is_none(clients: PerLoop[Client]) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        clients.get(Client)

"""The store on PostgreSQL when connections break and the server dies: nothing acknowledged is lost or done twice."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Unavailable
from holdfast.memory.backends.postgres_session import PgSession
from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.backends.sql.plan import Batch
from tests.servers.fixtures import Database
from tests.servers.postgres import own_server
from tests.servers.proxy import Proxy

NS = ("users", "ann")
ITEMS = "holdfast_items"


def cut_commits(monkeypatch: pytest.MonkeyPatch, proxy: Proxy, times: int) -> None:
    """The answers to so many batches that commit are lost: what they asked for was done."""
    exchange, left = PgSession._exchange, [times]

    async def cutting(self: PgSession, batch: Batch, begin: str, *, commit: bool) -> list[Any]:
        if commit and any(statement.kind != "rows" for statement in batch) and left[0]:
            left[0] -= 1
            proxy.cut_next_answer()
        return await exchange(self, batch, begin, commit=commit)

    monkeypatch.setattr(PgSession, "_exchange", cutting)


def put(store: PostgresSyncStore) -> None:
    store.put(NS, "k", "an apple")


def compare_and_set(store: PostgresSyncStore) -> None:
    store.put(NS, "k", "an apple", expected_version=1)


def delete(store: PostgresSyncStore) -> None:
    store.delete(NS, "k", expected_version=1)


@pytest.mark.parametrize("write", [put, compare_and_set, delete])
def test_a_write_whose_answer_was_lost_is_in_doubt_and_was_done_once(
    postgres: Database,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[PostgresSyncStore], None],
) -> None:
    with PostgresSyncStore(postgres.through(proxy)) as store:
        assert store.put(NS, "k", "a pear") == 1
        cut_commits(monkeypatch, proxy, 1)
        with pytest.raises(Unavailable, match="not known"):
            write(store)
        item = store.get_item(NS, "k")  # the store goes on with another connection
        if write is delete:
            assert item is None
        else:
            assert item is not None
            assert (item.value, item.version) == ("an apple", 2)
            assert [hit.key for hit in store.search(NS, "apple")] == ["k"]
            assert store.search(NS, "pear") == []
        if write is not put:  # who compares and sets can just try again
            with pytest.raises(Conflict):
                write(store)
    assert postgres.sql(f"SELECT COUNT(*) FROM {ITEMS}_postings") == [(0 if write is delete else 1,)]


def test_a_write_that_was_cut_off_before_its_commit_is_done_by_another_try(
    postgres: Database, proxy: Proxy
) -> None:
    with PostgresSyncStore(postgres.through(proxy)) as store:
        store.put(NS, "k", "a pear")
        for number in range(5):
            proxy.cut_next_answer()
            store.put(NS, "k", f"apple {number}")
            assert store.get(NS, "k") == f"apple {number}"
        proxy.cut_all()  # while nothing is under way
        assert store.put(NS, "k", "plum", expected_version=_version(store)) > 5
        proxy.cut_next_answer()
        assert store.get(NS, "k") == "plum"


def _version(store: PostgresSyncStore) -> int:
    item = store.get_item(NS, "k")
    assert item is not None
    return item.version


def test_a_server_that_dies_under_load_keeps_every_put_that_was_acknowledged() -> None:
    async def write(store: PostgresStore, name: str, done: dict[str, int], stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                done[f"{name} {number}"] = await store.put(NS, f"{name} {number}", f"apple {number}")
            except Unavailable:
                await asyncio.sleep(0.05)

    async def run() -> None:
        with own_server() as server:
            async with PostgresStore(server.url(), pool_timeout=20) as store:
                done: dict[str, int] = {}
                stop = asyncio.Event()
                writers = [asyncio.create_task(write(store, f"w{n}", done, stop)) for n in range(6)]
                for enough in (60, 150):
                    while len(done) < enough:
                        await asyncio.sleep(0.02)
                    await asyncio.to_thread(server.stop, signal.SIGQUIT)
                    await asyncio.to_thread(server.start)
                while len(done) < 220:
                    await asyncio.sleep(0.02)
                stop.set()
                await asyncio.gather(*writers)
                kept = {item.key: item.version async for item in store.iterate(NS)}
                assert {key: kept.get(key) for key in done} == done
                assert len(set(kept.values())) == len(kept)
                assert len(await store.search(NS, "apple", 10_000)) == len(kept)

    asyncio.run(run())

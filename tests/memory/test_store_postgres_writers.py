"""Many writers on one PostgreSQL store: nothing is lost, nothing is counted twice, nothing is left behind."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from holdfast.core.errors import Conflict
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.backends.mysql_engine import MYSQL
from holdfast.memory.backends.postgres_engine import POSTGRES
from holdfast.memory.backends.postgres_session import PgSession
from holdfast.memory.backends.postgres_store import PostgresStore, PostgresSyncStore
from holdfast.memory.backends.sql.items_rows import key_of
from holdfast.memory.backends.sql.items_schema import ItemTables, items_schema
from holdfast.memory.backends.sql.items_store import SqlStore
from holdfast.memory.backends.sql.items_versions import OneCounter, Slots
from holdfast.memory.backends.sql.plan import Batch
from holdfast.memory.backends.sql.slots import SLOTS
from holdfast.memory.records import DeleteOp, Page, PutOp, StoreItem
from holdfast.memory.store import BaseStore
from tests.servers.fixtures import AnyDatabase, Database

NS = ("shared",)
ITEMS = "holdfast_items"
WORDS = ("apple", "pear", "plum", "fig", "quince")


def assert_sound(database: AnyDatabase) -> None:
    """What belongs to an item is there if and only if the item is."""
    for table in ("postings", "terms", "vectors"):
        orphans = f"SELECT * FROM {ITEMS}_{table} WHERE item_id NOT IN (SELECT id FROM {ITEMS})"
        assert database.sql(orphans) == [], table
    for one, other in ((ITEMS, f"{ITEMS}_namespaces"), (f"{ITEMS}_namespaces", ITEMS)):
        assert database.sql(f"SELECT ns FROM {one} WHERE ns NOT IN (SELECT ns FROM {other})") == []
    unlike = f"""SELECT i.id, i.length, COALESCE(SUM(p.tf), 0) FROM {ITEMS} i
        LEFT JOIN {ITEMS}_postings p ON p.item_id = i.id GROUP BY i.id HAVING i.length <> COALESCE(SUM(p.tf), 0)"""
    assert database.sql(unlike) == []
    assert database.sql(f"SELECT COUNT(*) FROM {ITEMS}_counters")[0][0] in (1, SLOTS)


async def count_up(store: BaseStore, times: int) -> None:
    for _ in range(times):
        while True:
            item = await store.get_item(NS, "count")
            value, version = (0, 0) if item is None else (item.value, item.version)
            try:
                await store.put(NS, "count", value + 1, expected_version=version)
                break
            except Conflict:
                continue


def test_sixteen_tasks_that_compare_and_set_one_item_lose_no_count(database: AnyDatabase) -> None:
    async def run() -> None:
        async with database.store(database.url) as store:
            await asyncio.gather(*(count_up(store, 5) for _ in range(16)))
            assert await store.get(NS, "count") == 80

    asyncio.run(run())


WRITER = """
import sys
from holdfast.errors import Conflict
from holdfast.memory.store_backends import PostgresSyncStore

url, name = sys.argv[1:]
with PostgresSyncStore(url, dimension=2) as store:
    for number in range(10):
        store.put_with_embedding(("shared",), f"{name} {number}", {"text": f"apple {name}"}, [1, number])
        while True:
            item = store.get_item(("shared",), "count")
            value, version = (0, 0) if item is None else (item.value, item.version)
            try:
                store.put(("shared",), "count", value + 1, expected_version=version)
                break
            except Conflict:
                continue
"""


def test_eight_processes_that_start_on_an_empty_database_lose_nothing(postgres: Database) -> None:
    names = [f"w{number}" for number in range(8)]
    command = [sys.executable, "-c", WRITER, postgres.url]
    writers = [subprocess.Popen([*command, name]) for name in names]
    assert [writer.wait() for writer in writers] == [0] * 8
    with PostgresSyncStore(postgres.url, dimension=2) as store:
        assert store.get(NS, "count") == 80
        assert len(store.search(NS, "apple", 500)) == 80
        assert len(store.search_by_embedding(NS, [0, 1], 500)) == 80
        versions = [item.version for item in store.iterate(NS)]
        assert len(set(versions)) == len(versions) == 81
    assert_sound(postgres)


async def at_random(store: BaseStore, seed: int, times: int) -> list[int]:
    """Put, replace and delete items that others put, replace and delete too."""
    chance, versions = random.Random(seed), []
    for _ in range(times):
        key = f"k{chance.randrange(12)}"
        if chance.random() < 0.3:
            await store.delete(NS, key)
        else:
            text = " ".join(chance.choices(WORDS, k=chance.randrange(1, 6)))
            vector = [chance.random(), chance.random()]
            put: Awaitable[int] = (
                store.put_with_embedding(NS, key, text, vector)
                if chance.random() < 0.7
                else store.put(NS, key, text)
            )
            versions.append(await put)
    return versions


def test_statistics_and_vectors_are_exact_after_writers_met_in_one_namespace(database: AnyDatabase) -> None:
    async def run() -> None:
        async with (
            database.store(database.url, dimension=2) as store,
            database.store(database.url, dimension=2) as reader,
            InMemoryStore(dimension=2) as reference,
        ):

            async def look() -> None:
                for _ in range(20):  # keeps vectors in memory while they change
                    await reader.search_by_embedding(NS, [1, 0], 20)

            found = await asyncio.gather(*(at_random(store, seed, 15) for seed in range(10)), look())
            for versions in found[:-1]:
                assert versions is not None
                assert all(earlier < later for earlier, later in pairwise(versions))
            every = [version for versions in found[:-1] for version in versions or ()]
            assert len(set(every)) == len(every)
            async for item in store.iterate(NS):
                await reference.put(NS, item.key, item.value)
            expected = await reference.text_candidates(NS, list(WORDS), 50)
            actual = await store.text_candidates(NS, list(WORDS), 50)
            assert (actual.documents, actual.average_length) == (expected.documents, expected.average_length)
            assert actual.document_frequencies == expected.document_frequencies
            hits = await reader.search_by_embedding(NS, [1, 0], 50)
            async with database.store(database.url, dimension=2) as fresh:
                assert hits == await fresh.search_by_embedding(NS, [1, 0], 50)
            stored = database.sql(f"SELECT COUNT(*) FROM {ITEMS}_vectors")
            assert stored == [(len(hits),)]

    asyncio.run(run())
    assert_sound(database)


def test_batches_over_namespaces_in_any_order_wait_for_each_other_and_never_fail(
    database: AnyDatabase,
) -> None:
    """Each moves one unit between two places: the sum stays, and nobody sees another one."""
    places = [(("bank", f"a{number}"), "balance") for number in range(5)]

    async def move(store: BaseStore, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(6):
            giver, taker = chance.sample(places, 2)
            while True:
                items = [await store.get_item(*place) for place in (giver, taker)]
                ops = [
                    PutOp(*place, (item.value if item else 10) + change)
                    for place, item, change in zip((giver, taker), items, (-1, 1), strict=True)
                ]
                need = [
                    (*place, item.version if item else 0)
                    for place, item in zip((giver, taker), items, strict=True)
                ]
                try:
                    await store.batch(ops, require=need)
                    break
                except Conflict:
                    continue

    async def run() -> None:
        async with database.store(database.url) as store:
            await asyncio.gather(*(move(store, seed) for seed in range(8)))
            balances = await store.get_batch(places)
            assert sum(10 if balance is None else balance for balance in balances) == 50

    asyncio.run(run())
    assert_sound(database)


def test_two_that_each_require_the_others_item_to_be_absent_are_not_both_done(database: AnyDatabase) -> None:
    async def run() -> None:
        async with database.store(database.url) as store:
            await store.put(("root", "x"), "k", 1)
            for number in range(10):
                one, other = (("root", f"a{number}"), "k"), (("root", f"b{number}"), "k")
                done = await asyncio.gather(
                    store.batch([PutOp(*one, 1)], require=[(*other, 0)]),
                    store.batch([PutOp(*other, 1)], require=[(*one, 0)]),
                    return_exceptions=True,
                )
                assert sorted(isinstance(answer, Conflict) for answer in done) == [False, True]

    asyncio.run(run())


async def clear(store: BaseStore, number: int) -> None:
    await store.clear_namespace(NS[:1], prefix=number % 2 == 0)


async def purge(store: BaseStore, number: int) -> None:
    await store.purge_expired()


async def delete(store: BaseStore, number: int) -> None:
    keys = [f"k{key}" for key in range(6)]
    await store.batch([DeleteOp((*NS, f"below{number % 3}"), key) for key in keys])


def by_slots(database: AnyDatabase) -> BaseStore:
    return database.store(database.url, dimension=2)


def by_one_counter(database: AnyDatabase) -> BaseStore:
    """What a database without sequences does."""
    dialect = POSTGRES if isinstance(database, Database) else MYSQL
    tables = ItemTables(dialect, ITEMS, OneCounter(dialect.lock))
    return SqlStore(database.engine(database.url).using(items_schema(tables)), tables, dimension=2)


@pytest.mark.parametrize("way", [clear, purge, delete])
@pytest.mark.parametrize("opened", [by_slots, by_one_counter])
def test_what_is_removed_while_others_write_takes_everything_along(
    database: AnyDatabase,
    way: Callable[[BaseStore, int], Awaitable[None]],
    opened: Callable[[AnyDatabase], BaseStore],
) -> None:
    async def fill(store: BaseStore, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(15):
            space = (*NS, f"below{chance.randrange(3)}") if chance.random() < 0.7 else NS
            text = " ".join(chance.choices(WORDS, k=3))
            ttl = 0.001 if chance.random() < 0.5 else None
            await store.put(space, f"k{chance.randrange(6)}", text, ttl=ttl)

    async def remove(store: BaseStore) -> None:
        for number in range(10):
            await way(store, number)

    async def run() -> None:
        async with opened(database) as store:
            await asyncio.gather(*(fill(store, seed) for seed in range(6)), remove(store), remove(store))

    asyncio.run(run())
    assert_sound(database)


def test_a_listing_does_not_pass_by_a_put_that_has_its_version_but_is_not_committed(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()
    exchange = PgSession._exchange

    async def held_up(self: PgSession, batch: Batch, begin: str, *, commit: bool) -> list[Any]:
        if commit and any("held up" in str(statement.params) for statement in batch):
            waiting.set()
            await go_on.wait()
        return await exchange(self, batch, begin, commit=commit)

    monkeypatch.setattr(PgSession, "_exchange", held_up)

    async def pages(store: BaseStore, after: str | None = None) -> Page[StoreItem]:
        return await store.search(("root",), limit=3, prefix=True, after=after)

    async def or_a_wait(task: asyncio.Task[Page[StoreItem]]) -> None:
        """Until it is done, or waits for another's lock."""
        locks = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not task.done() and not await asyncio.to_thread(postgres.sql, locks):
            await asyncio.sleep(0)

    async def run() -> None:
        async with PostgresStore(postgres.url) as store:
            for space, key in (("a", "x"), ("b", "y"), ("b", "z"), ("c", "w")):
                await store.put(("root", space), key, "first")
            put = asyncio.create_task(store.put(("root", "a"), "x", "held up"))
            await waiting.wait()
            for key in ("y", "z"):
                await store.put(("root", "b"), key, "second")
            listing = asyncio.create_task(pages(store))
            await or_a_wait(listing)
            go_on.set()
            await put
            page = await listing
            seen = [item.key for item in page]
            while page.next:
                page = await pages(store, page.next)
                seen += [item.key for item in page]
            assert set(seen) == {"w", "x", "y", "z"}

    asyncio.run(run())


def test_a_put_that_waited_for_a_batch_over_many_namespaces_is_newer(postgres: Database) -> None:
    """It has drawn a version before it began to wait: that one is not good any more."""
    spaces = sorted((("root", name) for name in "abc"), key=lambda space: Slots.slots([key_of(space)]))

    async def waiting(count: int) -> None:
        locks = "SELECT COUNT(DISTINCT pid) FROM pg_locks WHERE NOT granted"
        while (await asyncio.to_thread(postgres.sql, locks))[0][0] < count:
            await asyncio.sleep(0)

    async def run() -> None:
        async with PostgresStore(postgres.url) as store:
            await store.put(spaces[2], "k", "before")
            with psycopg.connect(postgres.url) as other:
                other.execute(
                    f"SELECT * FROM {ITEMS}_counters WHERE slot = %s FOR UPDATE",
                    Slots.slots([key_of(spaces[2])]),
                )
                batch = asyncio.create_task(store.batch([PutOp(space, "k", 1) for space in spaces]))
                await waiting(1)  # it has the first two, and waits for the third
                put = asyncio.create_task(store.put(spaces[1], "k", 2))
                await waiting(2)
                other.rollback()
                assert max(await batch) < await put
            item = await store.get_item(spaces[1], "k")
            assert item is not None
            assert (item.value, item.version) == (2, await put)

    asyncio.run(run())

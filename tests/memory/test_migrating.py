"""Everything from one database into another: what arrives, what a killed run leaves, and what is found to differ."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.connection import Connection, connect
from holdfast.core import codec, registry
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.migrating import ThreadMigration
from holdfast.memory.migrating_items import PORTION, ItemMigration
from holdfast.memory.requests import ThreadDump
from holdfast.memory.store_requests import WriteRequest
from holdfast.memory.text import query_terms
from holdfast.testing.clock import FrozenClock
from tests.memory.chroma_folder import chroma_folder

pytest.importorskip("numpy", reason="needs numpy")

HOSTILE = (
    "a/b",
    "../x",
    "%_",
    "Ä",
    "ä",
    "a\u0301",
    " a ",
    "x\x00y",
    "\u202e",
    "'; DROP TABLE x;--",
    "\ud800",
    "🪝",
)
SPACE: dict[str, Any] = {"dimension": 3, "distance_metric": "EUCLIDEAN", "embedder": "toy"}


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["sqlite", "memory", "postgres", "mariadb"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A source and a destination."""
    source = f"sqlite:{tmp_path / 'source.db'}"
    if request.param == "sqlite":
        return source, f"sqlite:{tmp_path / 'destination.db'}"
    if request.param == "memory":
        return source, "memory:"
    return source, request.getfixturevalue(request.param).url


async def fill(connection: Connection, clock: FrozenClock) -> None:
    """Threads of three scopes with forks, changed lists and pending writes; items with and without vectors."""
    checkpointer = connection.checkpointer
    state = AgentState(agent_id="helper", run_id="run-1")
    for number in range(5):
        state = state.with_messages([Message.user(f"question {number}"), Message.assistant("yes")])
        await checkpointer.save(state, "long", f"c{number}", {"turn": number, "at": clock.now})
        clock.advance(seconds=10)
    shorter = state.model_copy(update={"messages": state.messages[:3]})
    await checkpointer.save(shorter, "long", "cut")
    await checkpointer.put_writes("long", "cut", "task", [("messages", {"a": 1}), ("x", float("nan"))])
    await checkpointer.fork("long", "c2", "branch")
    for scope in ("alice", "b/ob"):
        for thread in HOSTILE:
            await checkpointer.scoped(scope).save(state, thread, metadata={"\ud800": scope})
            clock.advance(seconds=1)
    store = connection.store
    for number in (2, 1, 3):
        vector = [float(number), 0.5, -1.0]
        await store.put_with_embedding(("memory", "u:a"), f"k{number}", {"text": f"boat {number}"}, vector)
        clock.advance(seconds=1)
    await store.put(("memory", "u:a"), "k1", {"text": "no vector any more"}, {"group": "g", "ordinal": 1})
    await store.put(("memory", "u:a"), "short", "soon gone", ttl=60)
    for part in HOSTILE:
        await store.put(("odd", part), part, (1, {"when": clock.now}), {"tag": part})


def opened(urls: tuple[str, str], clock: FrozenClock) -> tuple[Connection, Connection]:
    return connect(urls[0], clock=clock, **SPACE), connect(urls[1], clock=clock)


async def both(
    source: Connection, destination: Connection, **options: bool
) -> tuple[ThreadMigration, ItemMigration]:
    threads = ThreadMigration(source.checkpointer, destination.checkpointer, **options)
    items = ItemMigration(source.store, destination.store, **options)
    for migration in (threads, items):
        await migration.copy()
        if not options.get("dry_run"):
            await migration.verify()
    return threads, items


def with_both(
    urls: tuple[str, str], clock: FrozenClock, work: Callable[[Connection, Connection], Awaitable[None]]
) -> None:
    async def run() -> None:
        source, destination = opened(urls, clock)
        async with source, destination:
            await fill(source, clock)
            await work(source, destination)

    asyncio.run(run())


def test_everything_arrives_and_is_verified(urls: tuple[str, str], clock: FrozenClock) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        clock.advance(seconds=10)
        threads, items = await both(source, destination)
        count = 2 + 2 * len(HOSTILE)
        assert (threads.threads.found, threads.threads.copied, threads.threads.verified) == (count,) * 3
        assert threads.checkpoints.verified == 6 + 3 + 2 * len(HOSTILE)
        assert (items.items.found, items.items.copied, items.items.verified) == (4 + len(HOSTILE),) * 3
        assert items.namespaces.found == items.namespaces.verified == 1 + len(HOSTILE)
        assert (threads.differences.count, items.differences.count) == (0, 0)
        await same_threads(source, destination)
        await same_items(source, destination)

    with_both(urls, clock, work)


async def same_threads(source: Connection, destination: Connection) -> None:
    assert await destination.checkpointer.admin().scopes() == [None, "alice", "b/ob"]
    for scope in (None, "alice", "b/ob"):
        ours, theirs = source.checkpointer._view(scope), destination.checkpointer._view(scope)
        listed = await ours.list_threads()
        assert list(await theirs.list_threads()) == list(listed)
        for thread in listed:
            history = await ours.history(thread, 100)
            copied = await theirs.history(thread, 100)
            assert [_but_sequence(info) for info in copied] == [_but_sequence(info) for info in history]
            for info in history:
                assert await theirs.load(thread, info.checkpoint_id) == await ours.load(
                    thread, info.checkpoint_id
                )
                writes = await theirs.get_writes(thread, info.checkpoint_id)
                assert repr(writes) == repr(await ours.get_writes(thread, info.checkpoint_id))


def _but_sequence(info: Any) -> tuple[Any, ...]:
    return info.thread_id, info.checkpoint_id, info.parent_id, info.metadata, info.created_at


async def same_items(source: Connection, destination: Connection) -> None:
    ours, theirs = source.store, destination.store
    namespaces = await ours.list_namespaces()
    assert list(await theirs.list_namespaces()) == list(namespaces)
    for namespace in namespaces:
        assert await theirs.space_of(namespace) == await ours.space_of(namespace)
        newest = [await side.search(namespace, limit=100) for side in (ours, theirs)]
        parts = [
            [(item.key, item.value, item.metadata, item.created_at, item.updated_at) for item in page]
            for page in newest
        ]
        assert parts[0] == parts[1]
    found = [hit.key for hit in await theirs.search(("memory", "u:a"), "boat")]
    assert found == [hit.key for hit in await ours.search(("memory", "u:a"), "boat")] != []


def test_vectors_and_the_time_to_live_come_along(urls: tuple[str, str], clock: FrozenClock) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        await both(source, destination)
        space = await destination.store.space_of(("memory", "u:a"))
        assert space is not None
        destination.store._open_space(space)
        for store in (source.store, destination.store):
            hits = await store.search_by_embedding(("memory", "u:a"), [2.0, 0.5, -1.0])
            assert [(hit.item.key, hit.distance) for hit in hits] == [("k2", 0.0), ("k3", 1.0)]
        assert await destination.store.exists(("memory", "u:a"), "short")
        clock.advance(seconds=61)
        assert not await destination.store.exists(("memory", "u:a"), "short")

    with_both(urls, clock, work)


def test_a_second_run_copies_nothing(urls: tuple[str, str], clock: FrozenClock) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        await both(source, destination)
        threads, items = await both(source, destination)
        assert (threads.threads.copied, threads.threads.skipped) == (0, threads.threads.found)
        assert (items.items.copied, items.items.skipped) == (0, items.items.found)
        assert threads.threads.verified == threads.threads.found

    with_both(urls, clock, work)


def test_two_runs_at_once_share_the_work(urls: tuple[str, str], clock: FrozenClock) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        runs = await asyncio.gather(both(source, destination), both(source, destination))
        for threads, items in runs:
            for tally in (threads.threads, items.items):
                assert (tally.copied + tally.skipped, tally.conflicts, tally.verified) == (
                    tally.found,
                    0,
                    tally.found,
                )
        assert sum(threads.threads.copied for threads, _ in runs) == runs[0][0].threads.found
        await same_items(source, destination)

    with_both(urls, clock, work)


class Killed(Exception):
    pass


def killed_after(count: int, hook: Any) -> Any:
    """The hook, which fails once it was called that often."""
    calls = iter(range(count))

    async def call(self: Any, request: ThreadDump | WriteRequest) -> Any:
        if next(calls, None) is None:
            raise Killed
        return await hook(self, request)

    return call


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_run_that_was_killed_is_completed_by_the_next(
    urls: tuple[str, str], clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        for number in range(3 * PORTION):
            await source.store.put(("many",), f"{(number * 7) % 500:03}", number)
        with monkeypatch.context() as patch:
            for target, name in ((destination.checkpointer, "_restore"), (destination.store, "_write")):
                patch.setattr(type(target), name, killed_after(count, getattr(type(target), name)))
            for migration in (
                ThreadMigration(source.checkpointer, destination.checkpointer),
                ItemMigration(source.store, destination.store),
            ):
                with pytest.raises(Killed):
                    await migration.copy()
        threads, items = await both(source, destination)
        assert threads.threads.skipped == count
        assert threads.threads.verified == threads.threads.found
        assert (items.items.skipped > 0) == (count > 0)
        assert items.items.verified == items.items.found
        await same_threads(source, destination)
        await same_items(source, destination)

    with_both(urls, clock, work)


def test_what_differs_is_a_conflict_and_stays_unless_it_may_be_replaced(
    urls: tuple[str, str], clock: FrozenClock
) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        await both(source, destination)
        other = AgentState(agent_id="other", run_id="r")
        await destination.checkpointer.save(other, "branch", "theirs")
        await destination.store.put(("odd", "Ä"), "Ä", "theirs")
        await destination.store.put(("odd", "Ä"), "only theirs", 1)
        threads, items = await both(source, destination)
        assert (threads.threads.conflicts, items.items.conflicts) == (1, 1)
        assert [each.place for each in threads.differences.shown] == [(None, "branch")]
        assert [each.place for each in items.differences.shown] == [("odd", "Ä", "Ä")]
        assert await destination.checkpointer.load("branch") == other
        assert await destination.store.get(("odd", "Ä"), "Ä") == "theirs"
        threads, items = await both(source, destination, overwrite=True)
        assert (threads.threads.replaced, items.items.replaced) == (1, 1)
        assert (threads.differences.count, items.differences.count) == (0, 0)
        assert await destination.checkpointer.load("branch") == await source.checkpointer.load("branch")
        assert await destination.store.get(("odd", "Ä"), "only theirs") == 1

    with_both(urls, clock, work)


@pytest.mark.parametrize(
    "plant",
    [
        lambda to, clock: to.checkpointer.put_writes("long", "cut", "task", [("messages", {"a": 1})]),
        lambda to, clock: to.checkpointer.delete("long", "c1"),
        lambda to, clock: to.checkpointer.scoped("alice").delete("%_"),
        lambda to, clock: to.store.put(("memory", "u:a"), "k2", {"text": "boat 2"}),
        lambda to, clock: to.store.delete(("memory", "u:a"), "k3"),
    ],
    ids=["write", "checkpoint", "thread", "vector", "item"],
)
def test_comparing_finds_what_was_changed_after_copying(
    tmp_path: Path, clock: FrozenClock, plant: Callable[[Connection, FrozenClock], Awaitable[None]]
) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        threads = ThreadMigration(source.checkpointer, destination.checkpointer)
        items = ItemMigration(source.store, destination.store)
        await threads.copy()
        await items.copy()
        await plant(destination, clock)
        await threads.verify()
        await items.verify()
        assert threads.differences.count + items.differences.count == 1

    with_both((f"sqlite:{tmp_path / 'a.db'}", "memory:"), clock, work)


def test_vectors_of_another_embedder_in_the_destination_are_a_conflict(
    tmp_path: Path, clock: FrozenClock
) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        other = connect("memory:", clock=clock, dimension=2)
        await other.store.put_with_embedding(("memory", "u:a"), "theirs", "x", [1.0, 0.0])
        _, items = await both(source, Connection(destination.checkpointer, other.store))
        assert [each.kind for each in items.conflicts.shown] == ["vectors", "item", "item"]
        assert items.differences.count == 2
        assert await other.store.space_of(("memory", "u:a")) == other.store._space
        _, items = await both(source, Connection(destination.checkpointer, other.store), overwrite=True)
        assert items.items.verified == items.items.found
        assert await other.store.get(("memory", "u:a"), "theirs") == "x"

    with_both((f"sqlite:{tmp_path / 'a.db'}", "memory:"), clock, work)


def test_a_dry_run_counts_and_writes_nothing(urls: tuple[str, str], clock: FrozenClock) -> None:
    async def work(source: Connection, destination: Connection) -> None:
        threads, items = await both(source, destination, dry_run=True)
        assert threads.threads.copied == threads.threads.found > 0
        assert items.items.copied == items.items.found > 0
        assert not await destination.checkpointer.list_threads()
        assert not await destination.store.list_namespaces()

    with_both(urls, clock, work)


def test_words_of_a_type_that_only_the_program_knows_are_found(tmp_path: Path, clock: FrozenClock) -> None:
    @dataclass
    class Boat:
        name: str
        length: Decimal

    async def work(source: Connection, destination: Connection) -> None:
        with patch.dict(registry._names), patch.dict(registry._classes):
            codec.register(Boat, name="boat")
            await source.store.put(("fleet",), "k", {1: Boat("Albatross", Decimal(7)), "dock": "north"})
        await both(source, destination)
        for query, found in (("albatross", 1), ("north", 1), ("boat", 0), ("dataclass", 0), ("dock", 0)):
            candidates = await destination.store.text_candidates(
                ("fleet",), query_terms(query), 10, {"no": None}
            )
            assert candidates.document_frequencies == dict.fromkeys(query_terms(query), found)

    with_both((f"sqlite:{tmp_path / 'a.db'}", f"sqlite:{tmp_path / 'b.db'}"), clock, work)


@pytest.fixture
def folder() -> Iterator[Path]:
    with ExitStack() as stack:
        yield stack.enter_context(chroma_folder())


def test_items_go_into_chroma_and_back(tmp_path: Path, folder: Path, clock: FrozenClock) -> None:
    pytest.importorskip("chromadb", reason="needs chromadb")

    async def work(source: Connection, destination: Connection) -> None:
        async with connect(f"chroma:{folder}", clock=clock) as chroma:
            for ours, theirs in ((source, chroma), (chroma, destination)):
                items = ItemMigration(ours.store, theirs.store)
                await items.copy()
                await items.verify()
                assert items.items.verified == items.items.found == 4 + len(HOSTILE)
        await same_items(source, destination)

    with_both((f"sqlite:{tmp_path / 'a.db'}", "memory:"), clock, work)

"""Another embedder on memories that exist: refused with an error that says what to do, and changed by `reembed`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict, InvalidInput, Unsupported, VectorMismatch
from holdfast.memory import AgentMemory, Episode
from holdfast.memory.buckets import bucket_of
from holdfast.memory.embedder import Embedder, HashEmbedder, store_options
from holdfast.memory.reembedding import PORTION, Reembedded
from holdfast.memory.store import BaseStore, InMemoryStore
from holdfast.memory.store_backends import SQLiteStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.memory.store_requests import WriteRequest

pytest.importorskip("numpy", reason="needs numpy")

KINDS = ("memory", "sqlite")


class Named(HashEmbedder):
    """One with another name, that tells what it is asked."""

    def __init__(self, name: str = "other", dimension: int = 32) -> None:
        super().__init__(dimension)
        self.name = name
        self.asked: list[list[str]] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        vectors = await super().embed(texts)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return vectors


class Place:
    """One storage that is opened again and again: what is in memory only stays, too."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._path = folder / "memory.db"
        self._kept = InMemoryStore() if kind == "memory" else None

    def store(self, embedder: Embedder | None, cls: type[SQLiteStore] = SQLiteStore) -> BaseStore:
        if self._kept is None:
            return cls(self._path, **store_options(embedder))
        store = InMemoryStore(**store_options(embedder))
        store._storage = self._kept._storage
        return store

    def memory(self, embedder: Embedder | None, **options: Any) -> AgentMemory:
        return AgentMemory(self.store(embedder), embedder=embedder, **options)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


async def said(memory: AgentMemory, user_id: str | None, count: int = 3) -> list[Episode]:
    return await memory.remember_all([f"word{n} of {user_id}" for n in range(count)], user_id=user_id)


async def found(memory: AgentMemory, word: str, user_id: str | None) -> tuple[str, bool]:
    """The best answer, and whether its vector had a part in it."""
    (hit, *_) = await memory.recall_scored(word, 1, user_id=user_id)
    return hit.episode.text, "meaning" in hit.parts


@pytest.mark.parametrize("other", [Named("other", 256), HashEmbedder(32)], ids=["name", "dimension"])
def test_another_embedder_is_refused_with_what_is_stored_what_was_asked_and_what_to_do(
    place: Place, other: HashEmbedder
) -> None:
    async def scenario() -> None:
        await said(place.memory(HashEmbedder()), "alice")
        memory = place.memory(other)
        for attempt in (
            lambda: memory.remember("More.", user_id="alice"),
            lambda: memory.recall("word1", user_id="alice"),
        ):
            with pytest.raises(VectorMismatch) as caught:
                await attempt()
            message = str(caught.value)
            for part in ("u:alice", "'hash' (dimension 256", f"{other.name!r} (dimension {other.dimension}"):
                assert part in message
            assert "holdfast reembed" in message
        assert len(await memory.latest(user_id="alice")) == 3
        await said(memory, "bob")  # who has none of the old ones

    asyncio.run(scenario())


def test_an_embedder_that_the_store_is_not_open_for_is_refused_at_once(place: Place) -> None:
    with pytest.raises(InvalidInput, match=r"no vectors.*store_options"):
        AgentMemory(place.store(None), embedder=HashEmbedder())
    with pytest.raises(InvalidInput, match=r"'other'.*store_options"):
        AgentMemory(place.store(Named("other", 256)), embedder=HashEmbedder())
    wrong: Any = "openai"
    with pytest.raises(InvalidInput, match="resolve_embedder"):
        AgentMemory(place.store(None), embedder=wrong)


def test_all_users_change_to_the_new_embedder_and_keep_everything_else(place: Place) -> None:
    async def scenario() -> None:
        old = place.memory(HashEmbedder())
        for user in ("alice", "bob", None):
            await said(old, user)
        await old.update_block("note", "Short.", user_id="alice")
        other = place.memory(HashEmbedder(), namespace="elsewhere")
        await said(other, "alice")
        before = [episode async for episode in _all(old)]
        told: list[tuple[int, int]] = []
        embedder = Named()
        new = place.memory(embedder)
        done = await new.reembed(progress=lambda count, total: told.append((count, total)))
        assert done == Reembedded("other", users=3, dropped=9, embedded=9)
        assert told == [(0, 9), (3, 9), (6, 9), (9, 9)]
        assert [episode async for episode in _all(new)] == before
        for user in ("alice", "bob", None):
            assert await found(new, "word1", user) == (f"word1 of {user}", True)
        assert await found(other, "word1", "alice") == ("word1 of alice", True)  # another memory
        with pytest.raises(VectorMismatch):
            await old.recall("word1", user_id="bob")

    asyncio.run(scenario())


async def _all(memory: AgentMemory) -> Any:
    for user in ("alice", "bob", None):
        for episode in await memory.latest(100, user_id=user):
            yield user, episode
        yield await memory.working(user_id=user)


def test_a_second_run_does_nothing_and_says_so(place: Place) -> None:
    async def scenario() -> None:
        await said(place.memory(HashEmbedder()), "alice")
        embedder = Named()
        memory = place.memory(embedder)
        await memory.reembed()
        embedder.asked.clear()
        versions = [item.version async for item in memory.store.iterate(("memory",), prefix=True)]
        assert await memory.reembed() == Reembedded("other")
        assert embedder.asked == []
        assert versions == [item.version async for item in memory.store.iterate(("memory",), prefix=True)]

    asyncio.run(scenario())


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(place: Place) -> None:
    async def scenario() -> None:
        old = place.memory(HashEmbedder())
        await said(old, "alice", 5)
        await said(place.memory(None), "alice", 2)  # while no embedder was there
        await said(place.memory(None), "bob", 4)
        embedder = Named()
        memory = place.memory(embedder)
        plan = await memory.reembed(dry_run=True)
        assert plan == Reembedded("other", users=2, dropped=5, embedded=11, dry_run=True)
        assert embedder.asked == []
        assert await found(old, "word1", "alice") == ("word1 of alice", True)
        done = await memory.reembed()
        assert (done.users, done.dropped, done.embedded) == (plan.users, plan.dropped, plan.embedded)

    asyncio.run(scenario())


def test_episodes_without_a_vector_get_one_and_those_with_one_are_left_alone(place: Place) -> None:
    async def scenario() -> None:
        embedder = Named()
        memory = place.memory(embedder)
        await memory.remember("embedded at once", user_id="alice")
        await said(place.memory(None), "alice", 2)
        assert await found(memory, "word1", "alice") == ("word1 of alice", False)
        embedder.asked.clear()
        assert await memory.reembed() == Reembedded("other", users=1, embedded=2)
        assert sorted(text for texts in embedder.asked for text in texts) == [
            "word0 of alice",
            "word1 of alice",
        ]
        assert await found(memory, "word1", "alice") == ("word1 of alice", True)

    asyncio.run(scenario())


def test_one_user_alone_can_be_done_and_nobody_is_a_user_too(place: Place) -> None:
    async def scenario() -> None:
        old = place.memory(HashEmbedder())
        for user in ("alice", "bob", None):
            await said(old, user)
        memory = place.memory(Named())
        assert (await memory.reembed(user_id="alice")).embedded == 3
        assert (await memory.reembed(user_id=None)).embedded == 3
        assert (await memory.reembed(user_id="nobody")).embedded == 0
        assert await found(old, "word1", "bob") == ("word1 of bob", True)
        assert (await memory.reembed()) == Reembedded("other", users=1, dropped=3, embedded=3)

    asyncio.run(scenario())


def test_texts_are_embedded_in_portions(place: Place) -> None:
    async def scenario() -> None:
        await said(place.memory(None), "alice", 3 * PORTION + 1)
        embedder = Named()
        assert (await place.memory(embedder).reembed()).embedded == 3 * PORTION + 1
        assert [len(texts) for texts in embedder.asked] == [PORTION, PORTION, PORTION, 1]

    asyncio.run(scenario())


def test_what_is_written_meanwhile_is_neither_lost_nor_brought_back(place: Place) -> None:
    async def scenario() -> None:
        old = place.memory(HashEmbedder())
        first, second, third = await said(old, "alice")
        embedder = Named()
        memory = place.memory(embedder)
        where = (*bucket_of("default", "alice"), "episodes")
        plain = place.store(None)

        async def meanwhile() -> None:
            item = await plain.get_item(where, first.id)
            assert item is not None
            await plain.put(where, first.id, {**item.value, "text": "changed"}, item.metadata)
            await plain.delete(where, second.id)

        embedder.meanwhile = meanwhile
        assert await memory.reembed() == Reembedded("other", users=1, dropped=3, embedded=2)
        assert {episode.text for episode in await memory.latest(user_id="alice")} == {"changed", third.text}
        assert embedder.asked[1:] == [["changed"]]
        assert await found(memory, "changed", "alice") == ("changed", True)

    asyncio.run(scenario())


def test_two_that_do_it_at_once_complete_it_together(place: Place) -> None:
    async def scenario() -> None:
        old = place.memory(HashEmbedder())
        for user in ("alice", "bob"):
            await said(old, user, PORTION + 5)
        memories = [place.memory(Named()), place.memory(Named())]
        done = await asyncio.gather(*(memory.reembed() for memory in memories))
        assert sum(one.dropped for one in done) == sum(one.embedded for one in done) == 2 * (PORTION + 5)
        assert await memories[0].reembed() == Reembedded("other")
        assert await found(memories[1], "word7", "bob") == ("word7 of bob", True)

    asyncio.run(scenario())


def test_an_episode_that_never_stays_the_same_is_a_conflict_in_the_end(place: Place) -> None:
    async def scenario() -> None:
        (episode,) = await said(place.memory(None), "alice", 1)
        embedder, plain = Named(), place.store(None)
        where = (*bucket_of("default", "alice"), "episodes")

        async def again() -> None:
            item = await plain.get_item(where, episode.id)
            assert item is not None
            await plain.put(where, episode.id, item.value, item.metadata)
            embedder.meanwhile = again

        embedder.meanwhile = again
        with pytest.raises(Conflict, match="keep changing"):
            await place.memory(embedder).reembed()

    asyncio.run(scenario())


def test_a_failure_at_any_write_is_completed_by_the_next_run(tmp_path: Path) -> None:
    class Failing(SQLiteStore):
        left = 0

        async def _write(self, request: WriteRequest) -> list[int]:
            Failing.left -= 1
            if not Failing.left:
                raise ConnectionError("cut off")
            return await super()._write(request)

    async def scenario(number: int) -> bool:
        place = Place("sqlite", tmp_path / str(number))
        (tmp_path / str(number)).mkdir()
        for user in ("alice", "bob"):
            await said(place.memory(HashEmbedder()), user, PORTION + 2)
        embedder = Named()
        Failing.left = number
        failed = False
        try:
            await AgentMemory(place.store(embedder, Failing), embedder=embedder).reembed()
        except ConnectionError:
            failed = True
        memory = place.memory(embedder)
        await memory.reembed()
        for user in ("alice", "bob"):
            assert len(await memory.latest(1000, user_id=user)) == PORTION + 2
            assert await found(memory, "word1", user) == (f"word1 of {user}", True)
        assert (await memory.reembed(dry_run=True)).embedded == 0
        return failed

    assert [asyncio.run(scenario(number)) for number in range(1, 6)] == [True] * 4 + [False]


def test_what_has_no_text_is_left_out_and_counted(place: Place) -> None:
    async def scenario() -> None:
        embedder = Named()
        memory = place.memory(embedder)
        where = (*bucket_of("default", "alice"), "episodes")
        await memory.store.put(where, "blank", {"text": "  "})
        await memory.store.put(where, "other", [1])
        await memory.store.put(where, "whole", {"text": "word"})
        assert await memory.reembed() == Reembedded("other", users=1, embedded=1, skipped=2)
        assert await memory.reembed() == Reembedded("other", skipped=2)

    asyncio.run(scenario())


def test_a_store_that_can_not_compare_and_set_is_refused() -> None:
    class Careless(InMemoryStore):
        @property
        def capabilities(self) -> StoreCapabilities:
            return StoreCapabilities.all_but("compare_and_set")

    embedder = Named()
    memory = AgentMemory(Careless(**store_options(embedder)), embedder=embedder)
    with pytest.raises(Unsupported, match="compare_and_set"):
        asyncio.run(memory.reembed())


def test_without_an_embedder_there_is_nothing_to_embed_with(place: Place) -> None:
    with pytest.raises(InvalidInput, match="embedder="):
        asyncio.run(place.memory(None).reembed())

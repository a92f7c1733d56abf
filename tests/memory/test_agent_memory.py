"""Episodes, blocks and facts of many users: kept, recalled, exported, forgotten; never across users."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.state import AgentState
from holdfast.errors import Corrupt, InvalidInput
from holdfast.memory import AgentMemory, Episode, Fact
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.memory.embedder import HashEmbedder
from holdfast.memory.embedder.base import store_options
from holdfast.memory.store import BaseStore, InMemoryStore
from holdfast.memory.store_backends import ChromaStore, MySQLStore, PostgresStore, SQLiteStore
from tests.servers.oracle import OracleUser

KINDS = (
    "memory",
    "sqlite",
    "postgres",
    "mariadb",
    "oracle",  # the double
    "plain_postgres",  # no pgvector
    pytest.param("postgres15", marks=pytest.mark.long),
    pytest.param("chroma", marks=pytest.mark.requires("chromadb")),
)
SHARED = ("sqlite", "postgres", "mariadb", "oracle")
SERVERS = {
    "postgres": "used_postgres",
    "mariadb": "used_mariadb",
    "oracle": "used_oracle",
    "plain_postgres": "plain_postgres",
    "postgres15": "postgres15",
}
HOSTILE = (
    "alice",
    "ALICE",
    "a/b",
    "a",
    "u:alice",
    "anonymous",
    "%",
    "*",
    "shared",
    "é" * 100,
    "'; DROP TABLE x",
)


@pytest.fixture(autouse=True)
def _server(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The address of a test's database is in its folder."""
    name = request.node.callspec.params.get("kind") if "kind" in request.fixturenames else None
    if name in SERVERS:
        (tmp_path / name).write_text(request.getfixturevalue(SERVERS[name]).url, encoding="utf-8")


def store_of(kind: str, folder: Path) -> BaseStore:
    if "postgres" in kind:
        return PostgresStore((folder / kind).read_text(encoding="utf-8"))
    if kind == "chroma":
        pytest.importorskip("chromadb", reason="needs chromadb")
        return ChromaStore()
    if kind == "mariadb":
        return MySQLStore((folder / "mariadb").read_text(encoding="utf-8"))
    if kind == "oracle":
        return OracleUser.store((folder / "oracle").read_text(encoding="utf-8"))
    return InMemoryStore() if kind == "memory" else SQLiteStore(folder / "memory.db")


@asynccontextmanager
async def opened(kind: str, folder: Path, **options: Any) -> AsyncIterator[AgentMemory]:
    async with AgentMemory(store_of(kind, folder), **options) as memory:
        yield memory


def at(day: int) -> datetime:
    return datetime(2026, 5, day, 12, tzinfo=UTC)


async def some_episodes(memory: AgentMemory, user_id: str | None) -> list[Episode]:
    said = [
        Episode(text="I adopted a puppy named Biscuit.", speaker="user", session_id="may", occurred_at=at(3)),
        Episode(
            text="Congratulations! What breed is it?",
            speaker="assistant",
            session_id="may",
            occurred_at=at(3),
        ),
        Episode(
            text="My flight to Oslo leaves on Friday.", speaker="user", session_id="june", occurred_at=at(20)
        ),
    ]
    return await memory.remember_all(said, user_id=user_id)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_said_is_recalled_by_a_question_and_says_why(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            await some_episodes(memory, "alice")
            assert (await memory.recall("What is the puppy called?", user_id="alice"))[0].text.endswith(
                "Biscuit."
            )
            (best, *_) = await memory.recall_scored("When is the flight to Oslo?", user_id="alice")
            assert best.episode.session_id == "june"
            assert best.score == pytest.approx(sum(best.parts.values()))
            only = await memory.recall("puppy Oslo", user_id="alice", session_id="june")
            assert {episode.session_id for episode in only} == {"june"}

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_a_day_alone_finds_what_was_said_on_it(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            await some_episodes(memory, "alice")
            found = await memory.recall("What happened on 20 May 2026?", 1, user_id="alice")
            assert [episode.session_id for episode in found] == ["june"]

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_read_in_its_order_the_last_ones_of_it(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            for number in range(5):
                await memory.remember(Episode(text=f"line {number}", session_id="s"))
            assert [e.text for e in await memory.session_messages("s")] == [f"line {n}" for n in range(5)]
            assert [e.text for e in await memory.session_messages("s", 2)] == ["line 3", "line 4"]
            assert await memory.session_messages("other") == []
            assert await memory.session_messages("s", user_id="alice") == []

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", SHARED)
def test_writers_at_the_same_moment_get_different_places_in_a_session(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            await asyncio.gather(*(memory.remember(Episode(text=f"t{n}", session_id="s")) for n in range(12)))
            ordinals = [episode.ordinal for episode in await memory.session_messages("s")]
            assert ordinals == list(range(12))

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_written_appended_to_and_removed(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            await memory.update_block("goals", "Learn Rust.", user_id="alice")
            assert (
                await memory.append_block("goals", "Run a marathon.", user_id="alice")
                == "Learn Rust.\nRun a marathon."
            )
            await memory.append_block("notes", "Has a dog.", user_id="alice")
            await memory.update_block("notes", "", user_id="alice")
            assert await memory.working(user_id="alice") == {"goals": "Learn Rust.\nRun a marathon."}
            assert await memory.working(user_id="bob") == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", SHARED)
def test_lines_appended_by_many_writers_are_all_there(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as one, opened(kind, tmp_path) as two:
            writes = [memory.append_block("log", f"line {n}") for n in range(10) for memory in (one, two)]
            await asyncio.gather(*writes)
            lines = (await one.working())["log"].splitlines()
            assert sorted(lines) == sorted(f"line {n}" for n in range(10) for _ in range(2))

    asyncio.run(scenario())


def test_vectors_add_to_recall_where_there_is_an_embedder() -> None:
    async def scenario() -> None:
        embedder = HashEmbedder()
        store = InMemoryStore(**store_options(embedder))
        async with AgentMemory(store, embedder=embedder) as memory:
            await some_episodes(memory, None)
            best = (await memory.recall_scored("puppy named Biscuit"))[0]
            assert best.parts.get("meaning", 0) > 0

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_no_read_count_or_deletion_crosses_users_or_namespaces(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            users: list[str | None] = [*HOSTILE, None]
            for number, user in enumerate(users):
                await memory.remember(Episode(text=f"secret number {number}", session_id="s"), user_id=user)
                await memory.update_block("b", str(number), user_id=user)
                assert memory.facts is not None
                await memory.facts.add(Fact("user", "likes", f"thing {number}"), user_id=user)
            other = AgentMemory(memory.store, namespace="other")
            assert await other.recall("secret number", user_id="alice") == []
            for number, user in enumerate(users):
                found = await memory.recall("secret number", 100, user_id=user)
                assert [episode.text for episode in found] == [f"secret number {number}"]
                assert await memory.working(user_id=user) == {"b": str(number)}
                assert [f.object for f in await memory.recall_facts("thing", user_id=user)] == [
                    f"thing {number}"
                ]
                assert [e.text for e in await memory.session_messages("s", user_id=user)] == [
                    f"secret number {number}"
                ]
                profile = await memory.profile(user_id=user)
                assert (profile.episodes, profile.sessions, len(profile.facts)) == (1, 1, 1)
            receipt = await memory.forget(user_id="a")
            assert receipt.complete
            for user in users:
                assert len(await memory.recall("secret number", user_id=user)) == (user != "a")

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_holds_everything_and_puts_it_back(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            kept = await some_episodes(memory, "alice")
            await memory.update_block("b", "text", user_id="alice")
            assert memory.facts is not None
            await memory.facts.add(Fact("user", "lives_in", "Oslo"), user_id="alice", source=kept[0].id)
            before = await memory.profile(user_id="alice")
            lines = [line async for line in memory.export(user_id="alice")]
            await memory.forget(user_id="alice")
            assert (await memory.profile(user_id="alice")).episodes == 0
            assert await memory.import_(lines, user_id="alice") == len(lines) - 1
            assert await memory.profile(user_id="alice") == before
            assert await memory.session_messages("may", user_id="alice") == kept[:2]
            await memory.import_(lines, user_id="bob")
            assert (await memory.recall("puppy", user_id="bob"))[0].text == kept[0].text
            with pytest.raises(InvalidInput, match="line 1 must say format"):
                await memory.import_(['{"format": "other"}'], user_id="bob")
            with pytest.raises(Corrupt, match="line 2"):
                await memory.import_([lines[0], '{"key": 1}'], user_id="bob")

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_a_session_takes_what_was_learned_there_and_leaves_the_rest(
    kind: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with opened(kind, tmp_path) as memory:
            first, _, last = await some_episodes(memory, "alice")
            assert memory.facts is not None
            await memory.facts.add(Fact("user", "has_pet", "Biscuit"), user_id="alice", source=first.id)
            await memory.facts.add(Fact("user", "likes", "Oslo"), user_id="alice", source=last.id)
            receipt = await memory.forget(user_id="alice", session_id="may")
            assert receipt.complete
            assert receipt.removed == {"episodes": 2, "facts": 1, "sessions": 1}
            assert [fact.object for fact in await memory.facts.query(user_id="alice")] == ["Oslo"]
            assert [e.id for e in await memory.recall("puppy flight breed", user_id="alice")] == [last.id]

    asyncio.run(scenario())


def test_forgetting_what_is_older_keeps_what_is_newer() -> None:
    async def scenario() -> None:
        async with opened("memory", Path()) as memory:
            await some_episodes(memory, "alice")
            receipt = await memory.forget(user_id="alice", before=at(10))
            assert receipt.removed == {"episodes": 2}
            assert (await memory.profile(user_id="alice")).episodes == 1

    asyncio.run(scenario())


def test_after_forgetting_no_byte_of_it_is_left_in_the_file(tmp_path: Path) -> None:
    canaries = ("zyxwomble", "quuxafar", "florbenstein")

    async def scenario() -> None:
        async with opened("sqlite", tmp_path) as memory:
            await memory.remember(Episode(text=f"my word is {canaries[0]}", session_id="s"), user_id="alice")
            await memory.update_block("b", canaries[1], user_id="alice")
            assert memory.facts is not None
            await memory.facts.add(Fact("user", "likes", canaries[2]), user_id="alice")
            await memory.remember(Episode(text="bob stays here"), user_id="bob")
            receipt = await memory.forget(user_id="alice")
            assert receipt.complete
            assert receipt.removed["episodes"] == receipt.removed["blocks"] == receipt.removed["facts"] == 1
            left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
            assert [word for word in canaries if word.encode() in left] == []
            assert b"bob stays" in left

    asyncio.run(scenario())


def test_threads_are_forgotten_when_asked() -> None:
    async def scenario() -> None:
        checkpointer = MemoryCheckpointer()
        async with AgentMemory(InMemoryStore(), checkpointer) as memory:
            for user in ("alice", "bob"):
                await checkpointer.scoped(user).save(AgentState(), "t1")
                await checkpointer.scoped(user).save(AgentState(), "t2")
            assert (await memory.forget(user_id="alice", session_id="t1", threads=True)).removed[
                "threads"
            ] == 1
            assert await checkpointer.scoped("alice").list_threads() == ["t2"]
            assert (await memory.forget(user_id="alice", threads=True)).removed["threads"] == 1
            assert len(await checkpointer.scoped("bob").list_threads()) == 2

    asyncio.run(scenario())


def test_what_can_not_be_meant_is_refused() -> None:
    async def scenario() -> None:
        async with AgentMemory(InMemoryStore(), with_facts=False) as memory:
            assert memory.facts is None
            wrong: list[tuple[Any, str]] = [
                (memory.forget(), "needs user_id="),
                (memory.forget(user_id="a", threads=True), "needs AgentMemory"),
                (memory.recall_facts("x"), "with_facts=False"),
                (memory.remember("  "), "text must not be blank"),
                (memory.append_block("b", " "), "text must not be blank"),
                (memory.recall("x", user_id=""), "user_id must not be empty"),
            ]
            for call, message in wrong:
                with pytest.raises(InvalidInput, match=message):
                    await call

    asyncio.run(scenario())

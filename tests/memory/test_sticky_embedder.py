"""Which embedder a memory has when nobody names one: that of what is stored, or an error; never another one."""

import asyncio
import sys
from pathlib import Path

import pytest

from holdfast.agent import Agent
from holdfast.errors import InvalidInput, VectorMismatch
from holdfast.memory import AgentMemory
from holdfast.memory.embedder import HashEmbedder, LocalEmbedder, resolve_embedder
from holdfast.memory.embedder.base import Embedder, space_of_embedder
from holdfast.memory.embedder.resolve import embedder_by_record
from holdfast.memory.embedder.sticky import StickyEmbedder
from holdfast.memory.store import InMemoryStore
from holdfast.memory.vectors import Metric, VectorSpace
from holdfast.resolving import LazyMemory, resolve_memory

pytest.importorskip("numpy", reason="needs numpy")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_EMBEDDER", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'bot.db'}"


def remember(url: str, text: str, embedder: str | Embedder | None = None) -> list[str]:
    """Keep an episode; gives the signals by which it is then recalled."""

    async def scenario() -> list[str]:
        async with LazyMemory(url, embedder=embedder) as memory:
            await memory.remember(text, user_id="alice")
            (hit, *_) = await memory.recall_scored(text, 1, user_id="alice")
            return sorted(hit.parts)

    return asyncio.run(scenario())


def stored(url: str) -> VectorSpace | None:
    async def scenario() -> VectorSpace | None:
        async with LazyMemory(url, embedder="none") as memory:
            return await memory.store.space_of(("memory",), prefix=True)

    return asyncio.run(scenario())


@pytest.mark.parametrize("spec", [None, "auto"])
def test_a_key_that_is_new_in_the_environment_changes_nothing(
    url: str, spec: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(url, "The boat is called Sea Biscuit.", HashEmbedder(64))
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    automatic = resolve_embedder(spec)
    assert automatic is not None
    assert automatic.name.startswith("openai:")
    assert "meaning" in remember(url, "The boat is blue.", spec)
    assert stored(url) == space_of_embedder(HashEmbedder(64))


def test_what_is_named_is_taken_at_its_word_and_refused_by_what_is_stored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(url, "The boat is called Sea Biscuit.", HashEmbedder(64))
    with pytest.raises(VectorMismatch, match=r"dimension 64.*dimension 256.*holdfast reembed"):
        remember(url, "More.", "hash")
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "hash")
    with pytest.raises(VectorMismatch, match=r"dimension 64.*dimension 256.*holdfast reembed"):
        remember(url, "More.")
    assert "meaning" not in remember(url, "The boat is blue.", "none")


def test_an_embedder_that_can_not_be_had_any_more_is_an_error_and_not_a_worse_recall(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(HashEmbedder):
        def __init__(self, name: str) -> None:
            super().__init__(16)
            self.name = name

    remember(url, "The boat is called Sea Biscuit.", Own("openai:text-embedding-3-small"))
    with pytest.raises(
        InvalidInput, match=r"'default'.*text-embedding-3-small.*OPENAI_API_KEY.*holdfast reembed"
    ):
        remember(url, "More.")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(InvalidInput, match=r"holdfast\[openai\]"):
        remember(url, "More.")
    other = url.replace("bot", "other")
    remember(other, "The boat is called Sea Biscuit.", Own("of my own"))
    with pytest.raises(InvalidInput, match=r"'of my own'.*by its name alone.*embedder="):
        remember(other, "More.")
    assert "meaning" in remember(other, "The boat is blue.", Own("of my own"))


def test_an_agent_says_so_too(url: str) -> None:
    remember(url, "The boat is called Sea Biscuit.", HashEmbedder(64))

    async def scenario() -> None:
        path = url.removeprefix("sqlite:")
        spec = {"backend": "sqlite", "path": path, "embedder": "hash"}
        async with Agent("Help.", model="mock:", memory=spec, on_memory_error="raise") as agent:
            with pytest.raises(VectorMismatch, match="holdfast reembed"):
                await agent.run("What is the boat called?", user_id="alice")

    asyncio.run(scenario())


def test_where_nothing_is_embedded_yet_the_best_that_is_there_is_taken(url: str) -> None:
    if not LocalEmbedder.is_installed():
        pytest.skip("needs the extra 'local'")
    remember(url, "The boat is called Sea Biscuit.", "none")
    assert stored(url) is None
    assert "meaning" in remember(url, "The boat is blue.")
    assert stored(url) == space_of_embedder(LocalEmbedder())


def test_each_namespace_stays_with_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:{tmp_path / 'bot.db'}"
    monkeypatch.setattr("holdfast.memory.embedder.resolve._automatic", lambda: None)

    async def scenario() -> None:
        async with LazyMemory(url, embedder=HashEmbedder(32), namespace="one") as memory:
            await memory.remember("Hello.", user_id="alice")
        async with LazyMemory(url, namespace="two") as memory:
            await memory.remember("Hello.", user_id="alice")
            assert await memory.store.space_of(("memory", "two"), prefix=True) is None
        async with LazyMemory(url, namespace="one") as memory:
            await memory.remember("Hello again.", user_id="bob")
            assert await memory.store.space_of(("memory", "one", "u:bob"), prefix=True) is not None

    asyncio.run(scenario())


def test_a_store_that_can_not_tell_its_vectors_works_with_the_automatic_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(InMemoryStore):
        async def _space_of(self, namespace: tuple[str, ...], prefix: bool) -> VectorSpace | None:
            raise self._missing("space_of")

    monkeypatch.setenv("HOLDFAST_EMBEDDER", "hash")

    async def scenario() -> None:
        store = Silent()
        async with AgentMemory(store, embedder=StickyEmbedder(store, "default")) as memory:
            await memory.remember("The boat is blue.", user_id="alice")
            (hit,) = await memory.recall_scored("boat", user_id="alice")
            assert "meaning" in hit.parts

    asyncio.run(scenario())


def test_a_memory_in_the_process_alone_works_without_a_name() -> None:
    async def scenario() -> None:
        async with resolve_memory("inmemory") as memory:
            await memory.remember("Hello.", user_id="alice")
            assert len(await memory.recall("hello", user_id="alice")) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "dimension"),
    [
        ("hash", 48),
        ("openai:text-embedding-3-small", 1536),
        ("openai:text-embedding-3-large", 256),
        ("openai:somebody-elses", 77),
        ("ollama:nomic-embed-text", 768),
        ("local:wordllama-l2-supercat", 256),
    ],
)
def test_an_embedder_is_found_by_what_is_recorded_of_it(
    name: str, dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    space = VectorSpace(dimension, Metric.COSINE, name)
    assert space_of_embedder(embedder_by_record(space)) == space


@pytest.mark.parametrize(
    "space",
    [
        VectorSpace(64, Metric.DOT, "hash"),
        VectorSpace(64, Metric.COSINE),
        VectorSpace(7, Metric.COSINE, "local:wordllama-l2-supercat"),
        VectorSpace(7, Metric.COSINE, "hash:more"),
        VectorSpace(7, Metric.COSINE, "unknown:model"),
    ],
    ids=str,
)
def test_an_embedder_that_would_make_other_vectors_is_not_taken_for_it(space: VectorSpace) -> None:
    with pytest.raises(InvalidInput, match="by its name alone"):
        embedder_by_record(space)

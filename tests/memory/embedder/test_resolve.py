"""Which embedder is used, and that its vectors fit the store that is opened for it."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import connect
from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.memory.embedder import Embedder, HashEmbedder, LocalEmbedder, resolve_embedder, store_options


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_EMBEDDER", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def name_of(spec: Any = None) -> str | None:
    found = resolve_embedder(spec)
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("openai", "openai:text-embedding-3-small"),
        ("openai-small", "openai:text-embedding-3-small"),
        ("openai-large", "openai:text-embedding-3-large"),
        ("openai:text-embedding-ada-002", "openai:text-embedding-ada-002"),
        ("ollama", "ollama:nomic-embed-text"),
        ("Ollama: bge-m3:latest", "ollama:bge-m3"),
        ("local", "local:wordllama-l2-supercat"),
        ("hash", "hash"),
        ("none", None),
    ],
)
def test_an_embedder_has_a_name(spec: str, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert name_of(spec) == name


def test_what_is_named_wins_then_the_environment_then_the_key_then_the_local_one_then_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "ollama:bge-m3")
    assert name_of("hash") == "hash"
    assert name_of() == name_of("auto") == "ollama:bge-m3"
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")
    assert name_of() is None
    for unset in ("", "auto"):
        monkeypatch.setenv("HOLDFAST_EMBEDDER", unset)
        assert name_of() == "openai:text-embedding-3-small"
    monkeypatch.setitem(sys.modules, "openai", None)
    assert name_of() == LocalEmbedder.name
    monkeypatch.delenv("OPENAI_API_KEY")
    assert name_of() == LocalEmbedder.name
    monkeypatch.setitem(sys.modules, "wordllama", None)
    assert name_of() is None


def test_one_that_was_named_and_can_not_be_had_is_an_error_and_not_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY"):
        resolve_embedder("openai")
    monkeypatch.setitem(sys.modules, "wordllama", None)
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "local")
    with pytest.raises(MissingExtra, match="local"):
        resolve_embedder()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("opnai-large", "did you mean 'openai-large'"),
        ("olama:bge-m3", "did you mean 'ollama:bge-m3'"),
        ("local:big", "write a name alone"),
        ("", "known are openai"),
        (7, "got int"),
        ({"model": "x"}, "got dict"),
        (HashEmbedder, "got type"),
    ],
)
def test_a_wrong_name_says_what_there_is(spec: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        resolve_embedder(spec)


def test_a_wrong_name_in_the_environment_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "locl")
    with pytest.raises(InvalidInput, match=r"HOLDFAST_EMBEDDER is 'locl'.*did you mean 'local'"):
        resolve_embedder()


class Own:
    """A third party's embedder."""

    name, dimension, metric = "own", 2, "DOT"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]


def test_an_instance_is_itself_and_a_store_opens_for_its_vectors(tmp_path: Path) -> None:
    own = Own()
    assert resolve_embedder(own) is own
    assert store_options(own) == {"dimension": 2, "distance_metric": "DOT", "embedder": "own"}
    assert store_options(None) == {}
    url = f"sqlite:{tmp_path / 'x.db'}"

    async def work(embedder: Embedder) -> list[str]:
        async with connect(url, **store_options(embedder)) as database:
            for text in ("short", "a longer text"):
                (vector,) = await embedder.embed([text])
                await database.store.put_with_embedding(("n",), text, text, vector)
            (vector,) = await embedder.embed(["a question"])
            return [hit.item.key for hit in await database.store.search_by_embedding(("n",), vector)]

    assert asyncio.run(work(own)) == ["a longer text", "short"]
    with pytest.raises(InvalidInput, match="dimension 2"):
        asyncio.run(work(HashEmbedder()))

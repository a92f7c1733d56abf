"""Memories by the name of their database: classes, URLs and dicts open the same, and nothing before it is used."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, connect
from holdfast.errors import InvalidInput, MissingExtra, Unsupported
from holdfast.memory import AgentMemory, LazyMemory, resolve_memory
from holdfast.memory.embedder import HashEmbedder
from holdfast.memory.inmemory import InMemoryMemory
from holdfast.memory.sqlite import SqliteMemory
from holdfast.testing import ScriptedModel

chroma = pytest.mark.requires("chromadb")


def need_chroma() -> None:
    pytest.importorskip("chromadb", reason="needs chromadb")


async def _is_kept(memory: AgentMemory, again: AgentMemory | None) -> None:
    """What one remembers, the other one recalls."""
    async with memory:
        await memory.remember("My dog Biscuit ate my passport.", user_id="alice")
        assert await memory.recall("Who ate my passport?", user_id="bob") == []
        if again is None:
            assert await memory.recall("Who ate my passport?", user_id="alice")
            return
    async with again:
        (found,) = await again.recall("Who ate my passport?", user_id="alice")
        assert found.text.startswith("My dog Biscuit")


def test_the_door_of_sqlite_is_the_file_with_its_threads(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    memory = SqliteMemory.local(path, with_facts=False)
    assert not path.exists()
    assert memory.facts is None
    assert memory.checkpointer is not None
    asyncio.run(_is_kept(memory, resolve_memory(f"sqlite:{path}")))


def test_the_door_of_this_process_keeps_nothing() -> None:
    memory = InMemoryMemory(embedder=HashEmbedder(16))
    assert memory.checkpointer is not None
    asyncio.run(_is_kept(memory, None))


@chroma
def test_the_doors_of_chroma_are_a_directory_and_memory(tmp_path: Path) -> None:
    need_chroma()
    from holdfast.memory.chroma import ChromaMemory

    path = tmp_path / "chroma-db"
    memory = ChromaMemory.local(path, with_facts=True, embedder=HashEmbedder(16))
    assert not path.exists()
    assert memory.facts is not None
    assert memory.checkpointer is None
    asyncio.run(_is_kept(memory, ChromaMemory.local(str(path), embedder=HashEmbedder(16))))
    asyncio.run(_is_kept(ChromaMemory.ephemeral(), None))


@chroma
def test_chroma_is_named_by_a_url_or_a_dict_as_the_other_databases_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_chroma()
    monkeypatch.chdir(tmp_path)
    specs: list[Any] = [
        "chroma:./named",
        {
            "backend": "chroma",
            "path": "./named",
            "namespace": "tenant_a",
            "embedder": "hash",
            "with_facts": True,
        },
        {"url": f"chroma:{tmp_path}/named"},
        f"chroma://{tmp_path}/named",
        "chroma:",
        "chroma",
        {"backend": "chroma"},
    ]
    memories = [resolve_memory(spec) for spec in specs]
    assert all(type(memory) is LazyMemory for memory in memories)
    assert list(tmp_path.iterdir()) == []

    async def scenario() -> None:
        first, tenant, *rest = memories
        await first.remember("The boat is called Sea Biscuit.")
        assert await tenant.recall("boat") == []
        found = [len(await memory.recall("boat")) for memory in rest]
        assert found == [1, 1, 0, 0, 0]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["holdfast_chroma", "named"]
        for memory in memories:
            await memory.aclose()

    asyncio.run(scenario())


@chroma
def test_chroma_has_a_store_and_says_that_it_keeps_no_threads(tmp_path: Path) -> None:
    need_chroma()

    async def scenario() -> None:
        async with connect(f"chroma:{tmp_path}/dir", dimension=2) as db:
            assert not db.keeps_threads
            await db.store.put_with_embedding(("a",), "k", 1, [1.0, 0.0])
            with pytest.raises(Unsupported, match=r"ChromaStore has no checkpointer.*sqlite:PATH"):
                _ = db.checkpointer
        with pytest.raises(Unsupported, match="keeps items, not threads"):
            Agent("Help.", model=ScriptedModel([]), checkpointer=f"chroma:{tmp_path}/dir")
        async with connect("memory:") as db:
            assert db.keeps_threads

    asyncio.run(scenario())


def test_a_url_of_chroma_that_names_a_host_is_refused() -> None:
    with pytest.raises(InvalidInput, match="names a host"):
        connect("chroma://host/dir")


def test_chroma_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.memory.backends import chroma_client

    monkeypatch.setattr(chroma_client, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdfast\[chroma\]'"):
        resolve_memory("chroma:./dir")


@chroma
def test_an_agent_remembers_in_chroma_and_keeps_its_threads_for_as_long_as_it_lives(tmp_path: Path) -> None:
    need_chroma()

    async def scenario() -> None:
        url = f"chroma:{tmp_path}/dir"
        async with Agent("Help.", model=ScriptedModel(["Nice!", "Yes."]), memory=url) as agent:
            await agent.run(
                "My dog Biscuit ate my passport. I live in Lisbon.", user_id="alice", thread_id="a"
            )
            await agent.run("Really?", user_id="alice", thread_id="a")
            state = await agent.get_state("a", user_id="alice")
            assert state is not None
            assert len(state.messages) == 4
        model = ScriptedModel(["Biscuit did."])
        async with Agent("Help.", model=model, memory=url) as agent:
            await agent.run("Who ate my passport?", user_id="alice", thread_id="b")
            assert agent.memory is not None
            assert agent.memory.facts is not None
            (fact,) = await agent.memory.facts.query(predicate="lives_in", user_id="alice")
            assert fact.object == "Lisbon"
            assert await agent.get_state("a", user_id="alice") is None
        assert "user: My dog Biscuit ate my passport." in (model.calls[-1].messages[-1].content or "")

    asyncio.run(scenario())

"""A memory that is embedded anew, killed on the way."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.memory import AgentMemory
from holdfast.memory.embedder import HashEmbedder, store_options
from holdfast.memory.store_backends import SQLiteStore
from tests.reliability.children import Children

pytest.importorskip("numpy", reason="needs numpy")

USERS = ("alice", "bob", None)


def memory_at(path: Path, dimension: int) -> AgentMemory:
    embedder = HashEmbedder(dimension)
    return AgentMemory(SQLiteStore(path, **store_options(embedder)), embedder=embedder)


async def fill(path: Path) -> None:
    async with memory_at(path, 8) as memory:
        for user in USERS:
            await memory.remember_all([f"word{number} of {user}" for number in range(70)], user_id=user)


async def told(path: Path) -> list[Any]:
    """What is kept, without what embedding changes: versions and the time of the last write."""
    async with memory_at(path, 16) as memory:
        return [
            (item.namespace, item.key, item.value, item.metadata, item.created_at)
            async for item in memory.store.iterate(("memory",), prefix=True)
        ]


async def check_complete(path: Path) -> None:
    async with memory_at(path, 16) as memory:
        assert (await memory.reembed(dry_run=True)).embedded == 0
        for user in USERS:
            (hit, *_) = await memory.recall_scored("word7", 1, user_id=user)
            assert hit.episode.text == f"word7 of {user}"
            assert hit.parts["meaning"] > 0


def test_a_killed_reembedding_loses_nothing_and_is_completed_by_the_next(
    children: Children, tmp_path: Path
) -> None:
    source = tmp_path / "memory.db"
    asyncio.run(fill(source))
    before = asyncio.run(told(source))
    (whole,) = children.must("reembed_memory", path=_copy(source), dimension=16, die_before=0)
    assert whole == "210 210"
    statements = 0
    for statements in range(1, 10_000, 17):
        path = _copy(source)
        outcome = children.run("reembed_memory", path=path, dimension=16, die_before=statements)
        assert outcome.failure is None, outcome.failure
        assert asyncio.run(told(Path(path))) == before
        children.must("reembed_memory", path=path, dimension=16, die_before=0)
        asyncio.run(check_complete(Path(path)))
        if not outcome.killed:
            break
    assert statements > 100


def _copy(source: Path) -> str:
    for file in source.parent.glob("copy.db*"):
        file.unlink()
    return str(shutil.copy(source, source.with_name("copy.db")))

"""`holdfast memory` on a Chroma directory, which keeps no threads."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.commands import app

pytest.importorskip("chromadb", reason="needs chromadb")
pytestmark = pytest.mark.requires("chromadb")


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"HOLDFAST_DB": f"chroma:{folder}"})


async def _fill(folder: Path) -> None:
    from holdfast.memory.chroma import ChromaMemory

    async with ChromaMemory.local(folder, embedder="none") as memory:
        await memory.remember("My dog is called Biscuit.", user_id="alice")


def test_memories_in_chroma_are_listed_searched_and_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "dir"
    absent = run(folder, "memory", "list")
    assert absent.exit_code == 1
    assert "no database at" in absent.stderr
    assert not folder.exists()
    asyncio.run(_fill(folder))
    assert run(folder, "memory", "list").stdout.startswith("alice\t1\t1\t")
    asked = ("memory", "search", "dog", "--user", "alice", "--embedder", "none")
    assert "My dog is called Biscuit." in run(folder, *asked).stdout
    assert run(folder, "memory", "forget", "--user", "alice", "--yes").exit_code == 0
    assert run(folder, *asked).exit_code == 1


def test_commands_about_threads_say_that_chroma_keeps_none(tmp_path: Path) -> None:
    asyncio.run(_fill(tmp_path / "dir"))
    told = run(tmp_path / "dir", "threads")
    assert told.exit_code == 2
    assert "keeps items, not threads" in told.stderr

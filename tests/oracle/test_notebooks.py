"""The notebooks with `ORACLE_*` set: they use the classes for Oracle, and show the same as on SQLite."""

import asyncio
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.support import EXAMPLES, bare_environment
from tests.oracle.place import REAL, Place


@pytest.fixture
def notebook(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Imports a notebook, in an environment that names the database."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    if REAL and not os.environ.get("ORACLE_WALLET"):
        pytest.skip("needs oracle-wallet: the notebooks want ORACLE_WALLET")
    if not REAL:
        for name in set(os.environ) - set(bare_environment()):
            monkeypatch.delenv(name)
        monkeypatch.setenv("ORACLE_DSN", place.arguments["dsn"])
        monkeypatch.setenv("ORACLE_USER", place.arguments["user"])
        monkeypatch.setenv("ORACLE_PASSWORD", "secret")
        monkeypatch.setenv("ORACLE_WALLET", str(tmp_path))
    yield importlib.import_module
    place.drop("holdfast_notebook")


def test_memory_across_threads(notebook: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(notebook("notebook_11_oracle_store").run_all(tmp_path))
    shown = capsys.readouterr().out
    assert f"Store: Oracle, {os.environ['ORACLE_DSN']}" in shown
    assert (
        "[thread-b] recalled: ['Prefers the region us-chicago-1.', 'Works on the GenAI platform.']" in shown
    )
    assert "Forgotten: 0 memories are left." in shown
    assert not (tmp_path / "notebook_11.db").exists()


def test_an_agents_threads(notebook: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = notebook("notebook_16_agent_memory")
    script.say_where(tmp_path)
    script.conversation_memory(tmp_path)
    script.checkpoints_with_tools(tmp_path)
    script.many_threads(tmp_path)
    asyncio.run(script.look_inside(tmp_path))
    shown = capsys.readouterr().out
    assert f"Database: Oracle, {os.environ['ORACLE_DSN']}" in shown
    assert "Alice" in shown
    assert not (tmp_path / "notebook_16.db").exists()

"""The example of an agent's memory: every way to name one gives the same agent, and users never meet."""

import re

import pytest

from tests.examples.support import run_example


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    """What is printed for each memory."""
    parts = re.split(r"^=== (.*)$", run_example("agent_memory.py"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def assert_users_are_apart(part: str) -> None:
    assert "alice: lives in Tokyo\n" in part
    assert "bob: lives in Lisbon\n" in part
    assert "alice: dog -> nothing\n" in part
    assert re.search(r"^bob: dog -> .*Biscuit", part, re.MULTILINE)
    assert re.search(r"^alice: orders kettle, teapot -> .*teapot", part, re.MULTILINE)
    assert re.search(r"^bob: orders bicycle -> .*bicycle", part, re.MULTILINE)


def test_in_memory_and_in_sqlite_users_are_apart_and_a_file_remembers(shown: dict[str, str]) -> None:
    for where in ("inmemory", "sqlite:bot.db"):
        assert_users_are_apart(shown[where])
    assert "afterwards, another memory of this process: nothing" in shown["inmemory"]
    assert "afterwards, in the same file: Hi, I'm Alice and I live in Tokyo." in shown["sqlite:bot.db"]


@pytest.mark.requires("chromadb")
def test_in_chroma_by_a_dict_and_by_an_instance_users_are_apart(shown: dict[str, str]) -> None:
    pytest.importorskip("chromadb", reason="needs chromadb")
    for where in ("chroma, by a dict", "chroma, by an instance"):
        assert_users_are_apart(shown[where])
    assert "in the same directory: Hi, I'm Alice and I live in Tokyo." in shown["chroma, by an instance"]

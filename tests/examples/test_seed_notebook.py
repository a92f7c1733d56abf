"""Code written for the memory notebook of the documents that Holdfast is made from runs here as it is, on SQLite.

The calls below are those of that notebook: blocking turns, also inside a running event loop, a checkpointer shared by
agents, and a stored state that is read field by field.
"""

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import Agent
from holdfast.memory.backends import sqlite_checkpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.tools import tool
from tests.examples.support import EXAMPLES, bare_environment


@pytest.fixture
def get_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As ``from config import get_model`` gives it to a notebook."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in set(importlib.import_module("os").environ) - set(bare_environment()):
        monkeypatch.delenv(name)
    return importlib.import_module("config").get_model


Build = Callable[[], BaseCheckpointer]


@pytest.fixture
def build_checkpointer(tmp_path: Path) -> Any:
    """A new object each time, on the same file; closed at the end."""
    made: list[BaseCheckpointer] = []

    def build() -> BaseCheckpointer:
        made.append(sqlite_checkpointer(tmp_path / "notebook.db"))
        return made[-1]

    yield build
    for checkpointer in made:
        asyncio.run(checkpointer.close())


def test_a_thread_recalls_its_first_turn(get_model: Any, build_checkpointer: Build) -> None:
    agent = Agent(
        model=get_model(max_tokens=100),
        system_prompt="You are a helpful assistant. Remember what the user tells you.",
        checkpointer=build_checkpointer(),
    )
    thread_id = "conversation_001"
    agent.run_sync("My name is Alice.", thread_id=thread_id)
    assert "Alice" in agent.run_sync("What's my name?", thread_id=thread_id).message


def test_tools_are_called_and_counted(get_model: Any, build_checkpointer: Build) -> None:
    notes: list[str] = []

    @tool
    def save_note(content: str) -> str:
        """Save a note for later reference."""
        notes.append(content)
        return f"Note saved: {content}"

    @tool
    def get_notes() -> str:
        """Get all saved notes."""
        lines = "\n".join(f"- {note}" for note in notes)
        return f"You have {len(notes)} note(s):\n{lines}" if notes else "No notes saved yet."

    agent = Agent(
        model=get_model(max_tokens=150),
        tools=[save_note, get_notes],
        system_prompt="You are a note-taking assistant.",
        checkpointer=build_checkpointer(),
        checkpoint_every_n_iterations=1,
    )
    result = agent.run_sync("Save a note: Buy groceries", thread_id="notes_session")
    assert result.metrics.tool_calls == 1
    assert notes == ["Buy groceries"]
    assert "- Buy groceries" in agent.run_sync("What notes do I have?", thread_id="notes_session").message


def test_another_agent_with_a_checkpointer_of_its_own_goes_on(
    get_model: Any, build_checkpointer: Build
) -> None:
    model = get_model(max_tokens=100)
    prompt = "You are a helpful assistant."
    first = Agent(model=model, system_prompt=prompt, checkpointer=build_checkpointer())
    first.run_sync("Remember: The secret code is 42.", thread_id="persistent_chat")
    second = Agent(model=model, system_prompt=prompt, checkpointer=build_checkpointer())
    assert "42" in second.run_sync("What was the secret code?", thread_id="persistent_chat").message


def test_threads_of_one_database_do_not_hear_of_each_other(get_model: Any, build_checkpointer: Build) -> None:
    agent = Agent(
        model=get_model(max_tokens=100),
        system_prompt="You are a helpful assistant.",
        checkpointer=build_checkpointer(),
    )
    agent.run_sync("I'm Alice and I like pizza.", thread_id="thread_alice")
    agent.run_sync("I'm Bob and I like sushi.", thread_id="thread_bob")
    alice = agent.run_sync("What's my favorite food?", thread_id="thread_alice").message
    bob = agent.run_sync("What's my favorite food?", thread_id="thread_bob").message
    assert ("pizza" in alice, "sushi" in alice) == (True, False)
    assert ("pizza" in bob, "sushi" in bob) == (False, True)


def test_a_stored_state_is_read_field_by_field_inside_a_running_loop(
    get_model: Any, build_checkpointer: Build
) -> None:
    facts: list[str] = []

    @tool
    def record_fact(fact: str) -> str:
        """Persist a fact the user has shared so the agent can remember it."""
        facts.append(fact)
        return f"Recorded fact #{len(facts)}: {fact}"

    async def inspect() -> None:
        checkpointer = build_checkpointer()
        agent = Agent(
            agent_id="inspector",
            model=get_model(max_tokens=200),
            system_prompt=(
                "You are a helpful assistant. Whenever the user shares a fact about themselves (their name, job,"
                " hobbies), call record_fact exactly once with a short summary of that fact, then reply."
            ),
            tools=[record_fact],
            checkpointer=checkpointer,
            reflexion=True,
        )
        thread_id = "inspect_thread"
        agent.run_sync("Hello, my name is Charlie.", thread_id=thread_id)
        agent.run_sync("I work as a data scientist.", thread_id=thread_id)

        state = await checkpointer.load(thread_id)
        assert state is not None
        assert state.agent_id == "inspector"
        assert state.iteration == 4
        assert len(state.tool_history) == 2
        assert f"{state.confidence:.2f}" == "0.44"
        assert [round(value, 2) for value in state.confidence_history] == [0.25, 0.44]
        roles = [message.role.value for message in state.messages]
        assert roles == ["user", "assistant", "tool", "assistant"] * 2
        assert (state.messages[2].content or "")[:50] == "Recorded fact #1: My name is Charlie"

    asyncio.run(inspect())
    assert len(facts) == 2

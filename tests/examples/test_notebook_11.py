"""The notebook of the memory across threads: each of its parts shows what it claims. And the calls of the document that
it retells work here as they are, on SQLite."""

import asyncio
import re
from pathlib import Path

import pytest

from holdfast.agent import Agent
from holdfast.core.messages import Message, Role
from holdfast.memory.manager import LLMMemoryManager, Memory, MemoryType
from holdfast.memory.store_backends import SQLiteStore
from holdfast.testing import ScriptedModel
from tests.examples.support import run_example

SCRIPT = "notebook_11_oracle_store.py"
ORACLE = {
    "ORACLE_DSN": "mydb_low",
    "ORACLE_USER": "app",
    "ORACLE_PASSWORD": "secret",
    "ORACLE_WALLET": "wallet",
}
REGION = "Prefers the region us-chicago-1."
WORK = "Works on the GenAI platform."


@pytest.fixture(scope="module")
def parts() -> list[str]:
    """What is printed before the first part, then each part."""
    return re.split(r"^=== Part \d: .*===$", run_example(SCRIPT), flags=re.MULTILINE)


def test_it_says_where_it_runs_and_what_would_put_it_on_oracle(parts: list[str]) -> None:
    assert len(parts) == 6
    assert re.search(
        r"Store: SQLite, .*notebook_11\.db \(to run on Oracle, set "
        r"ORACLE_DSN, ORACLE_USER, ORACLE_PASSWORD, ORACLE_WALLET\)",
        parts[0],
    )
    assert "Model: MockModel('mock')" in parts[0]


def test_part_1_learns_from_thread_a(parts: list[str]) -> None:
    assert "[thread-a] recalled: []" in parts[1]
    assert f"[thread-a] learned: ['{REGION}', '{WORK}']" in parts[1]


def test_part_2_the_store_has_it_under_the_user_and_the_type(parts: list[str]) -> None:
    assert re.search(rf"^users/alice/user/heard_\w{{8}}: {re.escape(REGION)}$", parts[2], re.MULTILINE)
    assert f"users/alice/user/work: {WORK}" in parts[2]
    assert "users/bob" not in parts[2]


def test_part_3_thread_b_is_shown_it_and_never_stores_it(parts: list[str]) -> None:
    assert f"[thread-b] recalled: ['{REGION}', '{WORK}']" in parts[3]
    stored = parts[3].partition("Stored in thread-b:")[2].strip().splitlines()
    assert [line.split()[0] for line in stored] == ["[user]", "[assistant]"]
    assert stored[0].endswith("[user] Which region do I prefer for inference, and what do I work on?")


def test_part_4_bob_is_told_nothing_of_alice(parts: list[str]) -> None:
    assert "[thread-bob] recalled: []" in parts[4]
    assert "chicago" not in parts[4]
    assert "GenAI" not in parts[4]


def test_part_5_a_repeat_changes_nothing_and_a_new_value_supersedes(parts: list[str]) -> None:
    assert "[thread-c] learned: []" in parts[5]
    assert "[thread-d] learned: ['Works on the billing service.']" in parts[5]
    assert len(re.findall(r"^users/alice/user/", parts[5], re.MULTILINE)) == 2
    assert f"history: {WORK} (replaced)" in parts[5]
    assert "Forgotten: 0 memories are left." in parts[5]


def test_in_a_folder_of_yours_it_can_be_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    first = run_example(SCRIPT, str(folder))
    assert (folder / "notebook_11.db").is_file()
    assert "[thread-a] recalled: []" in first
    assert "[thread-a] recalled: []" in run_example(SCRIPT, str(folder))


def test_with_oracle_half_configured_it_names_only_what_is_missing() -> None:
    shown = run_example(SCRIPT, ORACLE_DSN="mydb_low", ORACLE_USER="app")
    assert "(to run on Oracle, set ORACLE_PASSWORD, ORACLE_WALLET)" in shown


def test_with_oracle_configured_but_out_of_reach_that_is_said_plainly() -> None:
    pytest.importorskip("oracledb", reason="needs oracledb: the package is not installed")
    shown = run_example(SCRIPT, code=1, **ORACLE)
    assert "Oracle mydb_low: DPY-" in shown
    assert "Unset ORACLE_DSN to run on SQLite." in shown
    assert "Traceback" not in shown
    assert "secret" not in shown


def test_the_calls_of_the_document_work_on_sqlite(tmp_path: Path) -> None:
    user_id = "alice"

    async def extractor(messages: list[Message]) -> list[Memory]:
        said = [message.content for message in messages if message.role == Role.USER and message.content]
        return [
            Memory(
                type=MemoryType.USER,
                key="preference_1",
                content=f"User stated a preference: {text.partition('I prefer ')[2].rstrip('.')}.",
                metadata={"source": "regex", "raw": text[:200]},
            )
            for text in said
            if "I prefer " in text
        ]

    async def drive(agent: Agent, prompt: str, *, thread_id: str) -> str:
        final = ""
        async for event in agent.run(prompt, thread_id=thread_id):
            if event.event_type == "terminate":
                final = getattr(event, "final_message", "") or ""
        return final

    async def test() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        manager = LLMMemoryManager(
            store=store,
            namespace_prefix=("users", user_id),
            extract_fn=extractor,
        )
        first = Agent(model=ScriptedModel(["Noted."]), system_prompt="Be concise.", memory_manager=manager)
        assert await drive(first, "I prefer us-chicago-1.", thread_id="thread-a") == "Noted."

        kept: dict[tuple[str, ...], list[str]] = {}
        for memory_type in MemoryType:
            namespace = ("users", user_id, memory_type.value)
            items = await store.search(namespace, query=None, limit=10)
            if items:
                kept[namespace] = [item.value["content"] for item in items]
        assert kept == {("users", "alice", "user"): ["User stated a preference: us-chicago-1."]}

        model = ScriptedModel(["us-chicago-1"])
        second = Agent(model=model, system_prompt="Be concise.", memory_manager=manager)
        assert await drive(second, "Remind me what region I like?", thread_id="thread-b") == "us-chicago-1"
        shown = model.calls[0].messages
        assert [message.role for message in shown] == [Role.SYSTEM, Role.USER]
        assert "User stated a preference: us-chicago-1." in (shown[1].content or "")
        await store.close()

    asyncio.run(test())


def test_blocking_turns_of_one_agent_work_too(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    manager = LLMMemoryManager(store=store, namespace_prefix=("users", "alice"))
    model = ScriptedModel(["Noted.", "us-chicago-1"])
    agent = Agent(model=model, memory_manager=manager)
    agent.run_sync("I work on OCI GenAI and I prefer us-chicago-1.", thread_id="thread-a")
    agent.run_sync("Remind me what region I prefer?", thread_id="thread-b")
    assert "The user prefers us-chicago-1." in (model.calls[1].messages[-1].content or "")
    agent.close()
    asyncio.run(store.close())

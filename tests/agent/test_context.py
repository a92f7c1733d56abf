"""Tools know whom they work for; blocking calls work from anywhere."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast import Agent, get_run_context, tool
from holdfast.agent import run_context
from holdfast.errors import Closed, InvalidInput
from holdfast.memory.backends import MemoryCheckpointer, SQLiteCheckpointer
from holdfast.testing import FunctionModel, ScriptedModel
from tests.agent.support import calls


async def test_sync_and_async_tools_see_the_run_that_calls_them() -> None:
    seen: list[Any] = []

    @tool
    def one() -> str:
        """In a thread."""
        seen.append(get_run_context())
        return "ok"

    @tool
    async def two() -> str:
        """On the loop."""
        seen.append(get_run_context())
        return "ok"

    agent = Agent(
        model=ScriptedModel([calls(("one", {}), ("two", {})), "done"]),
        tools=[one, two],
        agent_id="helper",
        checkpointer=MemoryCheckpointer(),
    )
    result = await agent.run("go", thread_id="t", user_id="alice", metadata={"ticket": 7})
    for context in seen:
        assert (context.user_id, context.thread_id, context.session_id) == ("alice", "t", "t")
        assert (context.run_id, context.agent_id) == (result.run_id, "helper")
        assert dict(context.metadata) == {"ticket": 7}
    assert len(seen) == 2


async def test_a_run_inside_a_tool_works_for_the_same_user_on_a_thread_of_its_own() -> None:
    seen: list[Any] = []
    checkpointer = MemoryCheckpointer()

    @tool
    def who() -> str:
        """Who asks."""
        seen.append(get_run_context())
        return "ok"

    inner = Agent(model=ScriptedModel([calls(("who", {})), "inner"]), tools=[who], checkpointer=checkpointer)

    @tool
    async def delegate() -> str:
        """Ask another agent."""
        return (await inner.run("sub", metadata={"depth": 2})).message

    outer = Agent(
        model=ScriptedModel([calls(("delegate", {})), "outer"]), tools=[delegate], checkpointer=checkpointer
    )
    await outer.run("go", thread_id="t", user_id="alice", metadata={"ticket": 7})
    (context,) = seen
    assert (context.user_id, dict(context.metadata)) == ("alice", {"ticket": 7, "depth": 2})
    assert context.thread_id != "t"
    assert len(await checkpointer.scoped("alice").list_threads()) == 2


async def test_the_consumer_of_events_is_not_inside_the_run() -> None:
    @tool
    def nothing() -> str:
        """Do nothing."""
        return ""

    agent = Agent(model=ScriptedModel([calls(("nothing", {})), "done"]), tools=[nothing])
    async for _ in agent.run("go"):
        with pytest.raises(InvalidInput, match="works while an agent runs a tool"):
            get_run_context()


def test_a_tool_is_tested_by_itself_in_a_context_of_the_tests_making() -> None:
    @tool
    def mine() -> str:
        """Whose."""
        return str(get_run_context().user_id)

    with run_context(user_id="alice"):
        assert mine() == "alice"
    with pytest.raises(InvalidInput):
        mine()


class Died(BaseException):
    """The process ends here."""


async def test_a_call_that_is_run_again_after_a_crash_has_the_same_idempotency_key() -> None:
    keys: list[str] = []
    checkpointer = MemoryCheckpointer()

    @tool(idempotent=True)
    async def pay() -> str:
        """Pay."""
        keys.append(get_run_context().idempotency_key)
        if len(keys) == 1:
            raise Died
        return "paid"

    twice = calls(("pay", {}), ("pay", {}))
    run = Agent(model=ScriptedModel([twice]), tools=[pay], checkpointer=checkpointer).run("go", thread_id="t")
    with pytest.raises(Died):
        await run
    await Agent(model=ScriptedModel(["ok"]), tools=[pay], checkpointer=checkpointer).resume("t")
    assert len(set(keys)) == 2
    assert set(keys[:1]) <= set(keys[1:])


# ── run_sync ──────────────────────────────────────────────────────────────────────────────────────────


def _agent(checkpointer: Any = None, tools: Any = ()) -> Agent:
    return Agent(
        model=FunctionModel(lambda messages, tools=None: str(len(messages))),
        checkpointer=checkpointer,
        tools=tools,
    )


def test_run_sync_without_a_loop(tmp_path: Any) -> None:
    agent = _agent(SQLiteCheckpointer(tmp_path / "a.db"))
    assert [agent.run_sync("x", thread_id="t").message for _ in range(3)] == ["1", "3", "5"]
    asyncio.run(agent.checkpointer.close())


def test_run_sync_inside_a_running_loop_blocks_it_and_comes_back(tmp_path: Any) -> None:
    async def scenario() -> list[str]:
        async with SQLiteCheckpointer(tmp_path / "a.db") as checkpointer:
            agent = _agent(checkpointer)
            first = (await agent.run("x", thread_id="t")).message
            second = agent.run_sync("x", thread_id="t").message
            third = (await agent.run("x", thread_id="t")).message
            state = await checkpointer.load("t")
            assert state is not None
            assert len(state.messages) == 6
            return [first, second, third]

    assert asyncio.run(scenario()) == ["1", "3", "5"]


def test_run_sync_nested_in_tools_at_any_depth_never_deadlocks() -> None:
    def level(depth: int) -> Agent:
        @tool
        async def deeper_on_the_loop() -> str:
            """Block the loop that runs this tool."""
            return level(depth - 1).run_sync("go").message

        @tool
        def deeper_in_a_thread() -> str:
            """Block a tool's thread, which starts one more."""
            found: list[str] = []
            thread = threading.Thread(target=lambda: found.append(level(depth - 1).run_sync("go").message))
            thread.start()
            thread.join()
            return found[0]

        if depth == 0:
            return Agent(model=ScriptedModel(["bottom"]))
        both = calls(("deeper_on_the_loop", {}), ("deeper_in_a_thread", {}))
        return Agent(
            model=ScriptedModel([both, f"level {depth}"]), tools=[deeper_on_the_loop, deeper_in_a_thread]
        )

    assert level(3).run_sync("go").message == "level 3"


def test_an_error_of_a_blocking_run_keeps_its_type() -> None:
    with pytest.raises(InvalidInput, match="no thread 'nope' to resume"):
        _agent(MemoryCheckpointer()).resume_sync("nope")


def test_an_agent_is_closed_without_a_loop(tmp_path: Any) -> None:
    with Agent(model=ScriptedModel(["ok"]), checkpointer=f"sqlite:{tmp_path / 'a.db'}") as agent:
        assert agent.run_sync("x").message == "ok"
    with pytest.raises(Closed):
        agent.run_sync("x")

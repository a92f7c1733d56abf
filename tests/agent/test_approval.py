"""Calls that need somebody's approval: nothing of their step runs before, and the wait survives a restart."""

from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.agent import ApprovalEvent
from holdfast.core.messages import Role
from holdfast.errors import InvalidInput
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.testing import ScriptedModel
from tests.agent.support import assert_well_formed, calls, collect, kinds


def shop(ran: list[str]) -> list[Any]:
    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(f"pay {amount}")
        return f"paid {amount}"

    @tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    return [pay, look]


async def waiting(ran: list[str], url: Any, *wanted: tuple[str, dict[str, Any]]) -> Any:
    agent = Agent(model=ScriptedModel([calls(*wanted, text="May I?")]), tools=shop(ran), checkpointer=url)
    events = await collect(agent.run("Buy it.", thread_id="t"))
    await agent.aclose()
    return events


async def test_a_step_with_such_a_call_waits_as_a_whole_and_the_run_ends() -> None:
    ran: list[str] = []
    checkpointer = MemoryCheckpointer()
    events = await waiting(ran, checkpointer, ("pay", {"amount": 5}), ("look", {}))
    assert ran == []
    assert kinds(events)[-2:] == ["approval", "terminate"]
    asked = next(event for event in events if isinstance(event, ApprovalEvent))
    assert [call.arguments["amount"] for call in asked.calls] == [5]
    result = events[-1].result
    assert (result.stop_reason, result.message, result.approvals) == ("approval", "May I?", asked.calls)


async def test_the_wait_survives_a_restart_and_approval_runs_the_step_once(tmp_path: Path) -> None:
    ran: list[str] = []
    url = f"sqlite:{tmp_path / 'shop.db'}"
    await waiting(ran, url, ("pay", {"amount": 5}), ("look", {}))
    async with Agent(model=ScriptedModel(["Bought."]), tools=shop(ran), checkpointer=url) as agent:
        (call,) = await agent.pending_approvals("t")
        assert (call.name, dict(call.arguments)) == ("pay", {"amount": 5})
        still = await agent.resume("t")
        assert (still.stop_reason, still.approvals) == ("approval", (call,))
        result = await agent.resume("t", approve=True)
        assert (result.message, sorted(ran)) == ("Bought.", ["look", "pay 5"])
        assert_well_formed(result.state.messages)
        assert await agent.pending_approvals("t") == ()


async def test_a_refusal_reaches_the_model_with_its_reason() -> None:
    ran: list[str] = []
    checkpointer = MemoryCheckpointer()
    await waiting(ran, checkpointer, ("pay", {"amount": 5}), ("look", {}))
    model = ScriptedModel(["As you wish."])
    result = await Agent(model=model, tools=shop(ran), checkpointer=checkpointer).resume(
        "t", approve="too dear"
    )
    told = {message.name: message.content for message in model.calls[0].messages if message.role is Role.TOOL}
    assert told == {"pay": "Error: the call was not approved: too dear", "look": "seen"}
    assert ran == ["look"]
    assert_well_formed(result.state.messages)


async def test_calls_are_decided_one_by_one_by_their_ids() -> None:
    ran: list[str] = []
    checkpointer = MemoryCheckpointer()
    events = await waiting(ran, checkpointer, ("pay", {"amount": 5}), ("pay", {"amount": 6}))
    five, six = events[-1].result.approvals
    agent = Agent(model=ScriptedModel(["ok"]), tools=shop(ran), checkpointer=checkpointer)
    with pytest.raises(InvalidInput, match=f"{six.id!r} is missing"):
        await agent.resume("t", approve={five.id: True})
    with pytest.raises(InvalidInput, match="'other', which does not wait"):
        await agent.resume("t", approve={five.id: True, six.id: True, "other": True})
    await agent.resume("t", approve={five.id: False, six.id: True})
    assert ran == ["pay 6"]


async def test_another_prompt_declines_what_waits_without_asking_the_model_about_it() -> None:
    ran: list[str] = []
    checkpointer = MemoryCheckpointer()
    await waiting(ran, checkpointer, ("pay", {"amount": 5}))
    model = ScriptedModel(["Never mind."])
    result = await Agent(model=model, tools=shop(ran), checkpointer=checkpointer).run("Stop.", thread_id="t")
    assert len(model.calls) == 1
    assert (ran, result.message) == ([], "Never mind.")
    assert_well_formed(result.state.messages)
    assert "not approved" in (result.state.messages[2].content or "")


@pytest.mark.parametrize("approve", [7, ["x"], {"a": 1}])
async def test_what_is_no_decision_is_refused(approve: Any) -> None:
    with pytest.raises(InvalidInput, match="approve must be True, False, a reason"):
        await Agent(model=ScriptedModel([])).resume("t", approve=approve)

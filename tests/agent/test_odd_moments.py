"""What people do at moments that nobody planned for: they leave, decide twice, ask again, give up."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Agent, get_run_context, tool
from holdfast.agent import SummarizingConversation, ToolStartEvent
from holdfast.core.errors import Closed, InvalidInput
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.core.state import AgentState
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.memory.manager import LLMMemoryManager, Memory, MemoryType
from holdfast.memory.records import Page
from holdfast.memory.store import InMemoryStore
from holdfast.models.base import Model, ModelChunk, ModelResponse
from holdfast.testing import FunctionModel, ScriptedModel
from tests.agent.support import assert_well_formed, calls


class Killed(BaseException):
    """Not an error: as if the process had ended."""


# ── leaving ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_break_alone_ends_the_run_without_waiting_for_the_garbage_collector() -> None:
    ran: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    agent = Agent(
        model=ScriptedModel([calls(("pay", {})), "done"]), tools=[pay], checkpointer=MemoryCheckpointer()
    )
    gc.disable()
    try:
        async for event in agent.run("go", thread_id="t"):
            if isinstance(event, ToolStartEvent):
                break
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
    finally:
        gc.enable()
    result = await agent.resume("t")  # it is known that the call had not started: it runs now
    assert ran == ["pay"]
    assert [message.content for message in result.state.messages[2:]] == ["paid", "done"]


async def test_closing_a_run_after_a_break_waits_for_its_safe_point() -> None:
    release, ran = asyncio.Event(), []

    @tool
    async def first() -> str:
        """Quick."""
        return "one"

    @tool
    async def second() -> str:
        """Slow."""
        await release.wait()
        ran.append("second")
        return "two"

    script = ScriptedModel([calls(("first", {}), ("second", {}))])
    run = Agent(model=script, tools=[first, second], checkpointer=MemoryCheckpointer()).run(
        "go", thread_id="t"
    )
    async for event in run:
        if event.type == "tool_complete":
            break
    await asyncio.sleep(0)  # by now the generator is gone, and being closed
    release.set()
    await run.aclose()
    assert ran == ["second"]


# ── deciding ──────────────────────────────────────────────────────────────────────────────────────────


async def test_an_approval_is_about_the_calls_that_were_waiting_not_those_that_wait_after_a_conflict() -> (
    None
):
    wiped: list[str] = []

    @tool(requires_approval=True)
    async def wipe(what: str) -> str:
        """Delete something."""
        wiped.append(what)
        return "wiped"

    def answer(messages: Sequence[Message], tools: Any = None, **options: Any) -> Message | str:
        said = sum(message.role is Role.ASSISTANT for message in messages)
        replies: list[Message | str] = [
            calls(("wipe", {"what": "tmp"})),
            calls(("wipe", {"what": "everything"})),
            "done",
        ]
        return replies[said]

    checkpointer = MemoryCheckpointer()
    one, two = [
        Agent(model=FunctionModel(answer), tools=[wipe], checkpointer=checkpointer, on_conflict="retry")
        for _ in range(2)
    ]
    await one.run("clean", thread_id="t")
    results = await asyncio.gather(one.resume("t", approve=True), two.resume("t", approve=True))
    assert wiped == ["tmp"]
    assert [result.stop_reason for result in results] == ["approval", "approval"]
    assert all(result.approvals[0].arguments["what"] == "everything" for result in results)


@pytest.mark.parametrize("waits", [False, True], ids=["before it waits", "while it waits"])
async def test_the_same_prompt_again_finds_the_approval_that_its_turn_waits_for(waits: bool) -> None:
    paid: list[str] = []
    alive = True

    @tool
    async def pay() -> str:
        """Pay."""
        paid.append("pay")
        return "paid"

    @tool(requires_approval=True)
    async def wipe() -> str:
        """Delete everything."""
        return "wiped"

    def answer(messages: Sequence[Message], tools: Any = None, **options: Any) -> Message | str:
        said = sum(message.role is Role.ASSISTANT for message in messages)
        if said == 1 and not (alive or waits):
            raise Killed
        replies: list[Message | str] = [calls(("pay", {})), calls(("wipe", {})), "done"]
        return replies[said]

    agent = Agent(model=FunctionModel(answer), tools=[pay, wipe], checkpointer=MemoryCheckpointer())
    alive = False
    with suppress(Killed):
        await agent.run("go", thread_id="t")
    alive = True
    result = await agent.run("go", thread_id="t")
    assert result.stop_reason == "approval"
    assert paid == ["pay"]
    assert [message.content for message in result.state.messages if message.role is Role.USER] == ["go"]
    assert (await agent.resume("t", approve=True)).message == "done"


# ── giving up, and starting from what others wrote ────────────────────────────────────────────────────


async def test_an_abandoned_turn_does_not_reopen_the_one_before_that_a_limit_had_ended() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    model = ScriptedModel([calls(("look", {})), RuntimeError("down"), "not asked for"])
    agent = Agent(model=model, tools=[look], max_iterations=1, checkpointer=MemoryCheckpointer())
    assert (await agent.run("one", thread_id="t")).stop_reason == "max_iterations"
    with pytest.raises(RuntimeError):
        await agent.run("two", thread_id="t")
    await agent.abandon("t")
    await agent.resume("t")
    assert model.remaining == 1


async def test_resuming_a_thread_at_rest_that_no_agent_wrote_gives_its_last_answer() -> None:
    checkpointer = MemoryCheckpointer()
    await checkpointer.save(AgentState(messages=(Message.user("q"), Message.assistant("the answer"))), "t")
    result = await Agent(model=ScriptedModel([]), checkpointer=checkpointer).resume("t")
    assert result.message == "the answer"


async def test_a_new_turn_has_its_own_time_however_long_the_unfinished_one_before_it_took() -> None:
    checkpointer = MemoryCheckpointer()
    await checkpointer.save(AgentState(messages=(Message.user("old"),)), "t")
    agent = Agent(model=ScriptedModel(["late", "fine"]), checkpointer=checkpointer, time_budget=60)
    budgets: list[Any] = []
    make = agent._limits

    def counted() -> Any:
        budgets.append(make())
        return budgets[-1]

    agent._limits = counted  # type: ignore[method-assign]  # to count them
    result = await agent.run("new", thread_id="t")
    assert (result.stop_reason, result.message) == ("complete", "fine")
    assert len(budgets) == 2
    assert budgets[0] is not budgets[1]


# ── what a model may do ───────────────────────────────────────────────────────────────────────────────


async def test_call_ids_that_a_server_counts_anew_in_each_answer_still_give_each_call_its_own_key() -> None:
    keys: list[str] = []

    @tool
    def pay(n: int) -> str:
        """Pay."""
        keys.append(get_run_context().idempotency_key)
        return "paid"

    steps = [
        Message.assistant(None, [ToolCall(id="call_0", name="pay", arguments={"n": n})]) for n in range(3)
    ]
    result = await Agent(model=ScriptedModel([*steps, "done"]), tools=[pay]).run("go")
    assert len(set(keys)) == 3
    assert keys[0].endswith(":call_0")  # the first is kept as it came
    assert_well_formed(result.state.messages)


@pytest.mark.parametrize("value", [{1: "a", "b": 2}, {(1, 2): "a"}], ids=["mixed keys", "tuple keys"])
async def test_arguments_whose_keys_are_not_all_strings_do_not_stop_the_turn(value: dict[Any, Any]) -> None:
    @tool
    def take(x: Any) -> str:
        """Take anything."""
        return "taken"

    result = await Agent(model=ScriptedModel([calls(("take", {"x": value})), "done"]), tools=[take]).run("go")
    assert result.message == "done"


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (ModelResponse("text"), "ModelResponse.message"),  # type: ignore[arg-type]  # the mistake under test
        (ModelResponse(Message.user("text")), "ModelResponse.message"),
        (ModelResponse(Message.assistant("x"), finish_reason="end"), "finish_reason"),  # type: ignore[arg-type]  # likewise
    ],
)
async def test_a_model_that_answers_with_something_else_is_told_which_field_is_wrong(
    answer: ModelResponse, field: str
) -> None:
    class Wrong:
        async def complete(self, messages: Any, tools: Any = None, **options: Any) -> ModelResponse:
            return answer

        async def stream(self, messages: Any, tools: Any = None, **options: Any) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(response=answer)

    model: Model = Wrong()
    with pytest.raises(InvalidInput, match=field):
        await Agent(model=model).run("go")
    with pytest.raises(InvalidInput, match=field):
        async for _ in Agent(model=model).run("go"):
            pass


async def test_a_stream_that_is_no_async_iterator_is_refused_with_how_to_write_one() -> None:
    class Wrong:
        async def complete(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            return "x"

        async def stream(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            return None

    model: Any = Wrong()
    with pytest.raises(InvalidInput, match=r"stream\(\) must give an async iterator, got coroutine"):
        async for _ in Agent(model=model).run("go"):
            pass


# ── what a caller may give ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prompt", [Message.user("  "), Message(role=Role.USER)])
def test_a_prompt_without_words_is_refused_as_a_message_too(prompt: Message) -> None:
    with pytest.raises(InvalidInput, match="prompt must not be empty"):
        Agent(model=ScriptedModel(["x"])).run_sync(prompt)


async def test_an_update_with_a_wrong_value_names_the_field_and_changes_nothing() -> None:
    agent = Agent(model=ScriptedModel(["x"]), checkpointer=MemoryCheckpointer())
    before = (await agent.run("go", thread_id="t")).state
    with pytest.raises(InvalidInput, match=r"confidence: .*got 'high' \(str\)"):
        await agent.update_state("t", {"confidence": "high"})
    assert await agent.get_state("t") == before


# ── memory, conversation and confidence on top ────────────────────────────────────────────────────────


async def test_what_was_recalled_is_shown_though_the_conversation_manager_rewrites_the_prompt() -> None:
    manager = LLMMemoryManager(InMemoryStore())
    await manager.save([Memory(type=MemoryType.USER, key="cat", content="The cat is called Felix")])
    shown: list[bool] = []

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"nothing {n}"

    def answer(messages: Sequence[Message], tools: Any = None, **options: Any) -> Message | str:
        if tools is None:
            return "a summary"
        text = "\n".join(message.content or "" for message in messages)
        shown.append("Felix" in text)
        steps = sum(message.role is Role.TOOL for message in messages)
        return calls(("look", {"n": steps})) if "Find the cat" in text and steps < 4 else "ok"

    agent = Agent(
        model=FunctionModel(answer),
        tools=[look],
        memory_manager=manager,
        conversation_manager=SummarizingConversation(max_messages=6, keep_last=2),
    )
    for n in range(4):
        await agent.run(f"Talk about the cat {n}.", thread_id="t")
    shown.clear()
    await agent.run("Find the cat.", thread_id="t")
    assert shown == [True] * 5


class Simple(BaseCheckpointer):
    """No more than a third party must write."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[AgentState] = []
        self.saves_left = -1

    async def save(
        self, state: AgentState, thread_id: str, checkpoint_id: Any = None, metadata: Any = None, **more: Any
    ) -> str:
        if self.saves_left == 0:
            raise Killed
        self.saves_left -= 1
        self.states.append(state)
        return str(len(self.states))

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        return self.states[-1] if self.states else None

    async def list_checkpoints(self, thread_id: str, limit: int = 10, **more: Any) -> Page[str]:
        return Page([])


@pytest.mark.parametrize("saves", range(2, 7))
async def test_each_result_moves_the_confidence_once_also_where_results_are_saved_one_by_one(
    saves: int,
) -> None:
    @tool(idempotent=True)
    async def look(n: int) -> str:
        """Look."""
        return str(n)

    step = calls(("look", {"n": 1}), ("look", {"n": 2}))
    checkpointer = Simple()
    checkpointer.saves_left = saves
    agent = Agent(
        model=ScriptedModel([step, "done"]), tools=[look], checkpointer=checkpointer, reflexion=True
    )
    try:
        await agent.run("go", thread_id="t")
    except Killed:
        checkpointer.saves_left = -1
    model = ScriptedModel(["done"])
    result = await Agent(model=model, tools=[look], checkpointer=checkpointer, reflexion=True).resume("t")
    assert result.message == "done"
    assert len(result.state.confidence_history) == len(result.state.tool_executions) == 2


# ── one event at a time, and the end ──────────────────────────────────────────────────────────────────


async def test_events_can_be_asked_for_one_by_one() -> None:
    agent = Agent(model=ScriptedModel(["hi", "hi"]), checkpointer=MemoryCheckpointer())
    run = agent.run("go", thread_id="t")
    assert (await anext(run)).type == "checkpoint"
    assert [event.type async for event in run][-1] == "terminate"
    left = agent.run("go", thread_id="u")
    await anext(left)
    await left.aclose()
    assert len(asyncio.all_tasks()) == 1


async def test_a_memory_that_fails_to_drain_does_not_keep_the_agents_database_open() -> None:
    class Failing(LLMMemoryManager):
        async def drain(self) -> None:
            raise RuntimeError("down")

    agent = Agent(
        model=ScriptedModel(["x"]), memory_manager=Failing(InMemoryStore()), checkpointer="sqlite::memory:"
    )
    with pytest.raises(RuntimeError):
        await agent.aclose()
    with pytest.raises(Closed):
        await agent.get_state("t")


def test_a_configuration_that_is_a_dict_and_tools_that_are_one_tool_are_refused_with_the_fix() -> None:
    @tool
    def look() -> str:
        """Look."""
        return ""

    wrong: Any = {"model": "mock:"}
    with pytest.raises(InvalidInput, match=r"config must be an AgentConfig, got dict"):
        Agent(config=wrong)
    wrong = look
    with pytest.raises(InvalidInput, match=r"tools: give a list of functions or tools.*\(Tool\)"):
        Agent(model="mock:", tools=wrong)

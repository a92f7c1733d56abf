"""The loop: what a turn does, says and stores when nothing goes wrong, and where it stops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.agent import (
    AgentConfig,
    Reflexion,
    TerminateEvent,
    ThinkEvent,
    ToolCompleteEvent,
    ToolStartEvent,
)
from holdfast.core import state as state_module
from holdfast.core.messages import Message, Role, ToolCall, decode_messages
from holdfast.core.state import AgentState
from holdfast.errors import InvalidInput
from holdfast.memory.backends import MemoryCheckpointer, SQLiteCheckpointer
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec, Usage
from holdfast.testing import FunctionModel, ScriptedModel
from tests.agent.support import assert_well_formed, calls, collect, kinds, roles


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@tool
def explode() -> str:
    """Fail."""
    raise RuntimeError("boom")


async def test_a_turn_with_a_tool_says_what_happens_in_order_and_ends_with_the_answer() -> None:
    model = ScriptedModel([calls(("add", {"a": 2, "b": 3}), text="Let me see."), "It is 5."])
    agent = Agent("Be exact.", model=model, tools=[add], checkpointer=MemoryCheckpointer())
    events = await collect(agent.run("What is 2 + 3?", thread_id="t"))
    assert kinds(events) == [
        *["model_chunk"] * 3,
        "think",
        "tool_start",
        "tool_complete",
        *["model_chunk"] * 3,
        "think",
        "terminate",
    ]
    done = next(event for event in events if isinstance(event, ToolCompleteEvent))
    assert (done.tool_name, done.result.content, done.result.success) == ("add", "5", True)
    last = events[-1]
    assert isinstance(last, TerminateEvent)
    assert (last.final_message, last.reason) == ("It is 5.", "complete")
    assert roles(last.result.state) == ["user", "assistant", "tool", "assistant"]


async def test_the_model_hears_the_instructions_the_tools_and_every_result() -> None:
    model = ScriptedModel([calls(("add", {"a": 2, "b": 3})), "It is 5."])
    agent = Agent("Be exact.", model=model, tools=[add])
    await agent.run("What is 2 + 3?")
    first, second = model.calls
    assert [message.role for message in first.messages] == [Role.SYSTEM, Role.USER]
    assert first.messages[0].content == "Be exact."
    assert [spec.name for spec in first.tools] == ["add"]
    assert isinstance(first.tools[0], ToolSpec)
    assert second.messages[-1].content == "5"
    assert second.messages[-1].tool_call_id == second.messages[-2].tool_calls[0].id


async def test_instructions_are_not_stored_in_the_thread() -> None:
    checkpointer = MemoryCheckpointer()
    agent = Agent("Secret instructions.", model=ScriptedModel(["Hello."]), checkpointer=checkpointer)
    await agent.run("Hi.", thread_id="t")
    assert roles(await checkpointer.load("t")) == ["user", "assistant"]


async def test_a_second_turn_carries_the_thread_and_counts_only_itself() -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=2)
    model = ScriptedModel([calls(("add", {"a": 1, "b": 1})), "2", "Still 2."], usage=usage)
    agent = Agent(model=model, tools=[add], checkpointer=MemoryCheckpointer())
    first = await agent.run("1 + 1?", thread_id="t")
    second = await agent.run("And now?", thread_id="t")
    assert (first.metrics.iterations, first.metrics.tool_calls, first.metrics.total_tokens) == (2, 1, 24)
    assert (second.metrics.iterations, second.metrics.tool_calls, second.metrics.total_tokens) == (1, 0, 12)
    assert (second.state.iteration, second.state.tool_history, second.state.total_tokens) == (3, ("add",), 36)
    assert roles(second.state) == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_no_thread_id_is_a_new_thread_and_none_is_kept_without_a_checkpointer() -> None:
    agent = Agent(model=FunctionModel(lambda messages, tools=None: str(len(messages))))
    first, second = await agent.run("a"), await agent.run("b")
    assert first.thread_id != second.thread_id
    assert (first.message, second.message) == ("1", "1")
    assert await agent.get_state(first.thread_id) is None
    assert first.checkpoint_id is None


async def test_a_named_thread_is_remembered_in_the_process_without_a_checkpointer() -> None:
    agent = Agent(model=FunctionModel(lambda messages, tools=None: str(len(messages))))
    assert [(await agent.run("a", thread_id="t")).message for _ in range(3)] == ["1", "3", "5"]


async def test_unnamed_threads_are_kept_where_there_is_a_checkpointer() -> None:
    checkpointer = MemoryCheckpointer()
    agent = Agent(model=ScriptedModel(["Hello."]), checkpointer=checkpointer)
    result = await agent.run("Hi.")
    assert await checkpointer.list_threads() == [result.thread_id]


async def test_calls_of_one_step_run_side_by_side_and_are_stored_in_the_order_of_the_calls() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Wait for the other."""
        await both.wait()
        return name

    model = ScriptedModel([calls(("meet", {"name": "a"}), ("meet", {"name": "b"})), "done"])
    result = await asyncio.wait_for(Agent(model=model, tools=[meet]).run("go"), 30)
    assert [message.content for message in result.state.messages if message.role is Role.TOOL] == ["a", "b"]


async def test_all_starts_of_a_step_are_said_before_its_first_completion() -> None:
    model = ScriptedModel([calls(("add", {"a": 1, "b": 1}), ("shout", {"text": "x"})), "done"])
    events = await collect(Agent(model=model, tools=[add, shout]).run("go"))
    assert [type(event) for event in events if isinstance(event, ToolStartEvent | ToolCompleteEvent)] == [
        ToolStartEvent,
        ToolStartEvent,
        ToolCompleteEvent,
        ToolCompleteEvent,
    ]


async def test_a_tool_that_fails_becomes_a_message_and_the_turn_goes_on() -> None:
    model = ScriptedModel([calls(("explode", {})), "I could not."])
    result = await Agent(model=model, tools=[explode]).run("go")
    told = model.calls[1].messages[-1]
    assert told.role is Role.TOOL
    assert "RuntimeError: boom" in (told.content or "")
    assert (result.metrics.tool_calls, result.metrics.tool_errors) == (1, 1)
    assert not result.state.tool_executions[0].success


async def test_a_call_of_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    model = ScriptedModel([calls(("sum", {})), "ok"])
    await Agent(model=model, tools=[add, shout]).run("go")
    assert "there is no tool 'sum'; there are: add, shout" in (model.calls[1].messages[-1].content or "")


async def test_calls_with_the_same_id_or_none_are_told_apart() -> None:
    twice = Message.assistant(
        tool_calls=[
            ToolCall(id="x", name="add", arguments={"a": 1, "b": 1}),
            ToolCall(id="x", name="add", arguments={"a": 2, "b": 2}),
        ]
    )
    blank = Message.assistant(tool_calls=[ToolCall(id="", name="add", arguments={"a": 3, "b": 3})])
    agent = Agent(model=ScriptedModel([twice, blank, "ok"]), tools=[add], checkpointer=MemoryCheckpointer())
    result = await agent.run("go")
    assert_well_formed(result.state.messages)
    assert [m.content for m in result.state.messages if m.role is Role.TOOL] == ["2", "4", "6"]


# ── where a turn stops ────────────────────────────────────────────────────────────────────────────────


def _endless(messages: Any, tools: Any = None) -> Message:
    return calls(("add", {"a": len(messages), "b": 1}), text="once more")


async def test_max_iterations_ends_the_turn_and_the_next_one_starts_afresh() -> None:
    agent = Agent(
        model=FunctionModel(_endless), tools=[add], max_iterations=3, checkpointer=MemoryCheckpointer()
    )
    first = await agent.run("go", thread_id="t")
    assert (first.stop_reason, first.metrics.iterations, first.message) == ("max_iterations", 3, "once more")
    assert_well_formed(first.state.messages)
    second = await agent.run("again", thread_id="t")
    assert (second.stop_reason, second.metrics.iterations) == ("max_iterations", 3)
    assert [m.content for m in second.state.messages if m.role is Role.USER] == ["go", "again"]
    assert_well_formed(second.state.messages)


async def test_the_token_budget_counts_the_turn() -> None:
    def answer(messages: Any, tools: Any = None) -> ModelResponse:
        return ModelResponse(_endless(messages), Usage(40, 10), "tool_calls")

    agent = Agent(
        model=FunctionModel(answer), tools=[add], token_budget=120, checkpointer=MemoryCheckpointer()
    )
    for _ in range(2):
        result = await agent.run("go", thread_id="t")
        assert (result.stop_reason, result.metrics.total_tokens) == ("token_budget", 150)


async def test_the_time_budget_stops_a_model_that_does_not_answer() -> None:
    async def never(messages: Any, tools: Any = None) -> str:
        await asyncio.Event().wait()
        return "?"

    agent = Agent(model=FunctionModel(never), time_budget=0.05, checkpointer=MemoryCheckpointer())
    result = await asyncio.wait_for(agent.run("go", thread_id="t"), 30)
    assert result.stop_reason == "time_budget"
    assert roles(await agent.get_state("t")) == ["user"]


async def test_a_model_that_repeats_itself_is_warned_then_stopped() -> None:
    ran: list[str] = []

    @tool
    def poll(name: str) -> str:
        """Look again."""
        ran.append(name)
        return "nothing"

    model = FunctionModel(lambda messages, tools=None: calls(("poll", {"name": "x"})))
    result = await Agent(model=model, tools=[poll], max_repeats=3, max_iterations=50).run("go")
    assert result.stop_reason == "tool_loop"
    assert ran == ["x"] * 3
    assert "same call gave the same result 3 times" in (result.state.messages[-1].content or "")
    assert_well_formed(result.state.messages)


async def test_polling_that_brings_something_new_is_no_loop() -> None:
    ran: list[int] = []

    @tool
    def poll() -> int:
        """Look again."""
        ran.append(1)
        return len(ran)

    def answer(messages: Any, tools: Any = None) -> Message | str:
        return "done" if len(ran) == 9 else calls(("poll", {}))

    result = await Agent(model=FunctionModel(answer), tools=[poll], max_repeats=3).run("go")
    assert (result.stop_reason, len(ran)) == ("complete", 9)


async def test_an_answer_that_was_cut_says_so() -> None:
    cut = ModelResponse(Message.assistant("It all began"), finish_reason="length")
    result = await Agent(model=ScriptedModel([cut])).run("Tell me.")
    assert (result.stop_reason, result.message) == ("length", "It all began")


async def test_a_prompt_that_could_not_be_answered_in_time_is_not_followed_by_another() -> None:
    async def never(messages: Any, tools: Any = None) -> str:
        await asyncio.Event().wait()
        return "?"

    checkpointer = MemoryCheckpointer()
    agent = Agent(model=FunctionModel(never), time_budget=0.05, checkpointer=checkpointer)
    for prompt in ("one", "two"):
        result = await asyncio.wait_for(agent.run(prompt, thread_id="t"), 30)
        assert result.stop_reason == "time_budget"
    assert roles(await checkpointer.load("t")) == ["user"]


async def test_calls_of_an_answer_that_was_withheld_are_not_run() -> None:
    withheld = ModelResponse(calls(("add", {"a": 1, "b": 1}), text="..."), finish_reason="content_filter")
    result = await Agent(model=ScriptedModel([withheld]), tools=[add]).run("go")
    assert (result.stop_reason, result.metrics.tool_calls) == ("content_filter", 0)
    assert_well_formed(result.state.messages)


# ── checkpoints ───────────────────────────────────────────────────────────────────────────────────────


async def _steps(agent: Agent, thread_id: str) -> list[str]:
    page = await agent.checkpointer.history(thread_id, 100)
    return [info.metadata["step"] for info in reversed(page)]


async def test_every_step_of_a_turn_is_a_checkpoint() -> None:
    model = ScriptedModel([calls(("add", {"a": 1, "b": 1})), calls(("add", {"a": 2, "b": 1})), "3"])
    agent = Agent(model=model, tools=[add], checkpointer=MemoryCheckpointer())
    await agent.run("go", thread_id="t", metadata={"ticket": 7})
    assert await _steps(agent, "t") == ["prompt", "intent", "tools", "intent", "tools", "answer"]
    page = await agent.checkpointer.query_by_metadata("ticket", 7)
    assert len(page) == 6


async def test_thinner_checkpoints_still_store_intents_first() -> None:
    script = [calls(("add", {"a": n, "b": 1})) for n in range(4)]
    agent = Agent(
        model=ScriptedModel([*script, "done"]),
        tools=[add],
        checkpointer=MemoryCheckpointer(),
        checkpoint_every_n_iterations=3,
    )
    await agent.run("go", thread_id="t")
    assert await _steps(agent, "t") == ["prompt", "intent", "intent", "intent", "tools", "intent", "answer"]


async def test_a_thread_goes_on_in_another_agent_on_the_same_file(tmp_path: Any) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    async with Agent(model=ScriptedModel(["Noted."]), checkpointer=url) as agent:
        await agent.run("The code is 42.", thread_id="t")
    model = ScriptedModel(["42."])
    async with Agent(model=model, checkpointer=url) as agent:
        await agent.run("What is it?", thread_id="t")
    assert [message.content for message in model.calls[0].messages] == [
        "The code is 42.",
        "Noted.",
        "What is it?",
    ]


async def test_what_another_agent_saved_is_seen_by_one_that_knew_the_thread(tmp_path: Any) -> None:
    path = tmp_path / "agent.db"
    count = FunctionModel(lambda messages, tools=None: str(len(messages)))
    async with SQLiteCheckpointer(path) as one, SQLiteCheckpointer(path) as two:
        first, second = Agent(model=count, checkpointer=one), Agent(model=count, checkpointer=two)
        said = [(await agent.run("x", thread_id="t")).message for agent in (first, second, first, second)]
    assert said == ["1", "3", "5", "7"]


async def test_two_users_with_one_thread_id_are_two_threads() -> None:
    agent = Agent(
        model=FunctionModel(lambda messages, tools=None: str(len(messages))),
        checkpointer=MemoryCheckpointer(),
    )
    assert (await agent.run("a", thread_id="t", user_id="alice")).message == "1"
    assert (await agent.run("b", thread_id="t", user_id="bob")).message == "1"
    assert (await agent.run("c", thread_id="t", user_id="alice")).message == "3"
    assert await agent.get_state("t") is None
    state = await agent.get_state("t", user_id="bob")
    assert state is not None
    assert [message.content for message in state.messages] == ["b", "1"]


# ── threads: state, history, update, rewind, fork ─────────────────────────────────────────────────────


async def _three_turns() -> Agent:
    agent = Agent(
        model=FunctionModel(lambda messages, tools=None: str(len(messages))),
        checkpointer=MemoryCheckpointer(),
    )
    for prompt in ("a", "b", "c"):
        await agent.run(prompt, thread_id="t")
    return agent


async def test_the_history_has_every_state_newest_first_and_goes_on_by_cursor() -> None:
    agent = await _three_turns()
    page = await agent.get_state_history("t", 4)
    assert [len(checkpoint.state.messages) for checkpoint in page] == [6, 5, 4, 3]
    rest = await agent.get_state_history("t", 4, after=page.next)
    assert [len(checkpoint.state.messages) for checkpoint in rest] == [2, 1]
    assert rest.next is None


async def test_rewinding_goes_back_and_keeps_what_came_after_in_the_history() -> None:
    agent = await _three_turns()
    history = await agent.get_state_history("t", 10)
    await agent.rewind("t", history[4].info.checkpoint_id)
    assert (await agent.run("other", thread_id="t")).message == "3"
    everything = await agent.get_state_history("t", 20)
    assert len(everything) == 9
    with pytest.raises(InvalidInput, match="no checkpoint 'nowhere'"):
        await agent.rewind("t", "nowhere")


async def test_a_fork_goes_its_own_way() -> None:
    agent = await _three_turns()
    history = await agent.get_state_history("t", 10)
    new = await agent.fork("t", history[4].info.checkpoint_id)
    assert (await agent.run("other", thread_id=new)).message == "3"
    assert (await agent.run("d", thread_id="t")).message == "7"
    assert await agent.fork("t", new_thread_id="mine") == "mine"


async def test_a_state_is_updated_by_fields_or_by_a_function() -> None:
    agent = await _three_turns()
    await agent.update_state("t", lambda state: state.with_message(Message.system("Be brief.")))
    await agent.update_state("t", {"confidence": 0.5})
    state = await agent.get_state("t")
    assert state is not None
    assert (state.messages[-1].content, state.confidence, len(state.messages)) == ("Be brief.", 0.5, 7)
    assert (await agent.run("d", thread_id="t")).message == "8"


async def test_an_update_is_made_again_on_what_somebody_else_saved_meanwhile() -> None:
    agent = await _three_turns()
    tries: list[int] = []

    def change(state: AgentState) -> AgentState:
        tries.append(len(state.messages))
        return state.with_metadata(seen=len(state.messages))

    original = agent.checkpointer.get
    raced: list[bool] = []

    async def racing(thread_id: str, checkpoint_id: str | None = None) -> Any:
        found = await original(thread_id, checkpoint_id)
        if found is not None and not raced:
            raced.append(True)
            await agent.checkpointer.save(found.state.with_message(Message.user("!")), thread_id)
        return found

    agent.checkpointer.get = racing  # type: ignore[method-assign]  # a writer between read and save
    await agent.update_state("t", change)
    assert tries == [6, 7]


async def test_updating_or_resuming_a_thread_that_is_not_there_says_so() -> None:
    agent = await _three_turns()
    with pytest.raises(InvalidInput, match="no thread 'nope' to update"):
        await agent.update_state("nope", {"confidence": 0.5})
    with pytest.raises(InvalidInput, match="AgentState has no field 'confidenc'"):
        await agent.update_state("t", {"confidenc": 0.5})
    with pytest.raises(InvalidInput, match="no thread 'nope' to resume"):
        await agent.resume("nope")


async def test_resuming_a_thread_at_rest_gives_its_last_answer_and_does_nothing() -> None:
    agent = await _three_turns()
    before = await agent.checkpointer.list_checkpoints("t")
    result = await agent.resume("t")
    assert (result.message, result.stop_reason, result.metrics.iterations) == ("5", "complete", 1)
    assert await agent.checkpointer.list_checkpoints("t") == before


# ── confidence ────────────────────────────────────────────────────────────────────────────────────────


async def test_confidence_rises_with_successes_falls_with_failures_and_stays_in_bounds() -> None:
    steps = [calls(("add", {"a": 1, "b": n})) for n in range(12)] + [calls(("explode", {})) for _ in range(4)]
    agent = Agent(model=ScriptedModel([*steps, "done"]), tools=[add, explode], reflexion=True, max_repeats=0)
    result = await agent.run("go")
    history = result.state.confidence_history
    assert len(history) == 16
    assert list(history[:12]) == sorted(set(history[:12]))
    assert list(history[11:]) == sorted(set(history[11:]), reverse=True)
    assert all(0 <= value <= 1 for value in history)
    assert result.state.confidence == history[-1]


async def test_after_failures_the_model_gets_a_hint_that_is_not_stored() -> None:
    model = ScriptedModel([calls(("explode", {})), calls(("add", {"a": 1, "b": 1})), "done"])
    result = await Agent(model=model, tools=[add, explode], reflexion=Reflexion()).run("go")
    assert model.calls[1].messages[-1].role is Role.SYSTEM
    assert "1 of your last 1 tool calls failed (explode)" in (model.calls[1].messages[-1].content or "")
    assert model.calls[2].messages[-1].role is Role.TOOL
    assert "system" not in roles(result.state)


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────────


def test_wrong_arguments_are_named_with_the_fix() -> None:
    model = ScriptedModel([])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"modle": model}, "Agent has no argument 'modle': did you mean 'model'"),
        ({"max_iterations": 0}, "max_iterations: .*got 0 \\(int\\)"),
        ({"on_conflict": "panic"}, "on_conflict: .*got 'panic' \\(str\\)"),
        ({"model": 7}, "model must be a name such as .* got int"),
        ({"tools": [7]}, "tools\\[0\\] must be a function or a tool, got int"),
        ({"tools": [add, add]}, "there already is a tool 'add'"),
        ({"checkpointer": 7}, "checkpointer must be a URL .* got int"),
        ({"instructions": "a", "system_prompt": "b"}, "two names of the same thing"),
        ({"conversation_manager": 7}, "conversation_manager must be a WindowConversation.* got int"),
        ({"telemetry": 7}, "telemetry must be True, False or a TracerProvider, got int"),
        ({"reflexion": "yes"}, "reflexion must be True, False or a Reflexion, got str"),
    ]
    for options, message in wrong:
        with pytest.raises(InvalidInput, match=message):
            Agent(**{"model": model, **options})


def test_a_config_holds_every_argument_and_is_changed_by_further_ones() -> None:
    config = AgentConfig(model=ScriptedModel([]), instructions="old", max_iterations=3, agent_id="a")
    agent = Agent(config=config, system_prompt="new", max_iterations=4)
    assert (agent.config.prompt, agent.config.max_iterations, agent.agent_id) == ("new", 4, "a")
    assert set(AgentConfig.model_fields) >= {"model", "tools", "checkpointer", "on_conflict", "telemetry"}


@pytest.mark.parametrize("prompt", ["", "  ", 7, None, Message.assistant("x")])
async def test_a_prompt_is_text_or_a_user_message(prompt: Any) -> None:
    with pytest.raises(InvalidInput, match="prompt must"):
        await Agent(model=ScriptedModel([])).run(prompt)


async def test_an_empty_user_id_is_refused_before_anything_is_done() -> None:
    agent = Agent(model=ScriptedModel([]), checkpointer=MemoryCheckpointer())
    with pytest.raises(InvalidInput, match="user_id must not be empty"):
        await agent.run("x", user_id="")
    with pytest.raises(InvalidInput, match="user_id must not be empty"):
        await agent.get_state("x", user_id="")


async def test_a_run_is_used_once() -> None:
    run = Agent(model=ScriptedModel(["a", "b"])).run("x")
    assert (await run).message == "a"
    assert run.result is not None
    with pytest.raises(InvalidInput, match="awaited or iterated once"):
        await run


def test_think_events_number_the_iterations_of_their_turn() -> None:
    async def scenario() -> None:
        script: list[Any] = [calls(("add", {"a": 1, "b": 1})), "2", calls(("add", {"a": 1, "b": 1})), "2"]
        agent = Agent(model=ScriptedModel(script), tools=[add], checkpointer=MemoryCheckpointer())
        for _ in range(2):
            events = await collect(agent.run("go", thread_id="t"))
            assert [event.iteration for event in events if isinstance(event, ThinkEvent)] == [1, 2]

    asyncio.run(scenario())


async def test_an_agent_that_comes_to_a_long_thread_decodes_only_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [message for n in range(500) for message in (Message.user(f"q{n}"), Message.assistant(f"a{n}"))]
    async with SQLiteCheckpointer(tmp_path / "long.db") as checkpointer:
        await checkpointer.save(AgentState().with_messages(said), "t")
    decoded: list[int] = []

    def counted(texts: Sequence[str], **place: Any) -> list[Message]:
        decoded.append(len(texts))
        return decode_messages(texts, **place)

    monkeypatch.setattr(state_module, "decode_messages", counted)

    class Glancing:
        """Looks at the last message only."""

        async def complete(self, messages: Sequence[Message], *_: Any, **__: Any) -> ModelResponse:
            return ModelResponse(Message.assistant(f"to {messages[-1].content}, after {len(messages) - 1}"))

        async def stream(self, messages: Sequence[Message], *_: Any, **__: Any) -> AsyncIterator[ModelChunk]:
            yield ModelChunk(response=await self.complete(messages))

    async with SQLiteCheckpointer(tmp_path / "long.db") as checkpointer:
        result = await Agent(model=Glancing(), checkpointer=checkpointer).run("now", thread_id="t")
        assert result.message == "to now, after 1000"
        assert sum(decoded) <= 64
        monkeypatch.undo()
        state = await checkpointer.load("t")
        assert state is not None
        assert [m.content for m in state.messages] == [m.content for m in said] + ["now", result.message]

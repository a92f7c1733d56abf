"""A turn that was cut off goes on: nothing that finished is run again, nothing is lost, nothing is made up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.agent import ResumeEvent, ToolCompleteEvent
from holdfast.core.messages import Message, Role
from holdfast.core.state import AgentState
from holdfast.errors import Conflict, InvalidInput, ModelError, ModelUnavailable
from holdfast.memory.backends import MemoryCheckpointer, SQLiteCheckpointer
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing import FunctionModel, ScriptedModel
from holdfast.tools import Tool
from tests.agent.support import assert_well_formed, calls, collect, kinds, roles


class Died(BaseException):
    """The process ends here: nothing after it happens."""


class Dying(MemoryCheckpointer):
    """Stops the world just before, or just after, its n-th write."""

    def __init__(self, at: int, *, after: bool = False) -> None:
        super().__init__()
        self.at, self.after, self.writes = at, after, 0

    async def _write(self, write: Any) -> Any:
        self.writes += 1
        if self.writes == self.at and not self.after:
            raise Died
        done = await write
        if self.writes == self.at:
            raise Died
        return done

    async def save(self, *args: Any, **kwargs: Any) -> str:
        write = super().save(*args, **kwargs)
        try:
            return str(await self._write(write))
        finally:
            write.close()

    async def put_writes(self, *args: Any, **kwargs: Any) -> None:
        write = super().put_writes(*args, **kwargs)
        try:
            await self._write(write)
        finally:
            write.close()


def worker(ran: list[str]) -> tuple[Tool[..., Any], Tool[..., Any]]:
    @tool
    def pay(to: str) -> str:
        """Pay once."""
        ran.append(f"pay {to}")
        return f"paid {to}"

    @tool(idempotent=True)
    async def look(name: str) -> str:
        """Look as often as you like."""
        ran.append(f"look {name}")
        return f"saw {name}"

    return pay, look


def plan(messages: Any, tools: Any = None, **options: Any) -> Message | str:
    """Two steps, then the answer: any process can go on with it."""
    answered = sum(message.role is Role.TOOL for message in messages)
    if answered == 0:
        return calls(("pay", {"to": "a"}), ("look", {"name": "b"}))
    if answered == 2:
        return calls(("pay", {"to": "c"}))
    return "done"


WRITES = 8  # prompt, intent, two results, tools, intent, a result, tools; then the answer


@pytest.mark.parametrize("again", ["resume", "run", "another"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, WRITES + 2))
async def test_a_turn_that_dies_at_any_write_goes_on_from_there(at: int, after: bool, again: str) -> None:
    ran: list[str] = []
    checkpointer = Dying(at, after=after)
    agent = Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=checkpointer)
    with pytest.raises(Died):
        await agent.run("Pay them.", thread_id="t")
    survivor = Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=checkpointer)
    if again == "resume" and await survivor.get_state("t") is not None:
        result = await survivor.resume("t")
    else:
        result = await survivor.run("Pay them." if again != "another" else "What now?", thread_id="t")
    assert result.message == "done"
    assert_well_formed(result.state.messages)
    assert ran.count("pay a") == 1 or ("pay a" not in ran and at <= 3)  # cancelled before its thread began
    assert ran.count("pay c") <= 1
    assert ran.count("look b") <= 2
    asked = [message.content for message in result.state.messages if message.role is Role.USER]
    lost = at == 1 and not after
    answered = at == WRITES + 1 and after
    if again == "another":
        assert asked == (["What now?"] if lost else ["Pay them.", "What now?"])
    elif again == "run" and answered:  # its answer was stored: the same words are a new question
        assert asked == ["Pay them.", "Pay them."]
    else:
        assert asked == ["Pay them."]


async def _cut_in_tool(checkpointer: BaseCheckpointer, tools: list[Any], model: Any) -> None:
    """Run until the tool that blocks is inside, then kill the task as a process would end: no clean-up is seen."""
    agent = Agent(model=model, tools=tools, checkpointer=checkpointer)
    run = asyncio.ensure_future(_result(agent))
    await asyncio.wait_for(tools[0].started.wait(), 30)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def _result(agent: Agent) -> Any:
    return await agent.run("go", thread_id="t")


def blocking_tool(*, idempotent: bool) -> Any:
    started = asyncio.Event()

    @tool(idempotent=idempotent)
    async def slow(name: str) -> str:
        """Take a while, the first time."""
        if started.is_set():
            return f"did {name}"
        started.set()
        await asyncio.Event().wait()
        return "never"

    slow.started = started  # type: ignore[attr-defined]  # for the test to wait on
    return slow


async def test_a_call_in_flight_of_an_unsafe_tool_is_told_as_unknown() -> None:
    checkpointer, slow = MemoryCheckpointer(), blocking_tool(idempotent=False)
    await _cut_in_tool(checkpointer, [slow], ScriptedModel([calls(("slow", {"name": "x"}))]))
    model = ScriptedModel(["I don't know."])
    agent = Agent(model=model, tools=[slow], checkpointer=checkpointer)
    events = await collect(agent.resume("t"))
    told = model.calls[0].messages[-1]
    assert told.role is Role.TOOL
    assert "outcome of this call is unknown" in (told.content or "")
    assert kinds(events)[:2] == ["resume", "tool_complete"]
    resumed = next(event for event in events if isinstance(event, ResumeEvent))
    assert (len(resumed.unknown), resumed.finished, resumed.repeated) == (1, (), ())


async def test_a_call_in_flight_of_an_idempotent_tool_is_run_again() -> None:
    checkpointer, slow = MemoryCheckpointer(), blocking_tool(idempotent=True)
    await _cut_in_tool(checkpointer, [slow], ScriptedModel([calls(("slow", {"name": "x"}))]))
    model = ScriptedModel(["Done."])
    agent = Agent(model=model, tools=[slow], checkpointer=checkpointer)
    events = await collect(agent.resume("t"))
    assert model.calls[0].messages[-1].content == "did x"
    resumed = next(event for event in events if isinstance(event, ResumeEvent))
    assert (len(resumed.repeated), resumed.unknown) == (1, ())


async def test_a_finished_call_of_a_cut_step_keeps_its_result() -> None:
    ran: list[str] = []
    finished = asyncio.Event()
    slow = blocking_tool(idempotent=False)

    @tool
    async def quick(name: str) -> str:
        """Be done at once."""
        ran.append(name)
        return f"quick {name}"

    class Watching(MemoryCheckpointer):
        async def put_writes(self, *args: Any, **kwargs: Any) -> None:
            await super().put_writes(*args, **kwargs)
            finished.set()

    checkpointer = Watching()
    script = [calls(("slow", {"name": "x"}), ("quick", {"name": "y"}))]
    agent = Agent(model=ScriptedModel(script), tools=[slow, quick], checkpointer=checkpointer)
    run = asyncio.ensure_future(_result(agent))
    await asyncio.wait_for(finished.wait(), 30)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    model = ScriptedModel(["ok"])
    survivor = Agent(model=model, tools=[slow, quick], checkpointer=checkpointer)
    events = await collect(survivor.run("go", thread_id="t"))
    told = {message.name: message.content or "" for message in model.calls[0].messages[-2:]}
    assert told["quick"] == "quick y"
    assert "unknown" in told["slow"]
    assert ran == ["y"]
    recovered = [event.recovered for event in events if isinstance(event, ToolCompleteEvent)]
    assert recovered == [True, True]
    assert await checkpointer.get_writes("t") == []


async def test_a_tool_that_is_gone_is_not_taken_for_idempotent() -> None:
    checkpointer, slow = MemoryCheckpointer(), blocking_tool(idempotent=True)
    await _cut_in_tool(checkpointer, [slow], ScriptedModel([calls(("slow", {"name": "x"}))]))
    model = ScriptedModel(["ok"])
    await Agent(model=model, checkpointer=checkpointer).resume("t")
    assert "unknown" in (model.calls[0].messages[-1].content or "")


async def test_the_next_run_finishes_the_cut_turn_first_and_then_takes_its_own() -> None:
    checkpointer = MemoryCheckpointer()
    broken = Agent(
        model=ScriptedModel([ModelUnavailable("down")]), checkpointer=checkpointer, model_retries=0
    )
    with pytest.raises(ModelUnavailable):
        await broken.run("one", thread_id="t")
    agent = Agent(model=ScriptedModel(["first", "second"]), checkpointer=checkpointer)
    result = await agent.run("two", thread_id="t")
    assert [message.content for message in result.state.messages] == ["one", "first", "two", "second"]
    assert result.message == "second"
    assert result.metrics.iterations == 1


async def test_the_same_prompt_after_a_cut_is_the_same_request() -> None:
    checkpointer = MemoryCheckpointer()
    broken = Agent(
        model=ScriptedModel([ModelUnavailable("down")]), checkpointer=checkpointer, model_retries=0
    )
    with pytest.raises(ModelUnavailable):
        await broken.run("one", thread_id="t")
    result = await Agent(model=ScriptedModel(["first"]), checkpointer=checkpointer).run("one", thread_id="t")
    assert [message.content for message in result.state.messages] == ["one", "first"]


async def test_a_resumed_turn_keeps_its_run_id_and_its_metrics() -> None:
    ran: list[str] = []
    checkpointer = Dying(6)
    agent = Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=checkpointer)
    with pytest.raises(Died):
        await agent.run("Pay them.", thread_id="t")
    cut = await checkpointer.load("t")
    result = await Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=checkpointer).resume("t")
    assert cut is not None
    assert result.run_id == cut.run_id
    assert (result.metrics.iterations, result.metrics.tool_calls) == (3, 3)


async def test_a_thread_that_was_written_by_hand_is_answered() -> None:
    checkpointer = MemoryCheckpointer()
    await checkpointer.save(AgentState().with_message(Message.user("Hello?")), "t")
    result = await Agent(model=ScriptedModel(["Hello!"]), checkpointer=checkpointer).resume("t")
    assert roles(result.state) == ["user", "assistant"]
    assert result.metrics.iterations == 1


async def test_a_turn_that_can_not_be_finished_is_taken_back() -> None:
    checkpointer = MemoryCheckpointer()
    agent = Agent(model=ScriptedModel(["Hello.", ModelError("too long"), "Fine."]), checkpointer=checkpointer)
    await agent.run("Hi.", thread_id="t")
    with pytest.raises(ModelError):
        await agent.run("x" * 1000, thread_id="t")
    assert await agent.abandon("t") is not None
    assert await agent.abandon("t") is None
    result = await agent.run("How are you?", thread_id="t")
    assert [message.content for message in result.state.messages] == [
        "Hi.",
        "Hello.",
        "How are you?",
        "Fine.",
    ]
    with pytest.raises(InvalidInput, match="no thread 'nope'"):
        await agent.abandon("nope")


async def test_the_first_turn_of_a_thread_can_be_taken_back_with_its_open_calls() -> None:
    checkpointer, slow = MemoryCheckpointer(), blocking_tool(idempotent=False)
    await _cut_in_tool(checkpointer, [slow], ScriptedModel([calls(("slow", {"name": "x"}))]))
    agent = Agent(model=ScriptedModel(["Fine."]), tools=[slow], checkpointer=checkpointer)
    await agent.abandon("t")
    assert roles((await agent.run("Something else.", thread_id="t")).state) == ["user", "assistant"]


# ── leaving early ─────────────────────────────────────────────────────────────────────────────────────


async def test_leaving_the_loop_waits_for_tools_that_have_started_and_keeps_their_results() -> None:
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

    checkpointer = MemoryCheckpointer()
    script = ScriptedModel([calls(("first", {}), ("second", {}))])
    agent = Agent(model=script, tools=[first, second], checkpointer=checkpointer)
    run = agent.run("go", thread_id="t")
    async for event in run:
        if isinstance(event, ToolCompleteEvent):
            release.set()
            break
    await run.aclose()
    assert ran == ["second"]
    assert len(await checkpointer.get_writes("t")) == 2
    model = ScriptedModel(["done"])
    result = await Agent(model=model, tools=[first, second], checkpointer=checkpointer).resume("t")
    assert [message.content for message in result.state.messages[2:]] == ["one", "two", "done"]


async def test_leaving_while_the_model_speaks_closes_its_stream_and_stays_resumable() -> None:
    closed: list[bool] = []

    class Talking:
        async def complete(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            raise AssertionError("an iterated run streams")

        async def stream(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            from holdfast.models.base import ModelChunk

            try:
                while True:
                    yield ModelChunk("bla ")
            finally:
                closed.append(True)

    checkpointer = MemoryCheckpointer()
    run = Agent(model=Talking(), checkpointer=checkpointer).run("go", thread_id="t")
    async for event in run:
        if event.type == "model_chunk":
            break
    await run.aclose()
    assert closed == [True]
    result = await Agent(model=ScriptedModel(["ok"]), checkpointer=checkpointer).resume("t")
    assert roles(result.state) == ["user", "assistant"]


async def test_a_stream_that_breaks_off_is_asked_again_and_says_so() -> None:
    from holdfast.models.base import ModelChunk, ModelResponse

    asked: list[int] = []

    class Breaking:
        async def complete(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            raise AssertionError("an iterated run streams")

        async def stream(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            asked.append(1)
            yield ModelChunk("It ")
            if len(asked) > 1:
                yield ModelChunk("works.")
                yield ModelChunk(response=ModelResponse(Message.assistant("It works.")))

    checkpointer = MemoryCheckpointer()
    events = await collect(Agent(model=Breaking(), checkpointer=checkpointer).run("go", thread_id="t"))
    assert kinds(events) == [
        "model_chunk",
        "model_retry",
        "model_chunk",
        "model_chunk",
        "think",
        "terminate",
    ]
    assert roles(await checkpointer.load("t")) == ["user", "assistant"]


# ── without pending writes, without compare-and-set ───────────────────────────────────────────────────


class Plain(BaseCheckpointer):
    """A third party's: save, load and list, nothing else."""

    def __init__(self) -> None:
        self.saved: dict[str, list[AgentState]] = {}

    async def save(self, state: AgentState, thread_id: str, *args: Any, **kwargs: Any) -> str:
        self.saved.setdefault(thread_id, []).append(state)
        return str(len(self.saved[thread_id]))

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        return self.saved[thread_id][-1] if thread_id in self.saved else None

    async def list_checkpoints(self, thread_id: str, limit: int = 10, **kwargs: Any) -> Any:
        return [str(number) for number in range(len(self.saved.get(thread_id, [])), 0, -1)][:limit]


async def test_a_checkpointer_with_only_save_load_and_list_gets_a_checkpoint_per_finished_tool() -> None:
    ran: list[str] = []
    checkpointer = Plain()
    agent = Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=checkpointer)
    result = await agent.run("Pay them.", thread_id="t")
    assert_well_formed(result.state.messages)
    saved = [len(state.messages) for state in checkpointer.saved["t"]]
    assert saved == sorted(saved)
    assert {3, 4} <= set(saved)
    again = await agent.run("Thanks.", thread_id="t")
    assert_well_formed(again.state.messages)


async def test_a_cut_turn_on_such_a_checkpointer_runs_no_finished_tool_again() -> None:
    ran: list[str] = []

    class DyingPlain(Plain):
        async def save(self, state: AgentState, thread_id: str, *args: Any, **kwargs: Any) -> str:
            if len(self.saved.get(thread_id, [])) == 3:
                raise Died
            return await super().save(state, thread_id)

    checkpointer = DyingPlain()
    with pytest.raises(Died):
        await Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=checkpointer).run(
            "go", thread_id="t"
        )
    survivor = Plain()
    survivor.saved = checkpointer.saved
    result = await Agent(model=FunctionModel(plan), tools=worker(ran), checkpointer=survivor).resume("t")
    assert result.message == "done"
    assert_well_formed(result.state.messages)
    assert ran.count("pay a") <= 1


# ── somebody else moves the thread ────────────────────────────────────────────────────────────────────


async def _overtaken(policy: Any, checkpointer: BaseCheckpointer) -> tuple[Agent, Any]:
    """Agent one is inside its first tool when agent two resumes the thread and finishes the turn."""
    inside, release = asyncio.Event(), asyncio.Event()
    later: list[str] = []

    @tool
    async def work() -> str:
        """Work until released."""
        inside.set()
        await release.wait()
        return "worked"

    @tool
    async def next_step() -> str:
        """What would come after it."""
        later.append("ran")
        return "next"

    script = ScriptedModel([calls(("work", {})), calls(("next_step", {})), "one is done"])
    one = Agent(
        model=script,
        tools=[work, next_step],
        checkpointer=checkpointer,
        on_conflict=policy,
        conflict_patience=0,
    )
    running = asyncio.ensure_future(_result(one))
    await asyncio.wait_for(inside.wait(), 30)
    two = Agent(model=ScriptedModel(["two took over"]), tools=[work, next_step], checkpointer=checkpointer)
    assert (await two.resume("t")).message == "two took over"
    release.set()
    outcome = (await asyncio.gather(running, return_exceptions=True))[0]
    return one, (outcome, later)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_that_was_overtaken_gets_conflict_before_its_next_tool(kind: str, tmp_path: Path) -> None:
    made = MemoryCheckpointer() if kind == "memory" else SQLiteCheckpointer(tmp_path / "a.db")
    async with made as checkpointer:
        one, (outcome, later) = await _overtaken("raise", checkpointer)
        assert isinstance(outcome, Conflict)
        assert later == []
        for info in await checkpointer.history("t", 100):
            assert await checkpointer.get_writes("t", info.checkpoint_id) == []
        state = await one.get_state("t")
        assert state is not None
        assert_well_formed(state.messages)


async def test_with_retry_an_overtaken_run_gives_the_answer_that_the_other_one_stored() -> None:
    _, (outcome, later) = await _overtaken("retry", MemoryCheckpointer())
    assert outcome.message == "two took over"
    assert later == []


async def test_with_fork_an_overtaken_run_goes_on_in_a_thread_of_its_own() -> None:
    checkpointer = MemoryCheckpointer()
    one, (outcome, later) = await _overtaken("fork", checkpointer)
    assert outcome.message == "one is done"
    assert outcome.thread_id != "t"
    assert later == ["ran"]
    for thread_id in ("t", outcome.thread_id):
        state = await one.get_state(thread_id)
        assert state is not None
        assert_well_formed(state.messages)
    mine = await one.get_state(outcome.thread_id)
    assert mine is not None
    assert [message.content for message in mine.messages if message.role is Role.TOOL] == ["worked", "next"]


async def test_a_prompt_that_lost_the_race_is_asked_on_the_new_head_with_retry() -> None:
    class Racing(MemoryCheckpointer):
        raced = False

        async def save(self, *args: Any, **kwargs: Any) -> str:
            if not self.raced:
                self.raced = True
                other = Agent(model=ScriptedModel(["theirs"]), checkpointer=self)
                await other.run("first", thread_id="t")
            return await super().save(*args, **kwargs)

    checkpointer = Racing()
    agent = Agent(model=ScriptedModel(["mine"]), checkpointer=checkpointer, on_conflict="retry")
    result = await agent.run("second", thread_id="t")
    assert [message.content for message in result.state.messages] == ["first", "theirs", "second", "mine"]


async def test_deleting_the_thread_under_a_run_is_a_conflict_and_does_not_bring_it_back() -> None:
    checkpointer = MemoryCheckpointer()

    @tool
    async def vanish() -> str:
        """Delete this very thread."""
        await checkpointer.delete("t")
        return "gone"

    agent = Agent(
        model=ScriptedModel([calls(("vanish", {})), "?"]), tools=[vanish], checkpointer=checkpointer
    )
    with pytest.raises(Conflict):
        await agent.run("go", thread_id="t")
    assert not await checkpointer.exists("t")

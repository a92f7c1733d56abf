"""An agent with a long-term memory: what users said comes back in other threads, as facts and as episodes."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent
from holdfast.core.messages import Role
from holdfast.errors import InvalidInput, ModelUnavailable
from holdfast.memory import AgentMemory, Episode, LazyMemory, resolve_memory
from holdfast.memory.learning import Learner
from holdfast.memory.store import InMemoryStore
from holdfast.testing import FunctionModel, ScriptedModel
from tests.agent.support import assert_well_formed, calls


def shown(model: ScriptedModel, call: int = -1) -> str:
    return model.calls[call].messages[-1].content or ""


async def test_what_a_user_said_is_recalled_in_another_thread_by_the_question(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'bot.db'}"
    async with Agent("Help.", model=ScriptedModel(["Nice!"]), memory=url) as agent:
        await agent.run("My dog Biscuit ate my passport. I live in Lisbon.", user_id="alice", thread_id="a")
    model = ScriptedModel(["Biscuit did."])
    async with Agent("Help.", model=model, memory=url) as agent:
        await agent.run("Who ate my passport?", user_id="alice", thread_id="b")
        assert agent.memory is not None
        assert agent.memory.facts is not None
        (fact,) = await agent.memory.facts.query(predicate="lives_in", user_id="alice")
        assert (fact.object, len(fact.sources)) == ("Lisbon", 1)
    assert "user: My dog Biscuit ate my passport." in shown(model)
    assert shown(model).endswith("Who ate my passport?")


async def test_a_memory_by_url_keeps_the_threads_too(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'bot.db'}"
    async with Agent(model=ScriptedModel(["Hello."]), memory=url) as agent:
        result = await agent.run("Hi.", user_id="alice")
    async with Agent(model=ScriptedModel([]), memory=url) as agent:
        state = await agent.get_state(result.thread_id, user_id="alice")
        assert state is not None
        assert [message.content for message in state.messages] == ["Hi.", "Hello."]


async def test_users_never_see_each_other() -> None:
    model = ScriptedModel(["ok", "?", "Tokyo"])
    async with Agent(model=model, memory="inmemory") as agent:
        await agent.run("Hi, I'm Alice and I live in Tokyo.", user_id="alice")
        await agent.run("Where do I live?", user_id="bob")
        await agent.run("Where do I live?", user_id="alice")
    assert "Tokyo" not in shown(model, 1)
    assert "user lives in Tokyo" in shown(model, 2)


async def test_what_is_recalled_is_not_stored_and_not_learned_again() -> None:
    model = ScriptedModel(["ok", "figs", "figs"])
    async with Agent(model=model, memory="inmemory") as agent:
        await agent.run("I like figs.", user_id="alice", thread_id="a")
        for _ in range(2):
            result = await agent.run("What do I like?", user_id="alice", thread_id="b")
        assert not any("<remembered>" in (message.content or "") for message in result.state.messages)
        assert agent.memory is not None
        profile = await agent.memory.profile(user_id="alice")
        assert [(fact.predicate, fact.object) for fact in profile.facts] == [("likes", "figs")]


async def test_the_turns_of_this_very_thread_are_not_shown_twice() -> None:
    model = ScriptedModel(["ok", "ok"])
    async with Agent(model=model, memory="inmemory", extract_facts=False) as agent:
        await agent.run("The password rule is about llamas.", thread_id="a")
        await agent.run("What was the rule about llamas?", thread_id="a")
    assert "<remembered>" not in shown(model)


async def test_working_blocks_are_always_shown() -> None:
    model = ScriptedModel(["ok"])
    async with Agent(model=model, memory="inmemory") as agent:
        assert agent.memory is not None
        await agent.memory.update_block("goals", "Run a marathon.", user_id="alice")
        await agent.run("Something else entirely.", user_id="alice")
    assert "goals: Run a marathon." in shown(model)


async def test_the_model_can_remember_recall_and_forget_by_itself() -> None:
    steps: list[Any] = [
        calls(("remember", {"note": "I live in Porto."})),
        calls(("recall", {"question": "Porto"})),
        "Kept.",
        calls(("forget", {"subject": "user", "predicate": "lives_in", "object": "Porto"})),
        "Gone.",
    ]
    async with Agent(model=ScriptedModel(steps), memory="inmemory") as agent:
        first = await agent.run("Note that.", user_id="alice", thread_id="a")
        told = [message.content or "" for message in first.state.messages if message.role is Role.TOOL]
        assert told[0] == "Kept."
        assert "note: I live in Porto." in told[1]
        second = await agent.run("That was wrong.", user_id="alice", thread_id="a")
        assert "1 marked as wrong." in (second.state.messages[-2].content or "")
        assert_well_formed(second.state.messages)
        assert agent.memory is not None
        assert agent.memory.facts is not None
        assert await agent.memory.facts.query(predicate="lives_in", user_id="alice") == []
        assert len(await agent.memory.facts.history("user", "lives_in", user_id="alice")) == 1


async def test_memory_tools_can_be_left_out_and_a_secret_is_not_kept_by_them() -> None:
    model = ScriptedModel([calls(("remember", {"note": "The password is hunter2!"})), "ok"])
    async with Agent(model=model, memory="inmemory") as agent:
        result = await agent.run("Note that.")
    assert "Not kept" in (result.state.messages[2].content or "")
    bare = ScriptedModel(["ok"])
    async with Agent(model=bare, memory="inmemory", memory_tools=False) as agent:
        await agent.run("Hi.")
    assert bare.calls[0].tools == ()


# ── learning in the background ────────────────────────────────────────────────────────────────────────


class Vendor(FunctionModel):
    """As if it were a vendor's: it is asked to find facts."""

    provider = "openai"


def stating(*facts: tuple[str, str, str]) -> Any:
    def answer(messages: Any, tools: Any = None, **options: Any) -> str:
        if "response_schema" not in options:
            return "ok"
        stated = [{"subject": s, "predicate": p, "object": o} for s, p, o in facts]
        return f"Here you are:\n```json\n{json.dumps({'facts': stated})}\n```"

    return answer


async def test_a_vendors_model_finds_the_facts_and_is_shown_what_is_known() -> None:
    model = Vendor(stating(("user", "has_pet", "Biscuit"), ("user", "password", "is hunter2-x9")))
    memory = AgentMemory(InMemoryStore())
    async with Agent(model=model, memory=memory) as agent:
        await agent.run("We got a puppy, Biscuit is its name.", user_id="alice")
        await agent.run("Biscuit chewed the sofa to pieces.", user_id="alice")
    facts = (await memory.profile(user_id="alice")).facts
    assert [(fact.predicate, fact.object, len(fact.sources)) for fact in facts] == [("has_pet", "Biscuit", 2)]
    asked = [call for call in model.calls if "response_schema" in call.options]
    assert len(asked) == 2
    assert "user has_pet Biscuit" in (asked[1].messages[-1].content or "")


async def test_a_model_that_is_down_leaves_the_episode_to_be_learned_from_later(tmp_path: Path) -> None:
    down = [True]

    def answer(messages: Any, tools: Any = None, **options: Any) -> str:
        if "response_schema" in options and down[0]:
            raise ModelUnavailable("overloaded")
        return str(stating(("user", "likes", "chess"))(messages, tools, **options))

    memory = AgentMemory(InMemoryStore())
    agent = Agent(model=Vendor(answer), memory=memory)
    await agent.run("I like chess.", user_id="alice")
    await agent.aclose()
    assert (await memory.profile(user_id="alice")).facts == ()
    down[0] = False

    class Later:
        def now_us(self) -> int:
            import time

            return time.time_ns() // 1000 + 3_600_000_000

    assert await Learner(memory, Vendor(answer), clock=Later()).catch_up("alice") == 1
    assert [fact.object for fact in (await memory.profile(user_id="alice")).facts] == ["chess"]


async def test_what_a_dead_process_left_to_learn_is_learned_by_the_next_run() -> None:
    memory = AgentMemory(InMemoryStore())
    await memory.remember_all(
        [Episode(text="I live in Oslo.", session_id="old")], user_id="alice", learn=True
    )
    async with Agent(model=ScriptedModel(["ok"]), memory=memory) as agent:
        await agent.run("Hello there.", user_id="alice")
    assert [fact.object for fact in (await memory.profile(user_id="alice")).facts] == ["Oslo"]


async def test_forgetting_while_a_fact_is_being_found_leaves_nothing_behind() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer(messages: Any, tools: Any = None, **options: Any) -> str:
        if "response_schema" in options:
            asked.set()
            await go_on.wait()
        return str(stating(("user", "likes", "chess"))(messages, tools, **options))

    memory = AgentMemory(InMemoryStore())
    agent = Agent(model=Vendor(answer), memory=memory)
    await agent.run("I like chess.", user_id="alice")
    await asyncio.wait_for(asked.wait(), 30)
    assert (await memory.forget(user_id="alice")).complete
    go_on.set()
    await agent.aclose()
    assert [item async for item in memory.store.iterate(("memory",), prefix=True)] == []


async def test_the_next_run_of_a_user_waits_for_what_was_said_a_moment_ago() -> None:
    started = asyncio.Event()

    async def answer(messages: Any, tools: Any = None, **options: Any) -> str:
        if "response_schema" in options:
            started.set()
            await asyncio.sleep(0)
            return str(stating(("user", "lives_in", "Lima"))(messages, tools, **options))
        return messages[-1].content or ""

    async with Agent(model=Vendor(answer), memory="inmemory") as agent:
        await agent.run("I live in Lima.", user_id="alice", thread_id="a")
        result = await agent.run("Where do I live?", user_id="alice", thread_id="b")
    assert started.is_set()
    assert "user lives in Lima" in result.message


def test_facts_of_blocking_runs_are_there_after_close() -> None:
    memory = AgentMemory(InMemoryStore())
    agent = Agent(model=ScriptedModel(["ok"]), memory=memory)
    agent.run_sync("I live in Quito.", user_id="alice")
    agent.close()
    profile = asyncio.run(memory.profile(user_id="alice"))
    assert [fact.object for fact in profile.facts] == ["Quito"]


# ── which memory is meant ─────────────────────────────────────────────────────────────────────────────


def test_a_memory_is_named_by_a_url_by_a_dict_or_given(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    own = AgentMemory(InMemoryStore())
    assert resolve_memory(own) is own
    assert isinstance(resolve_memory("inmemory"), LazyMemory)
    for spec in (f"sqlite:{path}", {"backend": "sqlite", "path": str(path)}, {"url": f"sqlite:{path}"}):
        assert isinstance(resolve_memory(spec), LazyMemory)
    assert not path.exists()
    assert resolve_memory({"backend": "inmemory", "with_facts": False}).facts is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"bakend": "sqlite"}, "unknown key 'bakend': did you mean 'backend'"),
        ({"namespace": "x"}, "needs 'backend'"),
        ({"backend": "sqlite", "path": "a", "url": "b"}, "both 'path' and 'url'"),
        (7, "memory must be a URL .* got int"),
        ("ftp://me:secret@host/x", r"can't tell the database from 'ftp://\*\*\*@host/x'"),
    ],
)
def test_a_memory_that_can_not_be_meant_is_refused_without_its_password(spec: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        resolve_memory(spec)


def test_memory_and_memory_manager_are_not_both_given() -> None:
    from holdfast.memory.manager import LLMMemoryManager

    with pytest.raises(InvalidInput, match="two kinds of memory"):
        Agent(model=ScriptedModel([]), memory="inmemory", memory_manager=LLMMemoryManager(InMemoryStore()))

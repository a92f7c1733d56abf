"""Memories that follow their thread: rewound or forked, it takes along what was learned, and nothing else."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, connect
from holdfast.core.state import AgentState
from holdfast.errors import InvalidInput, Unavailable
from holdfast.memory import AgentMemory, Episode, Fact
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.memory.checkpointer import CheckpointerCapabilities
from holdfast.memory.embedder import HashEmbedder
from holdfast.memory.embedder.base import store_options
from holdfast.memory.manager import LLMMemoryManager
from holdfast.memory.store import InMemoryStore
from holdfast.testing import FunctionModel, ScriptedModel
from tests.agent.support import calls

ALICE = "alice"


class Stage:
    """One user's threads and memories, and an agent with whom memory follows the thread."""

    def __init__(self, replies: Sequence[Any] = (), *, user: str | None = ALICE, **options: Any) -> None:
        self.user = user
        self.threads = MemoryCheckpointer()
        self.memory = options.pop("memory", None) or AgentMemory(InMemoryStore(), self.threads)
        self.model = options.pop("model", None) or ScriptedModel([*replies, *["ok"] * 50])
        self.agent = self.new_agent(**options)

    def new_agent(self, **options: Any) -> Agent:
        options = {"memory_follows_thread": True, "checkpointer": self.threads, **options}
        return Agent(model=self.model, memory=self.memory, **options)

    async def say(self, text: str, thread_id: str = "t", agent: Agent | None = None) -> str:
        """Returns where the thread stands afterwards."""
        used = agent or self.agent
        result = await used.run(text, thread_id=thread_id, user_id=self.user)
        learner = used._memories.learner
        if learner is not None:
            await learner.drain()
        assert result.checkpoint_id is not None
        return result.checkpoint_id

    async def known(self, **when: Any) -> list[str]:
        assert self.memory.facts is not None
        return sorted(
            f"{f.predicate} {f.object}" for f in await self.memory.facts.query(user_id=self.user, **when)
        )

    async def said(self, thread_id: str = "t") -> list[str]:
        found = await self.memory.session_messages(thread_id, user_id=self.user)
        return [episode.text for episode in found if episode.speaker == "user"]

    async def shown(self, question: str, thread_id: str) -> str:
        """What the model is shown when it is asked that there."""
        await self.say(question, thread_id)
        return self.model.calls[-1].messages[-1].content or ""

    async def rewind(self, checkpoint_id: str, thread_id: str = "t") -> str:
        return await self.agent.rewind(thread_id, checkpoint_id, user_id=self.user)


async def test_rewinding_takes_what_was_learned_after_that_point_and_leaves_the_rest() -> None:
    stage = Stage()
    await stage.say("I like chess.", "other")
    here = await stage.say("I live in Oslo.")
    await stage.say("I live in Lima. I like figs. I like chess.")
    before = datetime.now(UTC)
    assert await stage.known() == ["likes chess", "likes figs", "lives_in Lima"]
    await stage.rewind(here)
    assert await stage.known() == ["likes chess", "lives_in Oslo"]
    assert await stage.known(known_at=before, valid_at=before) == [
        "likes chess",
        "likes figs",
        "lives_in Lima",
    ]
    assert await stage.said() == ["I live in Oslo."]
    shown = await stage.shown("Do I like figs, or do I live in Lima or Oslo?", "new")
    assert "figs" not in shown.split("</remembered>")[0]
    assert "lives in Oslo" in shown


async def test_a_fact_that_was_rewound_says_so_in_its_history() -> None:
    stage = Stage()
    here = await stage.say("Hello there.")
    await stage.say("I live in Lima.")
    assert stage.memory.facts is not None
    (fact,) = await stage.memory.facts.query(user_id=ALICE)
    await stage.rewind(here)
    added, retracted = await stage.memory.facts.blame(fact.id, user_id=ALICE)
    assert (retracted.kind, retracted.author, added.checkpoint is not None) == ("retract", "rewind", True)
    await stage.memory.facts.undo(retracted.id, user_id=ALICE)
    assert await stage.known() == ["lives_in Lima"]


async def test_going_forward_again_brings_the_memories_back_as_often_as_one_likes() -> None:
    stage = Stage()
    early = await stage.say("I live in Oslo.")
    late = await stage.say("I live in Lima.")
    for _ in range(3):
        await stage.rewind(early)
        assert (await stage.known(), await stage.said()) == (["lives_in Oslo"], ["I live in Oslo."])
        await stage.rewind(late)
        assert (await stage.known(), await stage.said()) == (
            ["lives_in Lima"],
            ["I live in Oslo.", "I live in Lima."],
        )
    await stage.rewind(early)
    await stage.say("I live in Bern.")
    assert (await stage.known(), await stage.said()) == (
        ["lives_in Bern"],
        ["I live in Oslo.", "I live in Bern."],
    )
    await stage.rewind(late)
    assert await stage.known() == ["lives_in Lima"]


async def test_without_the_option_memories_are_the_users_and_stay() -> None:
    stage = Stage(memory_follows_thread=False)
    here = await stage.say("I live in Oslo.")
    await stage.say("I live in Lima.")
    await stage.rewind(here)
    assert await stage.known() == ["lives_in Lima"]
    await stage.agent.fork("t", here, "fork", user_id=ALICE)
    assert "Lima" in await stage.shown("Where do I live?", "fork")


@pytest.mark.parametrize("embedder", [None, HashEmbedder(64)])
async def test_it_is_the_same_in_a_file_and_with_vectors(
    embedder: HashEmbedder | None, tmp_path: Path
) -> None:
    options = {} if embedder is None else store_options(embedder)
    async with connect(f"sqlite:{tmp_path / 'bot.db'}", **options) as connection:
        memory = AgentMemory(connection.store, connection.checkpointer, embedder=embedder)
        stage = Stage(memory=memory, checkpointer=None)
        early = await stage.say("I live in Oslo.")
        late = await stage.say("I like figs.")
        await stage.agent.fork("t", None, "fork", user_id=ALICE)
        await stage.rewind(early)
        question = "Do I like figs?"
        assert "likes figs" in await stage.shown(question, "fork")
        assert "likes figs" not in await stage.shown(question, "t")
        await connection.checkpointer.scoped(ALICE).delete("fork")
        await stage.rewind(early)
        assert (await stage.known(), await stage.said()) == (["lives_in Oslo"], ["I live in Oslo."])
        await stage.rewind(late)
        assert await stage.known() == ["likes figs", "lives_in Oslo"]
        assert "I like figs." in [e.text for e in await memory.recall("figs", user_id=ALICE)]


# ── forks ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_fork_sees_what_was_learned_up_to_it_and_the_branches_do_not_see_each_other() -> None:
    stage = Stage()
    here = await stage.say("I live in Oslo.")
    await stage.say("I like figs.")
    await stage.agent.fork("t", here, "fork", user_id=ALICE)
    await stage.say("I like tea.", "fork")
    in_fork = await stage.shown("Do I like figs or tea, and do I live in Oslo?", "fork")
    in_thread = await stage.shown("Do I like figs or tea, and do I live in Oslo?", "t")
    elsewhere = await stage.shown("Do I like figs or tea, and do I live in Oslo?", "new")
    assert [f"user likes {it}" in in_fork for it in ("figs", "tea")] == [False, True]
    assert [f"user likes {it}" in in_thread for it in ("figs", "tea")] == [True, False]
    assert [f"user likes {it}" in elsewhere for it in ("figs", "tea")] == [True, True]
    assert all("lives in Oslo" in shown for shown in (in_fork, in_thread, elsewhere))
    assert "user: I like figs." not in in_fork
    assert "user: I like tea." not in in_thread


async def test_rewinding_a_thread_leaves_what_a_fork_has_inherited_to_the_fork() -> None:
    stage = Stage()
    early = await stage.say("I live in Oslo.")
    await stage.say("I like figs.")
    await stage.agent.fork("t", None, "fork", user_id=ALICE)
    await stage.rewind(early)
    question = "Do I like figs?"
    assert "likes figs" in await stage.shown(question, "fork")
    assert "likes figs" not in await stage.shown(question, "t")
    await stage.threads.scoped(ALICE).delete("fork")
    await stage.rewind(early)
    assert await stage.known() == ["lives_in Oslo"]


async def test_what_no_branch_has_any_more_is_gone_for_all_and_comes_back_with_any_of_them() -> None:
    stage = Stage()
    early = await stage.say("I live in Oslo.")
    late = await stage.say("I like figs.")
    await stage.agent.fork("t", None, "fork", user_id=ALICE)
    await stage.rewind(early)
    assert await stage.known() == ["likes figs", "lives_in Oslo"]
    await stage.rewind(early, "fork")
    assert await stage.known() == ["lives_in Oslo"]
    await stage.rewind(late, "fork")
    assert await stage.known() == ["likes figs", "lives_in Oslo"]
    assert "likes figs" not in await stage.shown("Do I like figs?", "t")
    assert "likes figs" in await stage.shown("Do I like figs?", "fork")


async def test_a_fork_that_is_rewound_to_before_it_was_forked_leaves_the_original_alone() -> None:
    stage = Stage()
    early = await stage.say("I live in Oslo.")
    await stage.say("I like figs.")
    await stage.agent.fork("t", None, "fork", user_id=ALICE)
    await stage.say("I like tea.", "fork")
    await stage.rewind(early, "fork")
    assert await stage.known() == ["likes figs", "lives_in Oslo"]
    question = "Do I like figs or tea?"
    in_fork = await stage.shown(question, "fork")
    assert "likes figs" not in in_fork
    assert "likes tea" not in in_fork
    assert "likes figs" in await stage.shown(question, "t")


async def test_a_fork_from_where_the_thread_no_longer_is_gets_what_was_learned_there() -> None:
    stage = Stage()
    early = await stage.say("I live in Oslo.")
    late = await stage.say("I like figs.")
    await stage.rewind(early)
    await stage.agent.fork("t", late, "fork", user_id=ALICE)
    assert "likes figs" in await stage.shown("Do I like figs?", "fork")
    assert "likes figs" not in await stage.shown("Do I like figs?", "t")


async def test_a_fork_that_is_refused_leaves_nothing_behind() -> None:
    stage = Stage()
    await stage.say("I like figs.")
    await stage.say("I like tea.", "u")
    with pytest.raises(Exception, match="exists"):
        await stage.agent.fork("t", None, "u", user_id=ALICE)
    assert "likes figs" in await stage.shown("Do I like figs?", "u")


async def test_a_fork_of_a_fork_has_the_whole_past() -> None:
    stage = Stage()
    await stage.say("I live in Oslo.")
    await stage.agent.fork("t", None, "child", user_id=ALICE)
    await stage.say("I like figs.")
    here = await stage.say("I like tea.", "child")
    await stage.say("I like rice.", "child")
    await stage.agent.fork("child", here, "grandchild", user_id=ALICE)
    shown = await stage.shown("Do I like figs, tea or rice? Do I live in Oslo?", "grandchild")
    assert [word in shown.split("</remembered>")[0] for word in ("figs", "tea", "rice", "Oslo")] == [
        False,
        True,
        False,
        True,
    ]


# ── what else a turn leaves in the memory ─────────────────────────────────────────────────────────


async def test_notes_and_corrections_of_the_model_go_back_with_the_thread() -> None:
    stage = Stage(
        [
            "ok",
            calls(
                ("forget", {"subject": "user", "predicate": "likes", "object": "figs"}),
                ("remember", {"note": "I live in Rome."}),
            ),
            "Noted.",
        ]
    )
    here = await stage.say("I like figs.")
    late = await stage.say("Not any more.")
    assert await stage.known() == ["lives_in Rome"]
    await stage.rewind(here)
    assert await stage.known() == ["likes figs"]
    await stage.rewind(late)
    assert await stage.known() == ["lives_in Rome"]


async def test_an_update_to_what_the_thread_was_takes_the_memories_along() -> None:
    stage = Stage()
    here = await stage.say("I live in Oslo.")
    await stage.say("I like figs.")
    old = await stage.agent.get_state("t", here, user_id=ALICE)
    assert old is not None
    await stage.agent.update_state("t", lambda _: old, user_id=ALICE)
    assert (await stage.known(), await stage.said()) == (["lives_in Oslo"], ["I live in Oslo."])
    await stage.agent.update_state("t", lambda s: s.with_metadata({"x": 1}), user_id=ALICE)
    assert await stage.known() == ["lives_in Oslo"]


async def test_users_with_threads_of_the_same_name_do_not_touch_each_other() -> None:
    stage = Stage()
    points: dict[str | None, str] = {}
    for stage.user in (ALICE, "bob", None):
        points[stage.user] = await stage.say("I live in Oslo.")
        await stage.say("I like figs.")
    stage.user = "bob"
    await stage.rewind(points["bob"])
    await stage.agent.fork("t", None, "fork", user_id="bob")
    assert await stage.known() == ["lives_in Oslo"]
    for stage.user in (ALICE, None):
        assert await stage.known() == ["likes figs", "lives_in Oslo"]
        assert await stage.said() == ["I live in Oslo.", "I like figs."]


async def test_what_was_put_aside_is_exported_and_forgotten_with_the_rest() -> None:
    stage = Stage()
    here = await stage.say("I live in Oslo.")
    await stage.say("My word is zyxwomble. I like figs.")
    await stage.rewind(here)
    assert "zyxwomble" in "".join([line async for line in stage.memory.export(user_id=ALICE)])
    receipt = await stage.memory.forget(user_id=ALICE, session_id="t")
    assert receipt.complete
    assert receipt.removed["episodes"] == 4
    left = [item async for item in stage.memory.store.iterate(("memory",), prefix=True)]
    assert "zyxwomble" not in repr(left)
    assert "figs" not in repr(left)


# ── moments in between ────────────────────────────────────────────────────────────────────────────


class Vendor(FunctionModel):
    """As if it were a vendor's: it is asked to find facts."""

    provider = "openai"


@pytest.mark.parametrize("again", [False, True])
async def test_a_fact_that_is_still_being_found_when_its_thread_is_rewound_does_not_stay(again: bool) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer(messages: Any, tools: Any = None, **options: Any) -> str:
        if "response_schema" not in options:
            return "ok"
        asked.set()
        await go_on.wait()
        return json.dumps({"facts": [{"predicate": "likes", "object": "figs"}]})

    stage = Stage(model=Vendor(answer))
    first = await stage.agent.run("Hello!", thread_id="t", user_id=ALICE)
    last = await stage.agent.run("I like figs.", thread_id="t", user_id=ALICE)
    await asyncio.wait_for(asked.wait(), 30)
    assert first.checkpoint_id is not None
    assert last.checkpoint_id is not None
    await stage.rewind(first.checkpoint_id)
    go_on.set()
    if again:
        await stage.rewind(last.checkpoint_id)
    await stage.agent.aclose()
    await stage.agent.catch_up()
    assert await stage.known() == (["likes figs"] if again else [])


async def test_a_turn_that_is_learned_after_its_thread_was_rewound_does_not_stay() -> None:
    class Slow(AgentMemory):
        before: Any = None

        async def remember_all(self, *args: Any, **options: Any) -> list[Episode]:
            if self.before is not None:
                before, self.before = self.before, None
                await before()
            return await super().remember_all(*args, **options)

    memory = Slow(InMemoryStore())
    stage = Stage(memory=memory)
    here = await stage.say("I live in Oslo.")
    other = stage.new_agent()

    async def rewind() -> None:
        await other.rewind("t", here, user_id=ALICE)

    memory.before = rewind
    await stage.say("I like figs.")
    assert (await stage.known(), await stage.said()) == (["lives_in Oslo"], ["I live in Oslo."])


async def test_an_outage_while_the_memories_follow_is_made_good_by_the_next_run() -> None:
    class Down(InMemoryStore):
        down = False

        async def put(self, *args: Any, **options: Any) -> int:
            if self.down:
                raise Unavailable("no answer")
            return await super().put(*args, **options)

    store = Down()
    stage = Stage(memory=AgentMemory(store))
    here = await stage.say("I live in Oslo.")
    await stage.say("I like figs.")
    store.down = True
    await stage.rewind(here)
    store.down = False
    assert await stage.known() == ["likes figs", "lives_in Oslo"]
    await stage.agent.resume("t", user_id=ALICE)
    assert await stage.known() == ["lives_in Oslo"]
    strict = stage.new_agent(on_memory_error="raise")
    await stage.say("I like tea.", agent=strict)
    store.down = True
    with pytest.raises(Unavailable):
        await strict.rewind("t", here, user_id=ALICE)


async def test_a_conflict_that_forks_makes_a_branch() -> None:
    stage = Stage(on_conflict="fork")
    await stage.say("I live in Oslo.")

    async def answer(messages: Any, tools: Any = None, **options: Any) -> str:
        await stage.threads.scoped(ALICE).save(AgentState(), "t")
        return "ok"

    forking = Agent(
        model=FunctionModel(answer),
        memory=stage.memory,
        checkpointer=stage.threads,
        memory_follows_thread=True,
        on_conflict="fork",
    )
    result = await forking.run("I like figs.", thread_id="t", user_id=ALICE)
    await forking.aclose()
    assert result.thread_id != "t"
    assert "likes figs" not in await stage.shown("Do I like figs?", "t")
    assert "likes figs" in await stage.shown("Do I like figs?", result.thread_id)


# ── what it needs ─────────────────────────────────────────────────────────────────────────────────


class Plain(MemoryCheckpointer):
    """One that can't compare and set."""

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return replace(super().capabilities, compare_and_set=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs memory="),
        ({"memory_manager": LLMMemoryManager(InMemoryStore())}, "needs memory="),
        ({"memory": AgentMemory(InMemoryStore())}, "needs checkpointer="),
        ({"memory": "inmemory", "checkpointer": Plain()}, "which Plain does not declare"),
    ],
)
def test_what_it_can_not_work_with_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Agent(model=ScriptedModel([]), memory_follows_thread=True, **options)


async def test_a_memory_with_threads_of_its_own_keeps_those_of_the_agent() -> None:
    threads = MemoryCheckpointer()
    memory = AgentMemory(InMemoryStore(), threads)
    agent = Agent(model=ScriptedModel(["ok"]), memory=memory, memory_follows_thread=True)
    assert agent.checkpointer is threads
    by_url = Agent(model=ScriptedModel(["ok"]), memory="inmemory", memory_follows_thread=True)
    await by_url.aclose()


async def test_facts_that_nobody_said_in_a_thread_are_left_alone() -> None:
    stage = Stage()
    here = await stage.say("Hello there.")
    assert stage.memory.facts is not None
    await stage.memory.facts.add(Fact("user", "likes", "rice"), user_id=ALICE)
    await stage.memory.update_block("goals", "Run.", user_id=ALICE)
    await stage.say("I like figs.")
    await stage.rewind(here)
    assert await stage.known() == ["likes rice"]
    assert await stage.memory.working(user_id=ALICE) == {"goals": "Run."}

"""Random turns, rewinds and forks: each thread sees what was said on its way, and of other families all that some
thread of theirs still has."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import Agent
from holdfast.memory import AgentMemory
from holdfast.memory.backends import MemoryCheckpointer
from holdfast.memory.store import InMemoryStore
from holdfast.testing import FunctionModel

Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "rewind", "rewind", "fork"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class Path:
    """A thread as it should be: where it stands, and what had been said at each of its checkpoints."""

    family: int
    at: str = ""
    said: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def now(self) -> frozenset[str]:
        return self.said.get(self.at, frozenset())


class World:
    """Two families of threads, and what they should see."""

    def __init__(self) -> None:
        self.threads = MemoryCheckpointer()
        self.memory = AgentMemory(InMemoryStore(), self.threads)
        self.agent = Agent(
            model=FunctionModel(lambda *_, **__: "ok"), memory=self.memory, memory_follows_thread=True
        )
        self.paths = {"a": Path(0), "b": Path(1)}
        self.count = 0

    async def take(self, step: Step) -> None:
        what, thread, point = step
        name = sorted(self.paths)[thread % len(self.paths)]
        path = self.paths[name]
        if what == "say" or not path.said:
            self.count += 1
            result = await self.agent.run(f"I like thing{self.count}x.", thread_id=name)
            await self.agent.aclose()
            assert result.checkpoint_id is not None
            path.said[result.checkpoint_id] = path.now | {f"thing{self.count}x"}
            path.at = result.checkpoint_id
            return
        checkpoint = sorted(path.said)[point % len(path.said)]
        if what == "rewind":
            head = await self.agent.rewind(name, checkpoint)
            path.said[head] = path.said[checkpoint]
            path.at = head
        else:
            new = await self.agent.fork(name, checkpoint, f"{name}{len(self.paths)}")
            inherited = {cp: said for cp, said in path.said.items() if cp <= checkpoint}
            self.paths[new] = Path(path.family, checkpoint, inherited)

    async def seen_by(self, name: str) -> set[str]:
        following = self.memory.following(self.threads, None)
        facts = following.facts(await following.view(name))
        assert facts is not None
        return {fact.object for fact in await facts.query()}

    async def check(self) -> None:
        assert self.memory.facts is not None
        everything = {said for path in self.paths.values() for said in path.now}
        assert {fact.object for fact in await self.memory.facts.query()} == everything
        for name, path in self.paths.items():
            others = {
                said for other in self.paths.values() if other.family != path.family for said in other.now
            }
            assert await self.seen_by(name) == path.now | others, name
        kept = [item async for item in self.memory._episodes.each(None) if item.metadata["speaker"] == "user"]
        assert {item.value["text"].split()[-1].rstrip(".") for item in kept} == everything


@settings(max_examples=30, deadline=None)  # each is a dozen turns of an agent
@given(STEPS)
@example([("say", 0, 0), ("say", 0, 0), ("rewind", 0, 0), ("fork", 0, 2), ("rewind", 1, 1)])
@example([("say", 0, 0), ("say", 0, 0), ("rewind", 0, 0), ("fork", 0, 2), ("fork", 1, 1)])
def test_each_thread_sees_what_was_said_on_its_way(steps: list[Step]) -> None:
    async def scenario() -> None:
        world = World()
        for step in steps:
            await world.take(step)
        await world.check()

    asyncio.run(scenario())

"""Learn facts from episodes, in the background: in order for each user, bounded, and not lost with the process.

An episode is its own entry in the list of what is to be done: it says so until its facts are stored.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.clock import Clock
from holdfast.core.errors import Unavailable
from holdfast.memory.episodes import Episode, as_episode
from holdfast.memory.extract.facts import facts_by_model, facts_by_rules
from holdfast.memory.fence import unfenced
from holdfast.models.base import Usage
from holdfast.models.metering import metered

if TYPE_CHECKING:
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.models.base import Model

__all__ = ["Learner", "LearningReport", "Watch", "Watching"]

log = logging.getLogger("holdfast.memory")

LEASE_US = 120 * 1_000_000
MAX_WAITING = 1_000
_PORTION = 50


class Watch(Protocol):
    """What is told of one episode that facts are looked for in."""

    def learned(self, usage: Usage, facts: int) -> None:
        """So many tokens it took, and so many facts there are."""
        ...


Watching = Callable[[str | None], AbstractContextManager[Watch]]
"""Given the user, something that lasts as long as the search in one episode does."""


@dataclass(frozen=True, slots=True)
class LearningReport:
    """What finding facts has taken since the learner was made: in how many episodes, how many facts there were, how
    often it ``failed``, in how many ``calls`` of a model. ``waiting`` is what is still under way."""

    episodes: int = 0
    facts: int = 0
    failed: int = 0
    waiting: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)


class Learner:
    """Turns what users said into facts, by a model if there is one, else by rules."""

    def __init__(
        self,
        memory: "AgentMemory",
        model: "Model | None" = None,
        *,
        clock: Clock | None = None,
        watch: Watching | None = None,
    ) -> None:
        """``watch`` is told of each episode."""
        self._memory = memory
        self._model = model
        self._clock = memory.clock if clock is None else clock
        self._tasks: dict[str | None, asyncio.Task[None]] = {}
        self._watch = watch or _unwatched
        self._waiting = 0
        self._report = LearningReport()
        self._lock = Lock()

    @property
    def report(self) -> LearningReport:
        """What it has taken so far."""
        return replace(self._report, waiting=self._waiting)

    def learn_soon(self, user_id: str | None) -> None:
        """Work through the user's episodes that nobody has learned from yet, in the background."""
        if self._memory.facts is None:
            return
        if self._waiting >= MAX_WAITING:  # they stay marked, and are found by the next call
            return
        self._waiting += 1
        before = self._tasks.get(user_id)
        task = asyncio.create_task(self._after(before, user_id))
        self._tasks[user_id] = task
        task.add_done_callback(partial(self._forget_task, user_id))

    def _forget_task(self, user_id: str | None, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(user_id) is task:
            del self._tasks[user_id]

    async def wait(self, user_id: str | None, seconds: float) -> None:
        """Wait for what is under way for that user on this event loop, for so long at most."""
        task = self._tasks.get(user_id)
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([task], timeout=seconds)

    async def drain(self) -> None:
        """Wait for everything that is under way, on whatever event loop."""
        while tasks := [task for task in self._tasks.values() if not task.get_loop().is_closed()]:
            for task in tasks:
                if task.get_loop() is asyncio.get_running_loop():
                    await asyncio.wait([task])
                else:
                    there = asyncio.run_coroutine_threadsafe(_ended(task), task.get_loop())
                    await asyncio.wrap_future(there)

    async def _after(self, before: "asyncio.Task[None] | None", user_id: str | None) -> None:
        try:
            if before is not None and before.get_loop() is asyncio.get_running_loop():
                await asyncio.wait([before])
            await self.catch_up(user_id)
            if self._tasks.get(user_id) is asyncio.current_task():  # else the next one is at it
                await self._memory.none_waiting(user_id)
        except Exception as error:  # the episodes stay marked: another try finds them
            self._count(failed=1)
            log.warning("could not learn from what was said: %s: %s", type(error).__name__, error)
        finally:
            self._waiting -= 1

    async def catch_up(self, user_id: str | None) -> int:
        """Learn from all of the user's episodes that are still marked, oldest first. Returns how many."""
        done = 0
        while True:
            waiting = await self._memory.unlearned(user_id, self._clock.now_us(), _PORTION)
            if not waiting:
                return done
            for item in waiting:
                done += await self._learn(item, user_id)

    async def catch_up_all(self) -> int:
        """The same for every user who has such episodes: for those who don't come back to this process."""
        done = 0
        async for user_id in self._memory.waiting_users():
            done += await self.catch_up(user_id)
            await self._memory.none_waiting(user_id)
        return done

    async def _learn(self, item: Any, user_id: str | None) -> bool:
        """Learn from one episode, if nobody else is at it."""
        claimed = await self._memory.claim(item, user_id, self._clock.now_us() + LEASE_US)
        if claimed is None:
            return False
        episode = as_episode(claimed)
        with self._watch(user_id) as watch, metered() as meter:
            try:
                facts = await self._facts(episode, user_id)
            except Exception:  # nobody need wait for the lease to run out
                await self._memory.claim(claimed, user_id, 0)
                raise
            finally:
                self._count(calls=meter.calls, usage=meter.usage)
            watch.learned(meter.usage, len(facts))
        assert self._memory.facts is not None
        if not await self._memory.still_there(episode.id, user_id):  # it was forgotten meanwhile
            return False
        for fact in facts:
            await self._memory.facts.add(
                fact, user_id=user_id, source=episode.id, author="extraction", checkpoint=episode.checkpoint
            )
        if not await self._memory.settle(claimed, user_id):
            if not await self._memory.still_there(episode.id, user_id):  # else another one is at it, or was
                await self._memory.facts.forget_sources([episode.id], user_id=user_id)
            return False
        self._count(episodes=1, facts=len(facts))
        return True

    def _count(self, **more: Any) -> None:
        with self._lock:  # runs on other event loops share it
            sums = {name: getattr(self._report, name) + value for name, value in more.items()}
            self._report = replace(self._report, **sums)

    async def _facts(self, episode: Episode, user_id: str | None) -> "Sequence[Any]":
        assert episode.occurred_at is not None
        assert self._memory.facts is not None
        (text,) = unfenced([episode.text])
        if self._model is None:
            return facts_by_rules(text, episode.occurred_at)
        known = await self._memory.facts.search(text, user_id=user_id, limit=50)
        try:
            return await facts_by_model(self._model, [text], known, episode.occurred_at)
        except Unavailable:
            raise
        except Exception as error:  # it would fail the next time too; rules are better than nothing
            log.warning("the model found no facts: %s: %s", type(error).__name__, error)
            return facts_by_rules(text, episode.occurred_at)


class _Unwatched:
    """Nobody is told."""

    def __enter__(self) -> "_Unwatched":
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Nothing was begun."""

    def learned(self, usage: Usage, facts: int) -> None:
        """Nobody wants to know."""


def _unwatched(user_id: str | None) -> _Unwatched:
    return _Unwatched()


async def _ended(task: "asyncio.Task[None]") -> None:
    await asyncio.wait([task])

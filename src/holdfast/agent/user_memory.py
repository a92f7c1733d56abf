"""An agent's long-term memory in a turn: what a user's blocks, facts and episodes say about the prompt, and what the
turn adds to them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast.agent.progress import Debt
from holdfast.core.clock import from_us
from holdfast.core.messages import Message, Role
from holdfast.core.state import AgentState
from holdfast.memory.agent_memory import AgentMemory
from holdfast.memory.branches import View
from holdfast.memory.episodes import Episode
from holdfast.memory.facts import Fact
from holdfast.memory.fence import unfenced
from holdfast.memory.following import Following
from holdfast.memory.learning import Learner
from holdfast.memory.manager import BaseMemoryManager

__all__ = ["ManagerMemory", "Said", "TurnMemory", "UserMemory"]


@dataclass(frozen=True, slots=True)
class Said:
    """A turn that is over. ``checkpoint`` is where, ``at`` when; ``None`` is now."""

    run_id: str
    messages: Sequence[Message]
    thread_id: str
    checkpoint: str | None = None
    at: datetime | None = None

    @classmethod
    def of(cls, debt: Debt, state: AgentState, thread_id: str) -> "Said":
        """The turn that is owed, from the thread's state."""
        at = None if debt.at_us is None else from_us(debt.at_us)
        return cls(debt.run_id, state.messages[debt.first : debt.end], thread_id, debt.checkpoint, at)

    def id_of(self, place: int) -> str:
        """The same for this message whenever it is learned, so that it is kept once."""
        message = self.messages[place]
        named = [self.thread_id, self.run_id, place, message.role.value, message.content]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]


class TurnMemory(Protocol):
    """What a turn needs of a memory."""

    async def recall(self, prompt: str | None, thread_id: str) -> list[str]:
        """Lines that may help with the prompt, most useful first."""
        ...

    async def learn(self, said: Said) -> list[str]:
        """Keep what was said in a turn; returns what is already known to be new. A repeat changes nothing."""
        ...

    async def follow(self, thread_id: str) -> None:
        """The thread was rewound."""
        ...

    async def forked(self, thread_id: str, new_thread_id: str) -> None:
        """The run goes on in another thread."""
        ...


@dataclass(frozen=True, slots=True)
class ManagerMemory:
    """A memory manager."""

    manager: BaseMemoryManager

    async def recall(self, prompt: str | None, thread_id: str) -> list[str]:
        return [memory.content for memory in await self.manager.retrieve(prompt)]

    async def learn(self, said: Said) -> list[str]:
        learned = await self.manager.save(await self.manager.extract(list(said.messages)))
        return [memory.content for memory in learned]

    async def follow(self, thread_id: str) -> None:
        """It knows of no threads."""

    async def forked(self, thread_id: str, new_thread_id: str) -> None:
        """It knows of no threads."""


@dataclass(frozen=True, slots=True)
class UserMemory:
    """Blocks, facts and episodes of one user."""

    memory: AgentMemory
    learner: Learner | None
    user_id: str | None
    following: Following | None = None
    limit: int = 8
    patience: float = 5.0

    async def recall(self, prompt: str | None, thread_id: str) -> list[str]:
        if self.learner is not None:  # what was said a moment ago may still be on its way
            await self.learner.wait(self.user_id, self.patience)
        blocks = await self.memory.working(user_id=self.user_id)
        lines = [f"{name}: {text}" for name, text in sorted(blocks.items())]
        if prompt is None:
            return lines
        view, facts = View(thread_id), self.memory.facts
        if self.following is not None:
            view = await self.following.view(thread_id)
            facts = self.following.facts(view)
        if facts is not None:
            lines += [
                _told(fact) for fact in await facts.search(prompt, user_id=self.user_id, limit=self.limit)
            ]
        return lines + [_said(episode) for episode in await self._elsewhere(prompt, view)]

    async def _elsewhere(self, prompt: str, view: View) -> list[Episode]:
        """What was said in other threads: this one is shown anyway."""
        most = 2 * self.limit
        while True:
            found = await self.memory.recall(prompt, most, user_id=self.user_id)
            others = [episode for episode in found if not view.has(episode.session_id)]
            if len(others) >= self.limit or len(found) < most or most > 8 * self.limit:
                return others[: self.limit]
            most *= 4

    async def learn(self, said: Said) -> list[str]:
        asked = [_episode(said, place) for place, m in enumerate(said.messages) if m.role is Role.USER]
        answered = [
            _episode(said, place) for place, m in enumerate(said.messages) if m.role is Role.ASSISTANT
        ]
        asked = [episode for episode in asked if episode.text.strip()]
        answered = [episode for episode in answered if episode.text.strip()][-1:]
        learns = [self.learner is not None] * len(asked) + [False] * len(answered)
        await self.memory.remember_all([*asked, *answered], user_id=self.user_id, learn=learns)
        if self.learner is not None:
            self.learner.learn_soon(self.user_id)
        return []

    async def follow(self, thread_id: str) -> None:
        if self.following is not None:
            await self.following.follow(thread_id)

    async def forked(self, thread_id: str, new_thread_id: str) -> None:
        if self.following is not None:
            await self.following.note(thread_id, new_thread_id)


def _episode(said: Said, place: int) -> Episode:
    message = said.messages[place]
    text = message.content or ""
    if message.role is Role.ASSISTANT:
        (text,) = unfenced([text])
    return Episode(
        text=text,
        speaker=message.role.value,
        session_id=said.thread_id,
        occurred_at=said.at,
        checkpoint=said.checkpoint,
        id=said.id_of(place),
    )


def _told(fact: Fact) -> str:
    since = "" if fact.valid_from is None else f" (since {fact.valid_from.date().isoformat()})"
    return f"{fact.subject} {fact.predicate.replace('_', ' ')} {fact.object}{since}"


def _said(episode: Episode) -> str:
    day = "" if episode.occurred_at is None else f"{episode.occurred_at.date().isoformat()}, "
    return f"{day}{episode.speaker or 'somebody'}: {episode.text}"

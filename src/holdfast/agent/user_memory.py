"""An agent's long-term memory in a turn: what a user's blocks, facts and episodes say about the prompt, and what the
turn adds to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.messages import Message, Role
from holdfast.memory.agent_memory import AgentMemory
from holdfast.memory.episodes import Episode
from holdfast.memory.facts import Fact
from holdfast.memory.fence import unfenced
from holdfast.memory.learning import Learner
from holdfast.memory.manager import BaseMemoryManager

__all__ = ["ManagerMemory", "TurnMemory", "UserMemory"]


class TurnMemory(Protocol):
    """What a turn needs of a memory."""

    async def recall(self, prompt: str | None, thread_id: str) -> list[str]:
        """Lines that may help with the prompt, most useful first."""
        ...

    async def learn(self, turn: Sequence[Message], thread_id: str, checkpoint: str | None) -> list[str]:
        """Keep what was said in a turn; returns what is already known to be new."""
        ...


@dataclass(frozen=True, slots=True)
class ManagerMemory:
    """A memory manager."""

    manager: BaseMemoryManager

    async def recall(self, prompt: str | None, thread_id: str) -> list[str]:
        return [memory.content for memory in await self.manager.retrieve(prompt)]

    async def learn(self, turn: Sequence[Message], thread_id: str, checkpoint: str | None) -> list[str]:
        learned = await self.manager.save(await self.manager.extract(list(turn)))
        return [memory.content for memory in learned]


@dataclass(frozen=True, slots=True)
class UserMemory:
    """Blocks, facts and episodes of one user."""

    memory: AgentMemory
    learner: Learner | None
    user_id: str | None
    limit: int = 8
    patience: float = 5.0

    async def recall(self, prompt: str | None, thread_id: str) -> list[str]:
        if self.learner is not None:  # what was said a moment ago may still be on its way
            await self.learner.wait(self.user_id, self.patience)
        blocks = await self.memory.working(user_id=self.user_id)
        lines = [f"{name}: {text}" for name, text in sorted(blocks.items())]
        if prompt is None:
            return lines
        if self.memory.facts is not None:
            facts = await self.memory.recall_facts(prompt, self.limit, user_id=self.user_id)
            lines += [_told(fact) for fact in facts]
        found = await self.memory.recall(prompt, 2 * self.limit, user_id=self.user_id)
        others = [
            episode for episode in found if episode.session_id != thread_id
        ]  # this thread is shown anyway
        return lines + [_said(episode) for episode in others[: self.limit]]

    async def learn(self, turn: Sequence[Message], thread_id: str, checkpoint: str | None) -> list[str]:
        asked = [m.content for m in turn if m.role is Role.USER and m.content and m.content.strip()]
        answered = [m.content for m in turn if m.role is Role.ASSISTANT and m.content]
        answered = [text for text in unfenced(answered) if text.strip()]

        def episode(text: str, speaker: str) -> Episode:
            return Episode(text=text, speaker=speaker, session_id=thread_id, checkpoint=checkpoint)

        learns = self.learner is not None
        await self.memory.remember_all(
            [episode(text, "user") for text in asked], user_id=self.user_id, learn=learns
        )
        await self.memory.remember_all(
            [episode(text, "assistant") for text in answered[-1:]], user_id=self.user_id
        )
        if self.learner is not None:
            self.learner.learn_soon(self.user_id)
        return []


def _told(fact: Fact) -> str:
    since = "" if fact.valid_from is None else f" (since {fact.valid_from.date().isoformat()})"
    return f"{fact.subject} {fact.predicate.replace('_', ' ')} {fact.object}{since}"


def _said(episode: Episode) -> str:
    day = "" if episode.occurred_at is None else f"{episode.occurred_at.date().isoformat()}, "
    return f"{day}{episode.speaker or 'somebody'}: {episode.text}"

"""The memory of an agent, whichever kind it was given, as its runs use it."""

import logging
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agent.config import AgentConfig
    from holdfast.agent.progress import Debt
    from holdfast.agent.telemetry import AnyTelemetry
    from holdfast.agent.user_memory import TurnMemory
    from holdfast.core.state import AgentState
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.following import Following
    from holdfast.memory.learning import Learner, LearningReport
    from holdfast.memory.manager import BaseMemoryManager
    from holdfast.models.base import Model
    from holdfast.tools import Tool

__all__ = ["Memories"]

log = logging.getLogger("holdfast.agent")

VENDORS: Final = ("anthropic", "litellm", "oci", "ollama", "openai", "openrouter")
"""Providers whose models are asked to find facts in what was said; for any other there are rules."""


class Memories:
    """What an agent remembers by: a memory, a manager, or nothing."""

    def __init__(self, config: "AgentConfig", model: "Model", telemetry: "AnyTelemetry") -> None:
        self.manager = _manager(config.memory_manager)
        self.memory: AgentMemory | None = None
        self.learner: Learner | None = None
        self._owned = False
        if config.memory is not None:
            from holdfast.resolving import resolve_memory

            self.memory = resolve_memory(config.memory)
            self._owned = self.memory is not config.memory
            self.learner = _learner(self.memory, model, config.extract_facts, telemetry)
        self.follows = config.memory_follows_thread
        self._threads: BaseCheckpointer | None = None
        self._tools = config.memory_tools
        self._raises = config.on_memory_error == "raise"

    @property
    def tools(self) -> "list[Tool[..., Any]]":
        """With which the model uses the memory by itself."""
        if self.memory is None or not self._tools:
            return []
        from holdfast.agent.memory_tools import memory_tools

        return memory_tools(self.memory, self.following)

    @property
    def checkpointer(self) -> "BaseCheckpointer | None":
        """Where threads can be kept beside a memory: one that was opened here, or that is to follow them."""
        beside = self.memory is not None and (self._owned or self.follows)
        return self.memory.checkpointer if self.memory is not None and beside else None

    def attach(self, threads: "BaseCheckpointer", kept: bool) -> None:
        """Say where the threads are. ``kept``: somebody chose that place."""
        if not self.follows:
            return
        if self.memory is None:
            raise InvalidInput(
                "memory_follows_thread=True needs memory=: a memory manager knows of no threads"
            )
        if not kept:
            raise InvalidInput(
                "memory_follows_thread=True needs checkpointer=, or a memory with one, such as 'sqlite:bot.db'"
            )
        able = threads.capabilities
        if not (able.compare_and_set and able.pending_writes and able.branching):
            raise InvalidInput(
                "memory_follows_thread=True needs a checkpointer with compare_and_set, pending_writes and"
                f" branching, which {type(threads).__name__} does not declare"
            )
        self._threads = threads

    def following(self, user_id: str | None) -> "Following | None":
        """What makes the user's memories follow their threads, if they are to."""
        if self.memory is None or self._threads is None:
            return None
        threads = self._threads if user_id is None else self._threads.scoped(user_id)
        return self.memory.following(threads, user_id)

    async def follow(self, thread_id: str, user_id: str | None) -> bool:
        """Let the memories follow a thread that was rewound; ``False`` if that failed, and is left to the next run."""
        following = self.following(user_id)
        if following is None:
            return False
        try:
            await following.follow(thread_id)
        except Exception as error:
            if self._raises:
                raise
            log.warning("memories could not follow their thread: %s: %s", type(error).__name__, error)
            return False
        return True

    def of(self, user_id: str | None) -> "TurnMemory | None":
        """The memory of one user. ``None`` is a bucket of its own."""
        from holdfast.agent.user_memory import ManagerMemory, UserMemory

        if self.memory is not None:
            return UserMemory(self.memory, self.learner, user_id, self.following(user_id))
        if self.manager is None:
            return None
        return ManagerMemory(self.manager if user_id is None else self.manager.for_user(user_id))

    async def learn(
        self, owed: "Sequence[Debt]", state: "AgentState", thread_id: str, user_id: str | None
    ) -> None:
        """Learn turns that no run will learn any more, since the thread is about to lose them."""
        from holdfast.agent.user_memory import Said

        memory = self.of(user_id) if owed else None
        if memory is None:
            return
        try:
            for debt in owed:
                await memory.learn(Said.of(debt, state, thread_id))
        except Exception as error:
            if self._raises:
                raise
            log.warning("could not learn: %s: %s", type(error).__name__, error)

    @property
    def report(self) -> "LearningReport":
        """What finding facts in the background has taken."""
        from holdfast.memory.learning import LearningReport

        return LearningReport() if self.learner is None else self.learner.report

    async def catch_up(self) -> int:
        """Find facts in all episodes of all users that wait for it."""
        return 0 if self.learner is None else await self.learner.catch_up_all()

    async def aclose(self) -> None:
        """Wait for what is under way, then close what was opened here."""
        if self.learner is not None:
            await self.learner.drain()
        if self.manager is not None:
            await self.manager.drain()
        if self.memory is not None and self._owned:
            await self.memory.aclose()


def _manager(given: object) -> "BaseMemoryManager | None":
    if given is None:
        return None
    from holdfast.memory.manager import BaseMemoryManager

    if not isinstance(given, BaseMemoryManager):
        raise InvalidInput(f"memory_manager must be a BaseMemoryManager, got {type(given).__name__}")
    return given


def _learner(
    memory: "AgentMemory", model: "Model", extract: bool | None, telemetry: "AnyTelemetry"
) -> "Learner | None":
    if memory.facts is None or extract is False:
        return None
    from holdfast.memory.learning import Learner

    provider = getattr(model, "provider", None)  # any object with the two methods is a model
    # Models for tests would answer with the next line of their script.
    asked = provider in VENDORS or (extract is True and provider not in ("testing", "mock"))
    return Learner(memory, model if asked else None, watch=telemetry.learning)

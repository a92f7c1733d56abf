"""All that one run carries from step to step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from holdfast.agent.channel import Silence
from holdfast.agent.context import RunContext
from holdfast.agent.events import Event, ForkEvent
from holdfast.agent.limits import Limits
from holdfast.agent.progress import OPEN, Debt, Turn, fold, unanswered
from holdfast.agent.result import AgentResult, StopReason
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.models.base import Model, ToolSpec

if TYPE_CHECKING:
    from holdfast.agent.conversation import ConversationManager
    from holdfast.agent.journal import Journal
    from holdfast.agent.reflexion import Reflexion
    from holdfast.agent.telemetry import AnySpan, AnyTelemetry
    from holdfast.agent.user_memory import TurnMemory
    from holdfast.tools import Tool

__all__ = ["Kit", "Session"]


@dataclass(frozen=True, slots=True)
class Kit:
    """What an agent works with: the same for all of its runs."""

    agent_id: str
    model: Model
    tools: Mapping[str, "Tool[..., Any]"]
    specs: Sequence[ToolSpec] | None
    system_prompt: str | None
    reflexion: "Reflexion | None"
    conversation: "ConversationManager | None"
    telemetry: "AnyTelemetry"
    model_options: Mapping[str, Any]
    model_retries: int
    max_repeats: int
    save_every: int
    memory_tokens: int = 1_000
    on_memory_error: Literal["degrade", "raise"] = "degrade"


@dataclass(slots=True)
class Session:
    """One run of one thread."""

    kit: Kit
    journal: "Journal"
    context: RunContext
    limits: Limits
    state: AgentState
    turn: Turn
    span: "AnySpan"
    channel: Silence
    stop_reason: StopReason | None = None
    approvals: tuple[ToolCall, ...] = ()
    memory: "TurnMemory | None" = None
    recalled: str | None = None
    memory_tokens: int = 0
    prompted: bool = False
    unstarted: tuple[ToolCall, ...] = ()
    waited: frozenset[str] = frozenset()
    hint: str | None = None
    final: str = ""
    step_results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)

    def begin(self, state: AgentState, owed: tuple[Debt, ...] = ()) -> None:
        """A new turn on that state. ``owed`` are turns that the memory has not heard of yet."""
        self.go_on(replace(Turn.begin(state), owed=owed))
        self.state, self.stop_reason, self.approvals, self.hint = state, None, (), None

    def go_on(self, turn: Turn) -> None:
        """Take up a turn. With a memory, it is written down that this is to hear of it."""
        learns = turn.learns or (self.memory is not None and self.journal.keeps_notes)
        self.turn = replace(turn, learns=learns)

    @property
    def iteration(self) -> int:
        """Iterations of this turn."""
        return self.state.iteration - self.turn.iteration

    async def emit(self, event: Event) -> None:
        """Tell the consumer, if there is one. A safe point: it may have left, and leaves no doubt behind about calls
        that have not started."""
        try:
            await self.channel.emit(event)
        except BaseException:
            await self.journal.release(self.unstarted)
            raise

    async def save(self, step: str, status: str = OPEN) -> None:
        """Store where the turn stands."""
        await self.store(step, status)
        await self.tell()

    async def store(self, step: str, status: str = OPEN) -> None:
        """The same, but `tell` is left to the caller."""
        state = self.turn.mark(self.state, status)
        await self.journal.save(state, step)
        self.state = state

    async def tell(self) -> None:
        """Tell the consumer what was stored."""
        for event in self.journal.drain():
            if isinstance(event, ForkEvent) and self.memory is not None:
                await self.memory.forked(event.source_thread_id, event.thread_id)
            await self.emit(event)

    async def save_intent(self, step: str) -> None:
        """Store that the calls which the state leaves unanswered are about to run."""
        self.unstarted = unanswered(self.state)
        await self.save(step)

    def folded(self) -> AgentState:
        """The state with the step's results so far as part of it, and what they say about the confidence."""
        state = fold(self.state, self.step_results)
        if self.kit.reflexion is None:
            return state
        return self.kit.reflexion.after(state, [result for _, result in self.step_results])

    def result(self) -> AgentResult:
        assert self.stop_reason is not None
        return AgentResult(
            message=self.final,
            state=self.state,
            stop_reason=self.stop_reason,
            metrics=replace(
                self.turn.metrics(self.state, self.limits.elapsed_ms()), memory_tokens=self.memory_tokens
            ),
            thread_id=self.journal.thread_id,
            run_id=self.state.run_id,
            user_id=self.context.user_id,
            checkpoint_id=self.journal.head,
            approvals=self.approvals,
        )

"""What a run gives back."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from holdfast.core.messages import ToolCall
from holdfast.core.state import AgentState

__all__ = ["AgentResult", "ExecutionMetrics", "StopReason"]

StopReason = Literal[
    "complete",  # the model gave its answer
    "length",  # so it did, but the answer was cut at the token limit of the model call
    "content_filter",  # the provider withheld the answer
    "max_iterations",
    "token_budget",
    "time_budget",
    "tool_loop",  # the model kept making the same calls
    "approval",  # calls wait for approval; resume with approve=
]


STOP_REASONS: Final[tuple[StopReason, ...]] = get_args(StopReason)


@dataclass(frozen=True, slots=True)
class ExecutionMetrics:
    """What one turn took, also when it was interrupted and resumed; ``duration_ms`` is the last run's alone.

    ``memory_tokens`` are those with which a memory manager asked a model what to keep, in the last run. They are not
    part of ``total_tokens``: no budget of the turn counts them.
    """

    iterations: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    duration_ms: float = 0.0
    memory_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The outcome of a turn. ``message`` is the final text, ``state`` the whole thread after it.

    ``checkpoint_id`` is where the thread stands now (``None`` if nothing is kept). ``approvals`` are the calls that
    wait, with the stop reason ``"approval"``.
    """

    message: str
    state: AgentState
    stop_reason: StopReason
    metrics: ExecutionMetrics
    thread_id: str
    run_id: str
    user_id: str | None = None
    checkpoint_id: str | None = None
    approvals: tuple[ToolCall, ...] = ()

    @property
    def text(self) -> str:
        """The same as ``message``."""
        return self.message

    def __str__(self) -> str:
        return self.message

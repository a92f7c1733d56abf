"""What happens during a run, as typed objects. Tell them apart by class, or by ``event_type``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import Usage

if TYPE_CHECKING:
    from holdfast.agent.result import AgentResult, StopReason

__all__ = [
    "ApprovalEvent",
    "CheckpointEvent",
    "Event",
    "ForkEvent",
    "MemoryEvent",
    "ModelChunkEvent",
    "ModelRetryEvent",
    "ReflectEvent",
    "ResumeEvent",
    "TerminateEvent",
    "ThinkEvent",
    "ToolCompleteEvent",
    "ToolStartEvent",
]


class Event:
    """Base of all events."""

    __slots__ = ()
    event_type: ClassVar[str]

    @property
    def type(self) -> str:
        """The same as ``event_type``."""
        return self.event_type


@dataclass(frozen=True, slots=True)
class ThinkEvent(Event):
    """The model has answered: with text, with tool calls, or both. ``iteration`` counts from 1 in each turn."""

    event_type: ClassVar[str] = "think"
    message: Message
    iteration: int
    usage: Usage

    @property
    def text(self) -> str:
        return self.message.content or ""


@dataclass(frozen=True, slots=True)
class ModelChunkEvent(Event):
    """A piece of the answer that the model is giving."""

    event_type: ClassVar[str] = "model_chunk"
    text: str
    iteration: int


@dataclass(frozen=True, slots=True)
class ModelRetryEvent(Event):
    """The model broke off and is asked again: forget the chunks since the last event that was none."""

    event_type: ClassVar[str] = "model_retry"
    error: str
    attempt: int


class _ToolEvent(Event):
    __slots__ = ()
    call: ToolCall

    @property
    def tool_name(self) -> str:
        return self.call.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.call.arguments


@dataclass(frozen=True, slots=True)
class ToolStartEvent(_ToolEvent):
    """A tool is about to run. That it will is already stored."""

    event_type: ClassVar[str] = "tool_start"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolCompleteEvent(_ToolEvent):
    """A call has its result, which is stored. ``recovered``: it was made in an earlier run, which was cut off; what
    came of it was found, or its outcome is unknown."""

    event_type: ClassVar[str] = "tool_complete"
    call: ToolCall
    result: ToolResult
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class ReflectEvent(Event):
    """How sure the agent is after a step, and by how much that changed."""

    event_type: ClassVar[str] = "reflect"
    confidence: float
    change: float


@dataclass(frozen=True, slots=True)
class CheckpointEvent(Event):
    """The thread was saved. ``step`` says after what: prompt, intent, approval, takeover, tools, answer, stop."""

    event_type: ClassVar[str] = "checkpoint"
    checkpoint_id: str
    step: str


@dataclass(frozen=True, slots=True)
class ApprovalEvent(Event):
    """These calls wait for somebody's approval: ``agent.resume(thread_id, approve=...)``."""

    event_type: ClassVar[str] = "approval"
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ResumeEvent(Event):
    """An unfinished turn goes on. Ids of its calls that had finished, that run again, and of unknown outcome."""

    event_type: ClassVar[str] = "resume"
    finished: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryEvent(Event):
    """Something was ``recalled`` at the start of the turn, ``learned`` at its end, or either ``failed``."""

    event_type: ClassVar[str] = "memory"
    action: Literal["recalled", "learned", "failed"]
    contents: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ForkEvent(Event):
    """Somebody else moved the thread on; this run goes on in a thread of its own."""

    event_type: ClassVar[str] = "fork"
    thread_id: str
    source_thread_id: str


@dataclass(frozen=True, slots=True)
class TerminateEvent(Event):
    """The run is over."""

    event_type: ClassVar[str] = "terminate"
    final_message: str
    reason: "StopReason"
    result: "AgentResult"

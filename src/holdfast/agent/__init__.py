"""The agent: a loop that survives being killed."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent
    from holdfast.agent.config import AgentConfig
    from holdfast.agent.context import RunContext, get_run_context, run_context
    from holdfast.agent.conversation import ConversationManager, SummarizingConversation, WindowConversation
    from holdfast.agent.events import (
        ApprovalEvent,
        CheckpointEvent,
        Event,
        ForkEvent,
        MemoryEvent,
        ModelChunkEvent,
        ModelRetryEvent,
        ReflectEvent,
        ResumeEvent,
        TerminateEvent,
        ThinkEvent,
        ToolCompleteEvent,
        ToolStartEvent,
    )
    from holdfast.agent.reflexion import Reflexion
    from holdfast.agent.result import AgentResult, ExecutionMetrics, StopReason
    from holdfast.agent.running import Run
    from holdfast.agent.telemetry import Telemetry

_HOMES = {
    "Agent": "agent",
    "AgentConfig": "config",
    "AgentResult": "result",
    "ApprovalEvent": "events",
    "CheckpointEvent": "events",
    "ConversationManager": "conversation",
    "Event": "events",
    "ExecutionMetrics": "result",
    "ForkEvent": "events",
    "MemoryEvent": "events",
    "ModelChunkEvent": "events",
    "ModelRetryEvent": "events",
    "ReflectEvent": "events",
    "Reflexion": "reflexion",
    "ResumeEvent": "events",
    "Run": "running",
    "RunContext": "context",
    "StopReason": "result",
    "SummarizingConversation": "conversation",
    "Telemetry": "telemetry",
    "TerminateEvent": "events",
    "ThinkEvent": "events",
    "ToolCompleteEvent": "events",
    "ToolStartEvent": "events",
    "WindowConversation": "conversation",
    "get_run_context": "context",
    "run_context": "context",
}

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentResult",
    "ApprovalEvent",
    "CheckpointEvent",
    "ConversationManager",
    "Event",
    "ExecutionMetrics",
    "ForkEvent",
    "MemoryEvent",
    "ModelChunkEvent",
    "ModelRetryEvent",
    "ReflectEvent",
    "Reflexion",
    "ResumeEvent",
    "Run",
    "RunContext",
    "StopReason",
    "SummarizingConversation",
    "Telemetry",
    "TerminateEvent",
    "ThinkEvent",
    "ToolCompleteEvent",
    "ToolStartEvent",
    "WindowConversation",
    "get_run_context",
    "run_context",
]

__getattr__, __dir__ = doors(__name__, {name: f"holdfast.agent.{home}" for name, home in _HOMES.items()})

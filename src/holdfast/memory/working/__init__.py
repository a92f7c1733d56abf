"""Working memory: a short text for each conversation, rewritten by a model after each turn, kept wherever you like.

Names are imported when they are used.
"""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.memory.working.agent import AgentInput, IAgentInput, WorkingMemoryAgent
    from holdfast.memory.working.clients import ILLMConfig, ILLMInput, OpenRouterClient
    from holdfast.memory.working.database import DatabaseMemoryManager
    from holdfast.memory.working.factory import create_memory_agent
    from holdfast.memory.working.managers import InMemoryManager, MemoryRecord, StoreMemoryManager
    from holdfast.memory.working.redis import RedisMemoryManager

__all__ = [
    "AgentInput",
    "DatabaseMemoryManager",
    "IAgentInput",
    "ILLMConfig",
    "ILLMInput",
    "InMemoryManager",
    "MemoryRecord",
    "OpenRouterClient",
    "RedisMemoryManager",
    "StoreMemoryManager",
    "WorkingMemoryAgent",
    "create_memory_agent",
]

__getattr__, __dir__ = doors(
    __name__,
    {
        "AgentInput": "holdfast.memory.working.agent",
        "DatabaseMemoryManager": "holdfast.memory.working.database",
        "IAgentInput": "holdfast.memory.working.agent",
        "ILLMConfig": "holdfast.memory.working.clients",
        "ILLMInput": "holdfast.memory.working.clients",
        "InMemoryManager": "holdfast.memory.working.managers",
        "MemoryRecord": "holdfast.memory.working.managers",
        "OpenRouterClient": "holdfast.memory.working.clients",
        "RedisMemoryManager": "holdfast.memory.working.redis",
        "StoreMemoryManager": "holdfast.memory.working.managers",
        "WorkingMemoryAgent": "holdfast.memory.working.agent",
        "create_memory_agent": "holdfast.memory.working.factory",
    },
)

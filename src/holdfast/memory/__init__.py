"""The two contracts, all that keeps them on a database, and what is learned across conversations."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.memory.consolidating import Consolidation
    from holdfast.memory.episodes import Episode
    from holdfast.memory.facts import Fact

# The resolver knows databases by their URLs, which is above this package: its names are doors only.
__all__ = ["AgentMemory", "Consolidation", "Episode", "Fact", "LazyMemory", "resolve_memory"]

__getattr__, __dir__ = doors(
    __name__,
    {
        "AgentMemory": "holdfast.memory.agent_memory",
        "Consolidation": "holdfast.memory.consolidating",
        "Episode": "holdfast.memory.episodes",
        "Fact": "holdfast.memory.facts",
        "LazyMemory": "holdfast.resolving",
        "resolve_memory": "holdfast.resolving",
    },
)

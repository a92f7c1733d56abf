"""What an agent needs of a memory manager. Subclass it for one of your own."""

from collections.abc import Sequence

from holdfast.core.messages import Message
from holdfast.memory.manager.records import Memory

__all__ = ["BaseMemoryManager"]


class BaseMemoryManager:
    """Retrieves at the start of a turn, extracts and saves at its end."""

    async def retrieve(self, query: str | None = None, limit: int | None = None) -> list[Memory]:
        """What may help with the query, most useful first."""
        raise NotImplementedError(f"{type(self).__name__} must implement retrieve()")

    async def extract(self, messages: Sequence[Message]) -> list[Memory]:
        """What is worth keeping of these messages. Nothing is saved yet."""
        raise NotImplementedError(f"{type(self).__name__} must implement extract()")

    async def save(self, memories: Sequence[Memory]) -> list[Memory]:
        """Keep them; returns those that were new or changed something."""
        raise NotImplementedError(f"{type(self).__name__} must implement save()")

    async def drain(self) -> None:
        """Wait for work in the background, if there is any."""

    def for_user(self, user_id: str) -> "BaseMemoryManager":
        """A view of what is remembered of that user alone. Needed by an agent that is run with a ``user_id``."""
        raise NotImplementedError(f"{type(self).__name__} must implement for_user() to serve several users")

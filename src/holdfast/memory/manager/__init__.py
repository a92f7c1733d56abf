"""What an agent remembers of its users across conversations."""

from holdfast.memory.manager.base import BaseMemoryManager
from holdfast.memory.manager.llm import LLMMemoryManager
from holdfast.memory.manager.records import Memory, MemoryType

__all__ = ["BaseMemoryManager", "LLMMemoryManager", "Memory", "MemoryType"]

"""Facts: who, what, and since when; what was true at a time, and what we believed at a time."""

from holdfast.memory.facts.records import Change, Fact
from holdfast.memory.facts.store import FactStore

__all__ = ["Change", "Fact", "FactStore"]

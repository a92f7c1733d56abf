"""One thing that is remembered."""

from enum import StrEnum

from pydantic import Field

from holdfast.core.frozen import EMPTY
from holdfast.core.model import FrozenMap, FrozenModel

__all__ = ["Memory", "MemoryType"]


class MemoryType(StrEnum):
    """What a memory is about."""

    USER = "user"
    """Who the user is, and what they want."""
    FEEDBACK = "feedback"
    """How the user wants things done."""
    PROJECT = "project"
    """What is being worked on."""
    REFERENCE = "reference"
    """Where something is to be found."""


class Memory(FrozenModel):
    """A sentence worth keeping. A newer one under the same type and key takes its place."""

    type: MemoryType
    key: str
    content: str
    metadata: FrozenMap = Field(default_factory=lambda: EMPTY)

"""The door to memories in Chroma. It knows databases by their URLs, which is above this package: a door only."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.doors import ChromaMemory

__all__ = ["ChromaMemory"]

__getattr__, __dir__ = doors(__name__, {"ChromaMemory": "holdfast.doors"})

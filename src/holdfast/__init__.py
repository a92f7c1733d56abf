"""Holdfast keeps what an LLM agent knows, on the database that you already run.

Names are loaded when they are first used: ``import holdfast`` itself costs next to nothing.
"""

from typing import TYPE_CHECKING

from holdfast._version import __version__
from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.connection import connect

__all__ = ["__version__", "connect"]

__getattr__, __dir__ = doors(
    __name__,
    {
        "connect": "holdfast.connection",
    },
)

"""Holdfast keeps what an LLM agent knows, on the database that you already run.

Names are loaded when they are first used: ``import holdfast`` itself costs next to nothing.
"""

from typing import TYPE_CHECKING

from holdfast._version import __version__
from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent
    from holdfast.agent.context import get_run_context
    from holdfast.connection import connect
    from holdfast.tools import tool

__all__ = ["Agent", "__version__", "connect", "get_run_context", "tool"]

__getattr__, __dir__ = doors(
    __name__,
    {
        "Agent": "holdfast.agent.agent",
        "connect": "holdfast.connection",
        "get_run_context": "holdfast.agent.context",
        "tool": "holdfast.tools.tool",
    },
)

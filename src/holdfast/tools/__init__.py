"""Tools: functions that a model can call. `@tool` makes one of any function with type hints."""

from holdfast.tools.tool import Tool, tool

__all__ = ["Tool", "tool"]

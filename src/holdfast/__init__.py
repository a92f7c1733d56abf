"""Holdfast keeps what an LLM agent knows, on the database that you already run.

Names are loaded when they are first used: ``import holdfast`` itself costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

from holdfast._version import __version__

if TYPE_CHECKING:
    from holdfast.connection import connect

__all__ = ["__version__", "connect"]

_HOMES = {"connect": "holdfast.connection"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

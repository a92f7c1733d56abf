"""Modules that are doors: a name is imported from its home when it is first used."""

import sys
from collections.abc import Callable, Mapping
from typing import Any


def doors(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a module with an ``__all__`` whose names live in other modules."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(sys.modules[module].__all__)

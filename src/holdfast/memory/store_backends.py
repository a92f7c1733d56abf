"""Doors to the stores. A backend is imported when its name is first used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.memory.backends.memory_store import InMemoryStore
    from holdfast.memory.backends.sqlite_store import SQLiteStore, SQLiteSyncStore

__all__ = ["InMemoryStore", "SQLiteStore", "SQLiteSyncStore"]

_HOMES = {"InMemoryStore": "memory_store", "SQLiteStore": "sqlite_store", "SQLiteSyncStore": "sqlite_store"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"holdfast.memory.backends.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

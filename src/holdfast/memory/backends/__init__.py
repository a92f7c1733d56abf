"""Doors to the checkpointers. A backend is imported when its name is first used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.memory.backends.memory import MemoryCheckpointer
    from holdfast.memory.backends.sqlite import (
        SQLiteCheckpointer,
        SQLiteSyncCheckpointer,
        sqlite_checkpointer,
    )
    from holdfast.memory.backends.sqlite_saver import SQLiteCheckpointSaver, SQLiteSyncCheckpointSaver

__all__ = [
    "MemoryCheckpointer",
    "SQLiteCheckpointSaver",
    "SQLiteCheckpointer",
    "SQLiteSyncCheckpointSaver",
    "SQLiteSyncCheckpointer",
    "sqlite_checkpointer",
]

_HOMES = {
    "MemoryCheckpointer": "memory",
    "SQLiteCheckpointer": "sqlite",
    "SQLiteSyncCheckpointer": "sqlite",
    "sqlite_checkpointer": "sqlite",
    "SQLiteCheckpointSaver": "sqlite_saver",
    "SQLiteSyncCheckpointSaver": "sqlite_saver",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

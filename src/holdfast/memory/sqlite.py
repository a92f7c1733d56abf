"""The door to memories in SQLite. It knows databases by their URLs, which is above this package: a door only."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.doors import SqliteMemory

__all__ = ["SqliteMemory"]

__getattr__, __dir__ = doors(__name__, {"SqliteMemory": "holdfast.doors"})

"""Under which conditions was it measured? Read from the product's own connections, and held to its defaults."""

import inspect
import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from benchmarks.report import Measure, fact
from holdfast.memory.backends.sql import text_index
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.backends.sqlite_store import SQLiteStore

_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class Durability(NamedTuple):
    """What a connection promises. The defaults of the product are the ones that the bounds are for."""

    journal_mode: str
    synchronous: str

    def __str__(self) -> str:
        return f"{self.journal_mode}, synchronous {self.synchronous}"


DEFAULT = Durability("wal", "FULL")


async def durability_of(checkpointer: SqlCheckpointer) -> Durability:
    """Read from the connection that writes."""

    def plan() -> Plan[Durability]:
        ((mode,),) = yield from fetch("PRAGMA journal_mode")
        ((level,),) = yield from fetch("PRAGMA synchronous")
        return Durability(str(mode), _SYNCHRONOUS[level])

    return await checkpointer._engine.write(plan)


async def index_lag(checkpointer: SqlCheckpointer) -> int:
    """How many rows the text index is behind."""
    return await checkpointer._engine.read(lambda: text_index.lag(checkpointer._tables))


def defaults() -> list[Measure]:
    """That a user who sets nothing gets what is measured here."""
    return [
        fact(f"default {option} of {cls.__name__}", str(_default(cls, option)), wanted)
        for cls, option, wanted in (
            (SQLiteCheckpointer, "durability", "full"),
            (SQLiteCheckpointer, "text_index", "True"),
            (SQLiteSyncCheckpointer, "durability", "full"),
            (SQLiteSyncCheckpointer, "text_index", "True"),
            (SQLiteStore, "durability", "full"),
        )
    ]


def _default(cls: type, option: str) -> object:
    return inspect.signature(cls).parameters[option].default


def environment() -> dict[str, str]:
    """Versions, and what kind of machine this is."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{package: _version(package) for package in ("holdfast", "pydantic", "numpy")},
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load average at the start": f"{os.getloadavg()[0]:.1f}",
    }


def busy() -> bool:
    """Whether others use this machine so much that timings say little."""
    return os.getloadavg()[0] > 0.75 * (os.cpu_count() or 1)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"

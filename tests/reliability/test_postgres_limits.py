"""A PostgreSQL that has no space, no connection or no time left: nothing acknowledged is lost, nothing is saved twice,
every error is one of ours, and it goes on when there is some again."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import StorageFull, Unavailable
from holdfast.memory.backends import PostgreSQLCheckpointer, PostgreSQLSyncCheckpointer
from tests.reliability.invariants import orphans_of
from tests.reliability.writers import Writers
from tests.servers.fixtures import Database
from tests.servers.postgres import PostgresServer, needed

WRITERS = 4


def check(writers: Writers, database: Database) -> None:
    with PostgreSQLSyncCheckpointer(database.url) as checkpointer:
        writers.check(checkpointer)
    assert orphans_of(database.sql) == []


async def disturbed(
    writers: Writers, checkpointer: PostgreSQLCheckpointer, disturb: Callable[[], Awaitable[None]]
) -> None:
    """The writers at work on one object, and something that happens to them."""
    async with checkpointer:
        saving = [asyncio.create_task(writers.save(checkpointer, name)) for name in writers.acknowledged]
        await writers.until(lambda: writers.done >= WRITERS)
        await disturb()
        await asyncio.gather(*saving)


# ── no connection, no time ────────────────────────────────────────────────────────────────────────


async def locked(database: Database, reached: Callable[[], bool], writers: Writers) -> None:
    """Hold the tables until so much has happened to those who wait for them."""
    async with await psycopg.AsyncConnection.connect(database.url) as holding:
        await holding.execute("LOCK TABLE holdfast_threads IN EXCLUSIVE MODE")
        await writers.until(reached)


def test_a_pool_without_a_free_connection_loses_and_doubles_nothing(used_postgres: Database) -> None:
    writers = Writers(12, count=WRITERS)

    async def disturb() -> None:
        await locked(used_postgres, lambda: len(writers.told) >= WRITERS, writers)

    checkpointer = PostgreSQLCheckpointer(used_postgres.url, max_pool_size=1, pool_timeout=0.1)
    asyncio.run(disturbed(writers, checkpointer, disturb))
    assert {type(error) for error in writers.told} == {Unavailable}
    assert all("no connection was free" in str(error) for error in writers.told)
    check(writers, used_postgres)


def test_a_statement_that_takes_longer_than_the_server_allows_loses_and_doubles_nothing(
    used_postgres: Database,
) -> None:
    writers = Writers(12, count=WRITERS)

    async def disturb() -> None:
        for _ in range(2):
            enough = len(writers.told) + WRITERS
            await locked(used_postgres, lambda: len(writers.told) >= enough, writers)  # noqa: B023 (awaited here)

    url = f"{used_postgres.url}&options=-c%20statement_timeout%3D100"
    asyncio.run(disturbed(writers, PostgreSQLCheckpointer(url), disturb))
    assert {type(error) for error in writers.told} == {Unavailable}
    assert all("statement timeout" in str(error) for error in writers.told)
    check(writers, used_postgres)


# ── no space ──────────────────────────────────────────────────────────────────────────────────────


class SmallDisk:
    """A disk in memory, whose size can be changed while it is used."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        made = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(place)]
        if shutil.which("mount") is None or subprocess.run(made, capture_output=True, check=False).returncode:
            pytest.skip("needs tmpfs: mounting one takes root")

    def leave(self, free: int) -> None:
        """Make it so large that so many bytes are free."""
        found = os.statvfs(self.place)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        subprocess.run(["mount", "-o", f"remount,size={used + free}", self.place], check=True)

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", self.place], check=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    needed()
    made = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))  # a socket's path has 107 bytes
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize("full", ["data", "wal"])
def test_a_disk_that_is_full_loses_and_doubles_nothing_and_saving_goes_on_when_there_is_space(
    folder: Path, full: str
) -> None:
    """The tables' disk: the server refuses what does not fit. The log's: it ends at once, as in a crash."""
    disk = SmallDisk(folder / full)
    log = folder / "wal" if full == "data" else disk.place
    server = PostgresServer(folder, "--waldir", log / "segments", "--wal-segsize=1")
    writers = Writers(20, count=WRITERS, padding=lambda: os.urandom(8000).hex())
    for owned in {disk.place, log}:
        owned.mkdir(exist_ok=True)
        server.own(owned)
    disk.place.chmod(0o700)
    try:
        server.start()
        database = Database(server, "postgres")

        async def disturb() -> None:
            disk.leave(200_000)
            await writers.until(lambda: len(writers.told) >= WRITERS or writers.done == 20 * WRITERS)
            assert writers.done < 20 * WRITERS, "there was space for all of it"
            disk.leave(50_000_000)
            if full == "wal":
                await asyncio.to_thread(server.stop, signal.SIGQUIT)
                await asyncio.to_thread(server.start)

        checkpointer = PostgreSQLCheckpointer(database.url, pool_timeout=2)
        asyncio.run(disturbed(writers, checkpointer, disturb))
        assert {type(error) for error in writers.told} == {StorageFull if full == "data" else Unavailable}
        check(writers, database)
    finally:
        server.stop(signal.SIGQUIT)
        disk.remove()

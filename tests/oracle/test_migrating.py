"""`migrate` into Oracle and out of it: what the plans that it uses alone ask of the dialect."""

import asyncio
from pathlib import Path

import pytest

from holdfast.connection import Connection, connect
from holdfast.memory.backends.oracle import OracleCheckpointer
from holdfast.memory.backends.oracle_store import OracleStore
from holdfast.testing.clock import FrozenClock
from tests.memory import test_migrating as migrating
from tests.oracle.place import NEW, Place


@pytest.mark.parametrize("place", NEW, indirect=True)
def test_everything_goes_there_and_back(place: Place, tmp_path: Path) -> None:
    clock = FrozenClock()

    async def run() -> None:
        options = place.options()
        items = {**options, "table_name": f"{options['table_name']}_items"}
        oracle = Connection(OracleCheckpointer(**options, clock=clock), OracleStore(**items, clock=clock))
        first, last = f"sqlite:{tmp_path / 'first.db'}", f"sqlite:{tmp_path / 'last.db'}"
        async with (
            connect(first, clock=clock, **migrating.SPACE) as source,
            connect(last, clock=clock) as end,
        ):
            async with oracle:
                await migrating.fill(source, clock)
                for ours, theirs in ((source, oracle), (oracle, end)):
                    threads, moved = await migrating.both(ours, theirs)
                    assert threads.threads.verified == threads.threads.copied == threads.threads.found > 0
                    assert moved.items.verified == moved.items.copied == moved.items.found > 0
            await migrating.same_threads(source, end)
            await migrating.same_items(source, end)

    asyncio.run(run())

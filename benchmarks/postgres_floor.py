"""The floor on PostgreSQL: one row a turn, with that turn's messages as JSON, committed by itself, prepared.

Only psycopg and the standard library are imported here, so that a peer's environment can use it too.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks.timing import Run
from benchmarks.workload import Turn, encode

_NUMBER = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
_TABLE = f"CREATE TABLE log (id {_NUMBER}, thread TEXT NOT NULL, body TEXT NOT NULL)"
_INSERT = "INSERT INTO log (thread, body) VALUES (%s, %s)"


def sql(url: str, statement: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), params or None)
        return cursor.fetchall() if cursor.description else []


def insert_all_blocking(url: str, turns: Sequence[Turn]) -> Run:
    """Save the conversation turn by turn."""
    run = Run()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)
        begin = time.process_time()
        for turn in turns:
            before = time.process_time()
            connection.execute(_INSERT, ("thread", encode(turn)), prepare=True)
            run.saves.append(time.process_time() - before)
        connection.close()
        run.total = time.process_time() - begin
    return run


async def insert_all(url: str, turns: Sequence[Turn]) -> Run:
    """The same on an event loop."""
    run = Run()
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await connection.execute(_TABLE)
    begin = time.process_time()
    for turn in turns:
        before = time.process_time()
        await connection.execute(_INSERT, ("thread", encode(turn)), prepare=True)
        run.saves.append(time.process_time() - before)
    await connection.close()
    run.total = time.process_time() - begin
    return run


async def insert_many(url: str, conversations: int, turns: Sequence[Turn], connections: int) -> float:
    """So many conversations at once on a few connections; the CPU that it took."""
    first = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await first.execute(_TABLE)
    free: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
    free.put_nowait(first)
    for _ in range(connections - 1):
        free.put_nowait(await psycopg.AsyncConnection.connect(url, autocommit=True))

    async def converse(number: int) -> None:
        for turn in turns:
            connection = await free.get()
            await connection.execute(_INSERT, (f"thread {number}", encode(turn)), prepare=True)
            free.put_nowait(connection)

    begin = time.process_time()
    await asyncio.gather(*map(converse, range(conversations)))
    took = time.process_time() - begin
    while not free.empty():
        await free.get_nowait().close()
    return took


def total_bytes(url: str, prefix: str) -> dict[str, int]:
    """What each table under that prefix takes: its pages, its indexes, its long values, and the maps of all these."""
    found = sql(
        url,
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind IN ('r', 'p')"
        " AND relnamespace = 'public'::regnamespace AND starts_with(relname, %s) ORDER BY relname",
        [prefix],
    )
    return {str(name): int(size) for name, size in found}

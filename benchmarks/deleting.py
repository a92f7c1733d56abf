"""Deleting a thread, against a hand-written delete of the same rows and index entries."""

import asyncio
import shutil
import sqlite3
import time
from collections import Counter
from pathlib import Path

from benchmarks.conversation import THREAD, as_messages, stored_conversation
from benchmarks.report import Measure, fact, within_floor
from benchmarks.settings import Settings, progress
from benchmarks.timing import interleaved
from benchmarks.workload import conversation
from holdfast.core.state import AgentState
from holdfast.memory.backends.sql import text_index
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sqlite import SQLiteCheckpointer, sqlite_tables

OTHER = "another thread"


def run(settings: Settings) -> list[Measure]:
    """The measures of deleting."""
    folder = settings.place("deleting")
    asyncio.run(_prepare(settings, folder / "stored.db"))
    tables = sqlite_tables("holdfast")

    def ours(number: int) -> float:
        return asyncio.run(_delete(_copied(folder, f"ours-{number}.db")))

    def by_hand(number: int) -> float:
        return _delete_by_hand(_copied(folder, f"by-hand-{number}.db"), tables)

    progress("deleting: a thread, in turns with the delete by hand")
    rounds = interleaved({"floor": by_hand, "ours": ours}, settings.repeat)
    return [
        within_floor(
            f"CPU to delete a thread of {settings.turns:,} turns, text index included",
            *(rounds["ours"], rounds["floor"], 3.0),
            floor_name="by hand",
        ),
        fact(
            "what is left of rows and index entries, against the delete by hand",
            *(
                "the same"
                if _left(folder / "ours-0.db", tables) == _left(folder / "by-hand-0.db", tables)
                else "other",
            ),
            "the same",
        ),
    ]


async def _prepare(settings: Settings, path: Path) -> None:
    progress("deleting: storing the conversation")
    turns = conversation(settings.turns, settings.vocabulary)
    await stored_conversation(path, turns)
    async with SQLiteCheckpointer(path) as checkpointer:
        state = AgentState()
        for messages in as_messages(turns[:20]):
            state = state.with_messages(messages)
            await checkpointer.save(state, OTHER)


def _copied(folder: Path, name: str) -> Path:
    return Path(shutil.copy(folder / "stored.db", folder / name))


async def _delete(path: Path) -> float:
    async with SQLiteCheckpointer(path) as checkpointer:
        await checkpointer.exists(THREAD)
        begin = time.process_time()
        deleted = await checkpointer.delete(THREAD)
        spent = time.process_time() - begin
        assert deleted
    return spent


def _delete_by_hand(path: Path, t: Tables) -> float:
    """An index that keeps no text must be told the words that go: to read the messages and cut them is part of it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    (life,) = connection.execute(f"SELECT life FROM {t.threads} WHERE thread_id = ?", (THREAD,)).fetchone()
    begin = time.process_time()
    connection.execute("BEGIN IMMEDIATE")
    query = f"SELECT id, life, body FROM {t.entries} WHERE life = ? AND searchable = 1"
    index_rows = text_index._index_rows(connection.execute(query, (life,)))
    removal = t.text.remove(t.words, index_rows)
    connection.executemany(removal.sql, removal.params)
    for table in (t.entries, t.checkpoints, t.writes, t.hidden, t.lives, t.threads):
        connection.execute(f"DELETE FROM {table} WHERE life = ?", (life,))
    connection.execute("COMMIT")
    spent = time.process_time() - begin
    connection.close()
    return spent


def _left(path: Path, t: Tables) -> Counter[tuple[object, ...]]:
    """How many rows each table has, and in how many rows each word is."""
    connection = sqlite3.connect(path)
    try:
        left: Counter[tuple[object, ...]] = Counter()
        for table in (t.threads, t.lives, t.hidden, t.checkpoints, t.entries, t.writes):
            ((left[(table,)],),) = connection.execute(f"SELECT COUNT(*) FROM {table}")
        connection.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, {t.words}, row)")
        for word, documents in connection.execute("SELECT term, doc FROM vocabulary"):
            left[("word", word)] = documents
        return left
    finally:
        connection.close()

"""The floor: the least that anybody could write by hand and still not lose a turn.

A SQLite table with a rowid, in WAL mode, synchronous FULL; one row a turn with that turn's messages as JSON text, one
commit a turn. It has no versions to speak of, no compare-and-set, no search and no checks.

Only the standard library is imported here, so that a peer's environment can use it too.
"""

import json
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import Run
from benchmarks.workload import Turn, encode


def write_log(path: Path, turns: Sequence[Turn]) -> Run:
    """Save the conversation turn by turn."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, thread TEXT NOT NULL, body TEXT NOT NULL)")
    run = Run()
    begin = time.process_time()
    for turn in turns:
        before = time.process_time()
        connection.execute("INSERT INTO log (thread, body) VALUES (?, ?)", ("thread", encode(turn)))
        run.saves.append(time.process_time() - before)
    connection.close()
    run.total = time.process_time() - begin
    return run


def load_log(path: Path, turns: int) -> list[dict[str, Any]]:
    """The messages of the first so many turns, by a connection of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    rows = connection.execute(
        "SELECT body FROM log WHERE thread = ? AND id <= ? ORDER BY id", ("thread", turns)
    ).fetchall()
    messages = [message for (body,) in rows for message in json.loads(body)]
    connection.close()
    return messages


def file_bytes(path: Path) -> int:
    """What the database takes on disk: the file, and what SQLite keeps beside it."""
    beside = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
    return sum(file.stat().st_size for file in beside if file.exists())


def database_bytes(path: Path) -> int:
    """The pages that the database consists of now, wherever they are: what the file will have after close."""
    connection = sqlite3.connect(path)
    try:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    finally:
        connection.close()
    return int(pages) * int(size)

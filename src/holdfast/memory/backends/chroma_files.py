"""The file of a Chroma directory, where Chroma itself leaves more than it should.

Chroma writes every change to a log (the table ``embeddings_queue``) and shortens the log when it has written its
vector index to files, which for our collections it never does. So we shorten it. A change is not needed there any
more once it has been applied to the records (``max_seq_id`` of the collection's metadata segment says how far that
is); the newest stays, since the numbers of the next ones follow from it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from holdfast.core.errors import Unavailable

_FILE = "chroma.sqlite3"
_APPLIED = (
    "SELECT m.seq_id FROM max_seq_id m JOIN segments s ON s.id = m.segment_id"
    " WHERE s.collection = ? AND s.scope = 'METADATA'"
)
_OF_COLLECTION = "topic LIKE '%/' || ?"


def shorten_log(folder: str, collection: str, busy_seconds: float) -> None:
    """Drop what has been applied, but for the newest."""
    with _connected(folder, busy_seconds) as connection:
        _shorten(connection, collection)


def is_applied(folder: str, collection: str, busy_seconds: float) -> bool:
    """Whether all that is in the log has been applied to the records. Chroma does that when they are read."""
    behind = (
        f"SELECT COUNT(*) FROM embeddings_queue WHERE {_OF_COLLECTION} AND seq_id > COALESCE(({_APPLIED}), 0)"
    )
    with _connected(folder, busy_seconds) as connection:
        ((count,),) = connection.execute(behind, (collection, collection)).fetchall()
        return not count


def erase(folder: str, collection: str, busy_seconds: float) -> None:
    """Drop what has been applied, with the content of the newest, and write the file anew without free pages."""
    with _connected(folder, busy_seconds) as connection:
        _shorten(connection, collection)
        connection.execute(
            f"UPDATE embeddings_queue SET metadata = NULL WHERE {_OF_COLLECTION} AND seq_id <= ({_APPLIED})",
            (collection, collection),
        )
        connection.execute("VACUUM")


def _shorten(connection: sqlite3.Connection, collection: str) -> None:
    connection.execute(
        f"DELETE FROM embeddings_queue WHERE {_OF_COLLECTION} AND seq_id < ({_APPLIED})",
        (collection, collection),
    )


@contextmanager
def _connected(folder: str, busy_seconds: float) -> Iterator[sqlite3.Connection]:
    path = Path(folder) / _FILE
    if not path.is_file():
        raise Unavailable(f"{path} is not there any more")
    with closing(sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)) as connection:
        # Also pages that are new begin as zeros, not as whatever the process had in that memory before.
        connection.execute("PRAGMA secure_delete = ON")
        yield connection

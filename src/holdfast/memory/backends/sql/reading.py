"""Load: a thread's row, a checkpoint's row, and one range of entries for each segment of its lists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.core import codec
from holdfast.core.clock import from_us
from holdfast.core.errors import Corrupt
from holdfast.core.ids import told_sequence
from holdfast.core.sequences import Lines
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.lineage import THREAD_COLUMNS, ThreadRow, thread_row, visible
from holdfast.memory.backends.sql.plan import Batch, Plan, Row, Statement, fetch, last, rows
from holdfast.memory.encoding import decode_id
from holdfast.memory.log import Path, load_lists, path_spans, read_entries, read_joined, seal
from holdfast.memory.records import CheckpointInfo, PendingWrite

T = TypeVar("T")

INFO_COLUMNS = "c.life, c.seq, c.checkpoint_id, c.parent_id, c.created_at, c.metadata"
CHECKPOINT_COLUMNS = f"{INFO_COLUMNS}, c.head, c.lists, c.seal"
JOINED = 256  # positions of a log that are read as one row
_WITHOUT_STATE = 3  # columns behind the first five where the state is left out, at the most


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A row of the table of checkpoints; ids are decoded."""

    life: bytes
    seq: int
    checkpoint_id: str
    parent_id: str | None
    created_at: int
    metadata: str
    head: str = ""
    lists: str = "{}"
    damaged: bool = False

    @property
    def place(self) -> str:
        return f"checkpoint {self.checkpoint_id!r} (life {self.life.hex()}, seq {self.seq})"

    def intact(self) -> "CheckpointRow":
        """The row, if it is what was stored; else :class:`Corrupt`."""
        if self.damaged:
            raise Corrupt(
                f"{self.place} is not what was stored: its row doesn't match its seal", place=self.place
            )
        return self

    def info(self, thread_id: str) -> CheckpointInfo:
        self.intact()
        metadata = (
            {} if self.metadata == "{}" else codec.loads(self.metadata, place=f"metadata of {self.place}")
        )
        if not isinstance(metadata, dict):
            raise Corrupt(f"metadata of {self.place} is not an object", place=self.place)
        try:
            created_at = from_us(self.created_at)
        except (TypeError, OverflowError) as error:
            raise Corrupt(f"{self.place}: its time is {self.created_at!r}", place=self.place) from error
        return CheckpointInfo(thread_id, self.checkpoint_id, self.parent_id, self.seq, created_at, metadata)


def checkpoint_row(row: Row) -> CheckpointRow:
    life, seq, checkpoint_id, parent_id, created_at, *rest = row
    if len(rest) > _WITHOUT_STATE:
        *rest, stored = rest
        rest.append(stored != seal(seq, checkpoint_id, parent_id, created_at, *rest))
    try:
        parent = None if parent_id is None else decode_id(parent_id)
        return CheckpointRow(bytes(life), seq, decode_id(checkpoint_id), parent, created_at, *rest)
    except TypeError as error:
        place = f"checkpoint {checkpoint_id!r} (life {bytes(life).hex()}, seq {seq})"
        raise Corrupt(f"{place}: its id is not text", place=place) from error


def thread_query(t: Tables, key: ThreadKey, *, lock: bool = False) -> Statement:
    suffix = t.dialect.lock if lock else ""
    return rows(
        f"SELECT {THREAD_COLUMNS} FROM {t.threads} WHERE scope = ? AND ns = ? AND thread_id = ?{suffix}", *key
    )


def checkpoint_query(t: Tables, life: bytes, seq: int) -> Statement:
    return rows(
        f"SELECT {CHECKPOINT_COLUMNS} FROM {t.checkpoints} c WHERE c.life = ? AND c.seq = ?", life, seq
    )


def by_id_queries(t: Tables, thread: ThreadRow, encoded_id: str) -> Batch:
    """The checkpoint that the thread shows under that id: one that tells its sequence, or one that has a name."""
    query = (
        f"SELECT {CHECKPOINT_COLUMNS} FROM {t.checkpoints} c WHERE c.checkpoint_id = ?"
        f" AND NOT EXISTS (SELECT 1 FROM {t.hidden} h WHERE h.life = ? AND h.seq = c.seq)"
    )
    told = told_sequence(encoded_id) or 0
    lives = [span.life for span in thread.spans]
    marks = ", ".join("?" * len(lives))
    # Without a range of sequences: a database that takes one for the way in reads the whole thread.
    return [
        rows(f"{query} AND c.life = ? AND c.seq = ?", encoded_id, thread.life, thread.owner(told), told),
        rows(f"{query} AND c.life IN ({marks}) AND c.named IS NOT NULL", encoded_id, thread.life, *lives),
    ]


def entries_sql(t: Tables) -> str:
    """Entries of a log from one position up to another."""
    return (
        f"SELECT pos, size, seal, body FROM {t.entries}"
        " WHERE life = ? AND log = ? AND pos >= ? AND pos < ? ORDER BY pos"
    )


def log_end_sql(t: Tables) -> str:
    """Where a log ends, and with which seal."""
    return f"SELECT pos + size, seal FROM {t.entries} WHERE life = ? AND log = ? ORDER BY pos DESC LIMIT 1"


def find_thread(
    t: Tables, key: ThreadKey, now: int | None = None, *, lock: bool = False
) -> Plan[ThreadRow | None]:
    """The thread's row; with ``now`` only if it hasn't expired by then.

    ``lock``: nobody else changes the thread, or forks it, until this transaction ends. Every plan that writes to a
    thread begins with it, or with a guarded change of the row.
    """
    (found,) = yield [thread_query(t, key, lock=lock)]
    if not found:
        return None
    thread = thread_row(key, found[0])
    return None if now is not None and thread.expired(now) else thread


def row_at(t: Tables, thread: ThreadRow, seq: int) -> Plan[CheckpointRow]:
    """The checkpoint with that sequence, which must be there."""
    life = thread.owner(seq)
    (found,) = yield [checkpoint_query(t, life, seq)]
    if not found:
        place = f"thread {decode_id(thread.thread_id)!r}, life {life.hex()}, seq {seq}"
        raise Corrupt(f"{place}: the checkpoint's row is missing", place=place)
    return checkpoint_row(found[0])


def find_checkpoint(t: Tables, thread: ThreadRow, encoded_id: str) -> Plan[CheckpointRow | None]:
    """The checkpoint with that id, if the thread shows it."""
    by_sequence, by_name = yield by_id_queries(t, thread, encoded_id)
    shown = (
        row for row in map(checkpoint_row, (*by_sequence, *by_name)) if thread.owner(row.seq) == row.life
    )
    return next(shown, None)


def find(
    t: Tables, key: ThreadKey, encoded_id: str | None, now: int, *, lock: bool = False
) -> Plan[tuple[ThreadRow, CheckpointRow] | None]:
    """The head, or that checkpoint, with its thread."""
    thread = yield from find_thread(t, key, now, lock=lock)
    if thread is None:
        return None
    if encoded_id is None:
        return thread, (yield from row_at(t, thread, thread.head_seq))
    found = yield from find_checkpoint(t, thread, encoded_id)
    return None if found is None else (thread, found)


def newest_query(
    t: Tables, thread: ThreadRow, before: int | None, limit: int, also: tuple[str, tuple[Any, ...]] = ("", ())
) -> Statement:
    """Checkpoints that the thread shows, newest first, without their states. ``also``: one more condition on them."""
    condition, params = visible(t, thread)
    condition, params = condition + also[0], [*params, *also[1]]
    if before is not None:
        condition, params = f"{condition} AND c.seq < ?", [*params, before]
    return rows(
        f"SELECT {INFO_COLUMNS} FROM {t.checkpoints} c WHERE {condition} ORDER BY c.seq DESC LIMIT ?",
        *(*params, limit),
    )


def newest(t: Tables, key: ThreadKey, limit: int, before: int | None, now: int) -> Plan[list[CheckpointRow]]:
    """Checkpoints that the thread shows, newest first, without their states.

    Its row and its own checkpoints are asked for together: only a fork that shows inherited ones is asked again.
    """
    mine = f"FROM {t.threads} t WHERE t.scope = ? AND t.ns = ? AND t.thread_id = ?"
    until = "" if before is None else " AND c.seq < ?"
    own = rows(
        f"SELECT {INFO_COLUMNS} FROM {t.checkpoints} c WHERE c.life = (SELECT t.life {mine}){until}"
        f" AND NOT EXISTS (SELECT 1 FROM {t.hidden} h WHERE h.life = c.life AND h.seq = c.seq)"
        " ORDER BY c.seq DESC LIMIT ?",
        *(*key, *(() if before is None else (before,)), limit),
    )
    thread_rows, found = yield last([rows(f"SELECT {THREAD_COLUMNS} {mine}", *key), own])
    thread = thread_row(key, thread_rows[0]) if thread_rows else None
    if thread is None or thread.expired(now):
        return []
    if len(found) < limit and thread.inherited:
        again = yield from find_thread(t, key, now)
        if again is None:
            return []
        (found,) = yield [newest_query(t, again, before, limit)]
    return [checkpoint_row(row) for row in found]


def read_lists(
    t: Tables, checkpoint: CheckpointRow
) -> Plan[tuple[dict[str, Path], Mapping[str, Sequence[str]]]]:
    """The paths of the checkpoint's lists, and their encoded elements, checked against their seals."""
    paths = load_lists(checkpoint.intact().lists, checkpoint.life, checkpoint.place)
    wanted = [(name, span) for name, path in paths.items() for span in path_spans(path)]
    if t.dialect.joined:
        pieces = yield from _read_joined(t, wanted)
        if pieces is not None:
            return paths, {name: pieces.get(name, []) for name in paths}
    sql = entries_sql(t)
    statements = [rows(sql, *span) for _, span in wanted]
    results = (yield statements) if statements else []
    lists: dict[str, list[str]] = {name: [] for name in paths}
    for (name, (_, _, start, end)), found in zip(wanted, results, strict=True):
        lists[name] += read_entries(found, start, end, f"{name} of {checkpoint.place}")
    return paths, lists


def _read_joined(
    t: Tables, wanted: Sequence[tuple[str, tuple[bytes, int, int, int]]]
) -> Plan[dict[str, Lines] | None]:
    """The elements of the lists, read in big pieces; ``None`` if that fails: row by row it can be told why."""
    piece = f"FROM {t.entries} WHERE life = ? AND log = ? AND pos >= ? AND pos < ?"
    bodies = f"SELECT {t.dialect.joined} {piece}"
    ends = f"SELECT seal, pos + size {piece} ORDER BY pos DESC LIMIT 1"
    spans = [
        [
            rows(sql, life, log, at, min(at + JOINED, end))
            for at in range(start, end, JOINED)
            for sql in (bodies, ends)
        ]
        for _, (life, log, start, end) in wanted
    ]
    found = (yield [question for span in spans for question in span]) if spans else []
    answers = iter(found)
    texts: dict[str, list[tuple[bytes, int]]] = {}
    for (name, (_, _, start, end)), span in zip(wanted, spans, strict=True):
        pieces = [(body, *last) for _ in span[::2] for (body,) in next(answers) for last in next(answers)]
        checked = read_joined(pieces, start, end)
        if checked is None:
            return None
        texts.setdefault(name, []).extend(checked)
    return {name: Lines(found) for name, found in texts.items()}


def decode(
    checkpoint: CheckpointRow,
    lists: Mapping[str, Sequence[str]],
    join: Callable[[str, Mapping[str, Sequence[str]]], T],
) -> T:
    """The value that was saved; damage is reported with the place where it is."""
    try:
        return join(checkpoint.head, lists)
    except Corrupt as error:
        raise Corrupt(f"{checkpoint.place}: {error}", place=f"{checkpoint.place}, {error.place}") from error


def read_writes(t: Tables, life: bytes, seq: int, task_id: str | None = None) -> Plan[list[PendingWrite]]:
    """Pending writes at a checkpoint, in order."""
    condition, params = ("", ()) if task_id is None else (" AND task_id = ?", (task_id,))
    found = yield from fetch(
        f"SELECT task_id, idx, channel, value FROM {t.writes} WHERE life = ? AND seq = ?{condition}",
        life,
        seq,
        *params,
    )
    writes = [
        PendingWrite(
            decode_id(task), idx, decode_id(channel), codec.loads(value, place=f"write {task!r} {idx}")
        )
        for task, idx, channel, value in found
    ]
    return sorted(writes, key=lambda write: (write.task_id, write.idx))


def metadata_has(checkpoint: CheckpointRow, key: str, value: Any) -> bool:
    """Whether the metadata has that key with just that value."""
    metadata = checkpoint.info("").metadata
    return key in metadata and codec.same(metadata[key], value)

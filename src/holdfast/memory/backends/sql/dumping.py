"""A whole thread out of the tables and into them, each entry once."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core import codec
from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.core.ids import new_key
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.keys import named
from holdfast.memory.backends.sql.lineage import ThreadRow, count_save, new_thread, visible
from holdfast.memory.backends.sql.plan import Plan, Statement, change, execute, fetch, many
from holdfast.memory.backends.sql.reading import CHECKPOINT_COLUMNS, checkpoint_row
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.log import (
    EMPTY,
    LOGS_A_SAVE,
    Entry,
    KnownList,
    Path,
    Place,
    dump_lists,
    grow,
    load_lists,
    path_spans,
    read_entries,
    seal,
    shared_length,
)
from holdfast.memory.requests import DumpRecord, ListDelta

Logs = dict[tuple[bytes, int], tuple[int, list[str]]]


@dataclass(frozen=True, slots=True)
class Dump:
    records: list[DumpRecord]
    sequences: list[int]


def dump_thread(t: Tables, thread: ThreadRow, upto: int | None = None) -> Plan[Dump]:
    """All checkpoints that the thread shows, oldest first, each as a change from the one before."""
    condition, params = visible(t, thread)
    if upto is not None:
        condition, params = f"{condition} AND c.seq <= ?", [*params, upto]
    found = yield from fetch(
        f"SELECT {CHECKPOINT_COLUMNS} FROM {t.checkpoints} c WHERE {condition} ORDER BY c.seq", *params
    )
    rows_ = [checkpoint_row(row).intact() for row in found]
    if upto is None and (not rows_ or rows_[-1].seq != thread.head_seq):
        place = f"thread {decode_id(thread.thread_id)!r}, life {thread.life.hex()}, seq {thread.head_seq}"
        raise Corrupt(f"{place}: the newest checkpoint's row is missing", place=place)
    lists = [load_lists(row.lists, row.life, row.place) for row in rows_]
    logs = yield from _read_logs(t, [path for each in lists for path in each.values()])
    writes = yield from _writes(t, thread.life)
    records: list[DumpRecord] = []
    previous: dict[str, Path] = {}
    for row, paths in zip(rows_, lists, strict=True):
        records.append(
            DumpRecord(
                checkpoint_id=row.checkpoint_id,
                parent_id=row.parent_id,
                created_us=row.created_at,
                metadata=row.info("").metadata,
                head=row.head,
                lists={
                    name: _delta(previous.get(name, ()), path, logs, f"{name} of {row.place}")
                    for name, path in paths.items()
                },
                writes=writes.get(row.seq, []),
            )
        )
        previous = paths
    return Dump(records, [row.seq for row in rows_])


def restore_thread(
    t: Tables,
    key: ThreadKey,
    records: Sequence[DumpRecord],
    sequences: Sequence[int] | None,
    prefix: bytes,
    now: int,
    expires: int | None,
    *,
    created: int | None = None,
) -> Plan[None]:
    """Write records as a new thread, which must not exist."""
    if not records:
        raise InvalidInput(f"thread {decode_id(key[2])!r} has no checkpoint: there is nothing to restore")
    life = new_key(prefix)
    sequences = list(sequences or range(1, len(records) + 1))
    known: dict[str, KnownList] = {}
    for record, seq in zip(records, sequences, strict=True):
        known, statements = _restore_record(t, life, seq, record, known)
        yield from execute(*statements)
    yield from execute(
        new_thread(t, key, life, sequences[-1], now, expires, created=created, pending=1),
        change(f"INSERT INTO {t.lives} (life, scope, ns, thread_id) VALUES (?, ?, ?, ?)", life, *key),
        *count_save(t, key),
    )


def _restore_record(
    t: Tables, life: bytes, seq: int, record: DumpRecord, known: dict[str, KnownList]
) -> tuple[dict[str, KnownList], list[Statement]]:
    entries: list[Entry] = []
    lists: dict[str, KnownList] = {}
    for index, (name, delta) in enumerate(record.lists.items()):
        before = known.get(name, EMPTY)
        if not 0 <= delta.keep <= len(before.elements):
            raise InvalidInput(
                f"checkpoint {record.checkpoint_id!r} keeps {delta.keep} {name}, there are fewer"
            )
        elements = (*before.elements[: delta.keep], *delta.add)
        place = Place(life, seq * LOGS_A_SAVE + index, str, int(name == "messages"))
        lists[name], added = grow(before, elements, place)
        entries += added
    lists = {name: value for name, value in lists.items() if value.elements}
    parent = None if record.parent_id is None else encode_id(record.parent_id)
    columns = (
        *(seq, encode_id(record.checkpoint_id), parent, record.created_us),
        *(codec.dumps(dict(record.metadata)), record.head, dump_lists(lists, life)),
    )
    return lists, [
        change(
            f"INSERT INTO {t.checkpoints} (life, seq, checkpoint_id, parent_id, created_at, metadata, head, lists,"
            " seal, named) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(life, *columns, seal(*columns), named(columns[1], seq)),
        ),
        many(
            f"INSERT INTO {t.entries} (seq, life, log, pos, size, searchable, seal, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(seq, *entry) for entry in entries],
        ),
        *_to_index(t, entries),
        many(
            f"INSERT INTO {t.writes} (life, seq, task_id, idx, channel, value) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (life, seq, encode_id(task), idx, encode_id(channel), codec.dumps(v))
                for task, idx, channel, v in record.writes
            ],
        ),
    ]


def _to_index(t: Tables, entries: Sequence[Entry]) -> list[Statement]:
    if not t.dialect.queued:
        return []
    places = [entry[:3] for entry in entries if entry.searchable]
    return [many(f"INSERT INTO {t.unindexed} (life, log, pos) VALUES (?, ?, ?)", places)]


def _delta(before: Path, after: Path, logs: Logs, place: str) -> ListDelta:
    keep = shared_length(before, after)
    lines: list[str] = []
    for life, log, start, end in path_spans(after):
        first, found = logs[life, log]
        if first + len(found) < end or first > start:
            raise Corrupt(
                f"{place} has fewer entries than it should: {first + len(found)} of {end}", place=place
            )
        lines += found[max(start, keep) - first : max(end - first, 0)]
    return ListDelta(keep, lines)


def _read_logs(t: Tables, paths: Sequence[Path]) -> Plan[Logs]:
    """The lines of all logs that the paths lead through, with the position of the first one."""
    logs: Logs = {}
    for life, log in dict.fromkeys((life, log) for path in paths for life, log, _ in path):
        found = yield from fetch(
            f"SELECT pos, size, seal, body FROM {t.entries} WHERE life = ? AND log = ? ORDER BY pos",
            life,
            log,
        )
        first, end = (found[0][0], found[-1][0] + found[-1][1]) if found else (0, 0)
        logs[life, log] = first, read_entries(found, first, end, f"log {log} of life {life.hex()}")
    return logs


def _writes(t: Tables, life: bytes) -> Plan[dict[int, list[tuple[str, int, str, object]]]]:
    found = yield from fetch(
        f"SELECT seq, task_id, idx, channel, value FROM {t.writes} WHERE life = ? ORDER BY seq, task_id, idx",
        life,
    )
    writes: dict[int, list[tuple[str, int, str, object]]] = {}
    for seq, task_id, idx, channel, value in found:
        write = (
            decode_id(task_id),
            idx,
            decode_id(channel),
            codec.loads(value, place=f"write {task_id!r} {idx}"),
        )
        writes.setdefault(seq, []).append(write)
    return writes

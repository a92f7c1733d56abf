"""Save: the new entries and one small row, in one transaction, whatever the length of the thread.

The head is moved first, by an update that changes a row only if the head is what the writer thinks: it guards all
that follows. A writer that knows the head (it saved or loaded it) need not read anything before.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from holdfast.core.errors import Conflict
from holdfast.core.ids import MAX_TOLD_SEQUENCE, new_id_with, new_key
from holdfast.core.unset import UNSET, UnsetType
from holdfast.memory.backends.sql.deleting import delete_thread
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.foresight import foresee_save
from holdfast.memory.backends.sql.heads import Heads, KnownHead, ThreadKey
from holdfast.memory.backends.sql.keys import named, scope_number, scope_prefix
from holdfast.memory.backends.sql.lineage import ThreadRow, count_save, new_thread, next_number, thread_sql
from holdfast.memory.backends.sql.plan import LAST, LAST_GUARD, REPEATABLE, Plan, Statement, many, rows
from holdfast.memory.backends.sql.reading import (
    CheckpointRow,
    find_checkpoint,
    find_thread,
    log_end_sql,
    read_lists,
    row_at,
)
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.log import (
    EMPTY,
    LOGS_A_SAVE,
    Entry,
    KnownList,
    Parts,
    Path,
    Place,
    dump_lists,
    grow,
    seal,
)

_new = tuple.__new__  # see `log`


class NewCheckpoint(NamedTuple):
    """What is to be saved. ``parent`` is compared with the head; its pending writes are folded in, and go.

    Without a ``checkpoint_id`` it gets one that tells its sequence.

    ``recorded_parent``: for a saver, whose callers say themselves what the parent is.
    """

    key: ThreadKey
    checkpoint_id: str | None
    metadata: str
    parts: Parts
    parent: str | UnsetType | None
    now: int
    expires: int | None
    recorded_parent: str | UnsetType | None = UNSET


class Saved(NamedTuple):
    """``head`` is ``None`` if there was nothing to do; ``entries``: how many were written."""

    checkpoint_id: str
    head: KnownHead | None
    entries: int = 0


class Saver:
    """The plans of a save, with their SQL made once."""

    def __init__(self, tables: Tables, heads: Heads) -> None:
        t = self._tables = tables
        self._heads = heads
        self._threads = t.threads
        mine = (
            "scope = ? AND ns = ? AND thread_id = ? AND life = ? AND head_seq = ? AND next_seq = ?"
            " AND pending <= ? AND (expires_at IS NULL OR expires_at > ?)"
        )
        move = (
            f"UPDATE {t.threads} SET head_seq = ?, next_seq = ?, updated_at = ?, pending = 0, expires_at = "
        )
        numbers = f"FROM {t.threads} WHERE scope = ? AND ns = ?"
        self._foresees = bool(t.dialect.spans)
        self._numbered = bool(t.dialect.numbering)
        self._counted = t.dialect.counted
        self._likely_newest = _never if self._numbered or self._counted else heads.likely_newest
        if self._counted:
            moved = f" WHERE {mine}"
        elif self._numbered:
            moved = f", saved = DEFAULT WHERE {t.dialect.holding} AND {mine}"
        else:
            moved = f", saved = (SELECT {next_number(t)} {numbers}) WHERE {mine}"
        # A thread that was saved last keeps its number: the index over the numbers is left alone.
        stayed = f" WHERE {mine} AND saved = (SELECT MAX(saved) {numbers})"
        # What is NULL in most rows is part of the SQL: a driver may take long to bind it.
        self._move_sql, self._move_to_expire_sql = f"{move}NULL{moved}", f"{move}?{moved}"
        self._stay_sql, self._stay_to_expire_sql = f"{move}NULL{stayed}", f"{move}?{stayed}"
        self._thread_sql = thread_sql(t)
        columns = "life, seq, checkpoint_id, parent_id, created_at, metadata, head, lists, seal"
        checkpoint = f"INSERT INTO {t.checkpoints} ({columns}"
        self._checkpoint_sql = f"{checkpoint}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._named_sql = f"{checkpoint}, named) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"
        self._bind_key = t.dialect.bind_key
        self._entry_sql = (
            f"INSERT INTO {t.entries} (seq, life, log, pos, size, searchable, seal, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        self._life_sql = f"INSERT INTO {t.lives} (life, scope, ns, thread_id) VALUES (?, ?, ?, ?)"
        self._fold_sql = f"DELETE FROM {t.writes} WHERE life = ? AND seq = ?"

    def save(self, new: NewCheckpoint) -> Plan[Saved]:
        """Append a checkpoint; see :meth:`BaseCheckpointer.save` for the rules."""
        known = self._heads.get(new.key) if new.checkpoint_id is None else None
        if known is not None and (new.parent is UNSET or new.parent == known.checkpoint_id):
            head, entries, certain = _next_head(known, new)
            if certain:
                rest = self._insert(head, known, entries, new)
                if self._counted:
                    rest += count_save(self._tables, new.key)
                moved = False
                if self._likely_newest(new.key):
                    moved = (yield [self._stay(known, new), *rest])[0]
                if moved or (yield [self._move(known, new, 0), *rest])[0]:
                    return _saved(head, entries)
        if not self._foresees:
            return (yield from self._save_on_stored(new))
        wanted = None if new.checkpoint_id is None else encode_id(new.checkpoint_id)
        unknown = self._heads.get(new.key) is None
        stored = partial(self._save_on_stored, new)
        return (yield from foresee_save(self._tables, new.key, wanted, stored, lists=unknown))

    def _save_on_stored(self, new: NewCheckpoint) -> Plan[Saved]:
        t = self._tables
        row = yield from find_thread(t, new.key, lock=True)
        if row is not None and row.expired(new.now):
            yield from delete_thread(t, row)
            row = None
        if row is None:
            return (yield from self._save_first(new))
        if new.checkpoint_id is not None:
            twin = yield from find_checkpoint(t, row, encode_id(new.checkpoint_id))
            if twin is not None:
                return (yield from self._save_again(twin, new))
        parent = (yield from row_at(t, row, row.head_seq)).intact()
        if new.parent is not UNSET and new.parent != parent.checkpoint_id:
            raise _conflict(new, parent.checkpoint_id)
        known = yield from self._known_head(row, parent, new)
        head, entries, _ = _next_head(known, new)
        move = self._move(known, new, row.pending)
        if new.checkpoint_id is not None:  # it would find itself
            move = move._replace(mark=LAST_GUARD | REPEATABLE)
        statements = [move, *self._insert(head, known, entries, new)]
        if row.pending and isinstance(new.parent, str):
            statements.append(Statement("change", self._fold_sql, (row.life, row.head_seq)))
        if row.next_seq == row.own.first:
            statements.append(Statement("change", self._life_sql, (row.life, *new.key)))
        statements += count_save(t, new.key)
        moved, *_ = yield statements
        if not moved:
            raise Conflict(f"thread {decode_id(new.key[2])!r} was changed while it was saved: try again")
        return _saved(head, entries)

    def _save_again(self, twin: CheckpointRow, new: NewCheckpoint) -> Plan[Saved]:
        """The same save again is done already; another one under the same id is refused."""
        _, stored = yield from read_lists(self._tables, twin)
        same_parent = new.parent is UNSET or new.parent == twin.parent_id
        if same_parent and _same_content(twin, stored, new):
            return Saved(twin.checkpoint_id, None)
        what = "another state or metadata" if same_parent else "another parent"
        raise Conflict(
            f"checkpoint {twin.checkpoint_id!r} exists already, with {what}",
            expected=None if new.parent is UNSET else new.parent,
            actual=twin.checkpoint_id,
        )

    def _save_first(self, new: NewCheckpoint) -> Plan[Saved]:
        if isinstance(new.parent, str):
            raise _conflict(new, None)
        life = new_key(scope_prefix(new.key[0]))
        before = KnownHead(life, 0, 1, None, {})
        head, entries, _ = _next_head(before, new)
        mark = LAST if new.checkpoint_id is None else LAST | REPEATABLE
        yield [
            new_thread(self._tables, new.key, life, 1, new.now, new.expires, sql=self._thread_sql, mark=mark),
            *self._insert(head, before, entries, new),
            Statement("change", self._life_sql, (life, *new.key)),
            *count_save(self._tables, new.key),
        ]
        return _saved(head, entries)

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def _move(self, known: KnownHead, new: NewCheckpoint, pending: int) -> Statement:
        """Move the head, if it is where we think, and make the thread the one that was saved last.

        ``pending=0``: only if it has no pending writes, so that none have to be folded in.
        """
        scope, ns, _ = new.key
        life, seq, next_seq, _, _ = known
        sql = self._move_sql if new.expires is None else self._move_to_expire_sql
        expires = () if new.expires is None else (new.expires,)
        place = (*new.key, self._bind_key(life), seq, next_seq)
        if self._counted:
            numbers: tuple[Any, ...] = ()
        elif self._numbered:
            numbers = (scope_number(self._threads, scope, ns),)
        else:
            numbers = (new.now, scope, ns)
        values = (next_seq, next_seq + 1, new.now, *expires, *numbers, *place, pending, new.now)
        return _new(Statement, ("change", sql, values, LAST_GUARD))

    def _stay(self, known: KnownHead, new: NewCheckpoint) -> Statement:
        """Move the head of a thread that is the one that was saved last and has no pending writes."""
        scope, ns, thread_id = new.key
        life, seq, next_seq, _, _ = known
        now, after, key = new.now, next_seq + 1, self._bind_key(life)
        if new.expires is None:
            values = (next_seq, after, now, scope, ns, thread_id, key, seq, next_seq, 0, now, scope, ns)
            return _new(Statement, ("change", self._stay_sql, values, LAST_GUARD))
        place = (*new.key, key, seq, next_seq)
        expiring = (next_seq, after, now, new.expires, *place, 0, now, scope, ns)
        return _new(Statement, ("change", self._stay_to_expire_sql, expiring, LAST_GUARD))

    def _insert(
        self, head: KnownHead, known: KnownHead, entries: list[Entry], new: NewCheckpoint
    ) -> list[Statement]:
        life, seq, _, checkpoint_id, lists = head
        assert checkpoint_id is not None
        parent = known.checkpoint_id if new.recorded_parent is UNSET else new.recorded_parent
        if parent is not None:
            parent = encode_id(parent)
        sql = self._checkpoint_sql
        if (
            new.checkpoint_id is not None or seq > MAX_TOLD_SEQUENCE
        ):  # else it tells its sequence, in plain digits
            checkpoint_id = encode_id(checkpoint_id)
            if named(checkpoint_id, seq) is not None:
                sql = self._named_sql
        paths = dump_lists(lists, life)
        columns = (seq, checkpoint_id, parent, new.now, new.metadata, new.parts.head, paths)
        key = self._bind_key(life)
        statements = [_new(Statement, ("change", sql, (key, *columns, seal(*columns)), 0))]
        if len(entries) == 1:
            values = (seq, key, *entries[0][1:])
            statements.append(_new(Statement, ("change", self._entry_sql, values, 0)))
        elif entries:
            statements.append(many(self._entry_sql, [(seq, *entry) for entry in entries]))
        return statements

    # ── what is stored already ────────────────────────────────────────────────────────────────────

    def _known_head(self, row: ThreadRow, parent: CheckpointRow, new: NewCheckpoint) -> Plan[KnownHead]:
        """The head with the elements that the new state shares with it, from this process or from the database."""
        known = self._heads.get(new.key)
        # With another next sequence the log may have grown since, by a checkpoint that only a fork still shows.
        if known is not None and known[:3] != (row.life, row.head_seq, row.next_seq):
            known = None
        lists: dict[str, KnownList] = {}
        if known is None:
            paths, stored = yield from read_lists(self._tables, parent)
            for name in paths.keys() & new.parts.lists.keys():
                elements = _shared(stored[name], new.parts.lists[name], new.parts.encoders[name])
                lists[name] = KnownList(paths[name], elements, False)
        else:
            lists.update(known.lists)
        for name, before in lists.items():
            if not before.at_end:
                ending = yield from self._end_of_log(before.path, row.life)
                lists[name] = before._replace(at_end=ending is not None, seal=ending)
        return KnownHead(row.life, row.head_seq, row.next_seq, parent.checkpoint_id, lists)

    def _end_of_log(self, path: Path, life: bytes) -> Plan[int | None]:
        """The seal of the path's last log, if that is of this life and has nothing after the path."""
        if not path or path[-1].life != life:
            return None
        tail = path[-1]
        (found,) = yield [rows(log_end_sql(self._tables), life, tail.log)]
        return found[0][1] if found and found[0][0] == tail.end else None


class ListingSaver(Saver):
    """A saver that lists what is to be indexed."""

    def __init__(self, tables: Tables, heads: Heads) -> None:
        super().__init__(tables, heads)
        self._listed_sql = f"INSERT INTO {tables.unindexed} (life, log, pos) VALUES (?, ?, ?)"

    def _insert(
        self, head: KnownHead, known: KnownHead, entries: list[Entry], new: NewCheckpoint
    ) -> list[Statement]:
        places = [entry[:3] for entry in entries if entry.searchable]
        return [*super()._insert(head, known, entries, new), many(self._listed_sql, places)]


def new_saver(tables: Tables, heads: Heads) -> Saver:
    """The saver for these tables. Where what is to be indexed is listed, it always is: others may search for it."""
    return (ListingSaver if tables.dialect.queued else Saver)(tables, heads)


def _shared(stored: Sequence[str], ours: Sequence[Any], encode: Callable[[Any], str]) -> tuple[Any, ...]:
    """Our own elements for those that are stored the same, and for the rest what equals nothing."""
    length = 0
    for text, element in zip(stored, ours, strict=False):
        if encode(element) != text:
            break
        length += 1
    return (*ours[:length], *(_Other() for _ in range(len(stored) - length)))


def _never(_: ThreadKey) -> bool:
    """Where numbers are drawn from the database a thread always gets a new one: to ask first costs a round trip."""
    return False


def _saved(head: KnownHead, entries: list[Entry]) -> Saved:
    assert head.checkpoint_id is not None
    return _new(Saved, (head.checkpoint_id, head, len(entries)))


class _Other:
    """A stored element that is not one of ours."""

    __slots__ = ()


def _next_head(known: KnownHead, new: NewCheckpoint) -> tuple[KnownHead, list[Entry], bool]:
    """The head after this save, the entries to write, and whether it is certain that they can be appended."""
    life, _, seq, _, known_lists = known
    _, parts_lists, encoders, searchable = new.parts
    entries: list[Entry] = []
    lists: dict[str, KnownList] = {}
    certain = True
    for index, (name, elements) in enumerate(parts_lists.items()):
        before = known_lists.get(name, EMPTY)
        place = _new(Place, (life, seq * LOGS_A_SAVE + index, encoders[name], int(name == searchable)))
        lists[name], added = grow(before, elements, place)
        if added:
            certain = certain and before.at_end
            entries += added
    checkpoint_id = new_id_with(seq) if new.checkpoint_id is None else new.checkpoint_id
    return _new(KnownHead, (life, seq, seq + 1, checkpoint_id, lists)), entries, certain


def _same_content(twin: CheckpointRow, stored: Mapping[str, Sequence[str]], new: NewCheckpoint) -> bool:
    head, lists, encoders, _ = new.parts
    if twin.head != head or twin.metadata != new.metadata or stored.keys() != lists.keys():
        return False
    return all(list(stored[name]) == list(map(encoders[name], lists[name])) for name in lists)


def _conflict(new: NewCheckpoint, actual: str | None) -> Conflict:
    thread_id = decode_id(new.key[2])
    if new.parent is None:
        return Conflict(
            f"thread {thread_id!r} exists already, with head {actual!r}", expected=None, actual=actual
        )
    return Conflict(
        f"the head of thread {thread_id!r} is {actual!r}, not {new.parent!r}: load it and try again",
        expected=new.parent,
        actual=actual,
    )

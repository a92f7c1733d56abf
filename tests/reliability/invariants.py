"""What must hold in tables of checkpoints at any moment, asked with SQL of its own: nothing here reads by our plans."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from holdfast.memory.backends.sql.text_index import line_text
from holdfast.memory.text import analyse


def integrity(path: Path) -> str:
    """The answer of SQLite's own check: "ok", or what is wrong."""
    connection = sqlite3.connect(path)
    try:
        return "\n".join(text for (text,) in connection.execute("PRAGMA integrity_check"))
    finally:
        connection.close()


def orphans(path: Path, prefix: str = "holdfast") -> list[str]:
    """Every row that refers to something that is not there, or that nothing needs. Empty: all is well."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("BEGIN")
        rows = _Rows(lambda statement: connection.execute(statement).fetchall(), prefix)
        return [*rows.complaints(), *rows.text_index(connection)]
    finally:
        connection.close()


def orphans_of(sql: Callable[[str], list[Any]], prefix: str = "holdfast") -> list[str]:
    """The same of a server that answers statements, without its text index, which each database has in its own way."""
    return list(_Rows(sql, prefix).complaints())


def assert_sound(path: Path, prefix: str = "holdfast") -> None:
    """The file is a whole database without a dangling or left-over row."""
    assert integrity(path) == "ok"
    assert orphans(path, prefix) == []


class _Thread(NamedTuple):
    name: str
    life: bytes
    head_seq: int
    next_seq: int
    pending: int
    spans: list[tuple[bytes, int, int]]

    def owner(self, seq: int) -> bytes:
        return next(life for life, first, last in self.spans if first <= seq <= last)


class _Entry(NamedTuple):
    id: int
    life: bytes
    log: int
    pos: int
    size: int
    searchable: int
    seal: int
    body: str

    @property
    def place(self) -> str:
        return f"entry {(self.life.hex(), self.log, self.pos)}"

    def words(self) -> set[str]:
        return {word.replace("'", "_") for line in self.body.split("\n") for word in analyse(line_text(line))}


class _Rows:
    def __init__(self, sql: Callable[[str], list[Any]], prefix: str) -> None:
        def all_of(table: str, columns: str) -> list[Any]:
            return sql(f"SELECT {columns} FROM {prefix}_{table}")

        self._words = f"{prefix}_words"
        self.meta = dict(all_of("meta", "name, value"))
        self.threads = [
            _thread(row) for row in all_of("threads", "thread_id, life, head_seq, next_seq, pending, lineage")
        ]
        self.bases = {life: (base, upto) for life, base, upto in all_of("threads", "life, base, upto")}
        self.lives = {life for (life,) in all_of("lives", "life")}
        self.ghosts = {life: (base, upto) for base, life, upto in all_of("ghosts", "base, life, upto")}
        self.hidden = set(all_of("hidden", "life, seq"))
        self.checkpoints = {
            (life, seq): text for life, seq, text in all_of("checkpoints", "life, seq, lists")
        }
        self.entries = [_Entry(*row) for row in all_of("entries", ", ".join(_Entry._fields))]
        self.writes = set(all_of("writes", "life, seq"))

    def complaints(self) -> Iterator[str]:
        yield from self._threads()
        yield from self._references()
        yield from self._needless_checkpoints()
        yield from self._lists()

    def _visible(self, thread: _Thread) -> set[int]:
        return {
            seq
            for life, seq in self.checkpoints
            for owner, first, last in thread.spans
            if life == owner and first <= seq <= last and (thread.life, seq) not in self.hidden
        }

    def _threads(self) -> Iterator[str]:
        for thread in self.threads:
            visible = self._visible(thread)
            if not visible or max(visible) != thread.head_seq:
                yield f"thread {thread.name!r}: its head is {thread.head_seq}, it shows {sorted(visible)}"
            if visible and thread.next_seq <= max(visible):
                yield f"thread {thread.name!r}: its next sequence {thread.next_seq} is used already"
            if (thread.life, thread.head_seq) in self.writes and not thread.pending:
                yield f"thread {thread.name!r}: its head has pending writes, its row says that it has none"
            owns = any(life == thread.life for life, _ in self.checkpoints)
            if owns and thread.life not in self.lives:
                yield f"thread {thread.name!r} has checkpoints of its own and no row in lives"

    def _references(self) -> Iterator[str]:
        by_life = {thread.life: thread for thread in self.threads}
        yield from (f"life {life.hex()} has no thread" for life in self.lives - by_life.keys())
        yield from self._bases()
        for table, places in (("hidden", self.hidden), ("writes", self.writes)):
            for life, seq in places:
                thread = by_life.get(life)
                if thread is None or (thread.owner(seq), seq) not in self.checkpoints:
                    yield f"{table} {(life.hex(), seq)} refers to no checkpoint of a thread"
        for life, seq in self.writes & self.hidden:
            yield f"writes {(life.hex(), seq)} are at a hidden checkpoint"

    def _bases(self) -> Iterator[str]:
        """A fork's base and its base's, and so on, are its lineage; there is no ghost without a reader."""
        read: set[bytes] = set()
        for thread in self.threads:
            life = thread.life
            edges: list[tuple[bytes, int]] = []
            while (edge := self.bases.get(life) or self.ghosts.get(life)) is not None and edge[0] is not None:
                edges.insert(0, edge)
                life = edge[0]
                read.add(life)
            lineage = [(base, last) for base, _, last in thread.spans[:-1]]
            if edges != lineage:
                yield f"thread {thread.name!r} inherits {lineage}, its bases say {edges}"
        for life in self.ghosts.keys() - read:
            yield f"ghost {life.hex()} is read by no thread"
        for life in read - self.ghosts.keys() - self.bases.keys():
            yield f"life {life.hex()} is read, and has neither a thread nor a ghost"
        for life in self.ghosts.keys() & self.bases.keys():
            yield f"life {life.hex()} is a ghost and has a thread"

    def _needless_checkpoints(self) -> Iterator[str]:
        own = {thread.life for thread in self.threads}
        for life, seq in self.checkpoints:
            edges = [*self.bases.values(), *self.ghosts.values()]
            read_by_fork = any(base == life and seq <= upto for base, upto in edges)
            if not read_by_fork and (life not in own or (life, seq) in self.hidden):
                yield f"checkpoint {(life.hex(), seq)} is shown by no thread and read by no fork"

    def _lists(self) -> Iterator[str]:
        stored: set[tuple[bytes, int, int]] = set()
        seals: dict[tuple[bytes, int], int] = {}
        for entry in sorted(self.entries, key=lambda entry: (entry.life, entry.log, entry.pos)):
            before = seals.get((entry.life, entry.log))
            text = entry.body if before is None else f"\n{entry.body}"
            seals[entry.life, entry.log] = entry.seal
            places = {(entry.life, entry.log, entry.pos + line) for line in range(entry.size)}
            if (
                entry.seal != crc32(text.encode(), entry.pos if before is None else before)
                or entry.size != entry.body.count("\n") + 1
            ):
                yield f"{entry.place} is not what its seal and size say"
            if stored & places:
                yield f"{entry.place} is stored twice"
            stored |= places
        needed: dict[tuple[bytes, int], int] = {}
        for (life, seq), text in self.checkpoints.items():
            for name, path in json.loads(text).items():
                start = 0
                for part in path:
                    owner = life if len(part) == 2 else bytes.fromhex(part[0])
                    log, end = part[-2:]
                    if owner == life:
                        needed[life, log] = max(needed.get((life, log), 0), end)
                    missing = {(owner, log, position) for position in range(start, end)} - stored
                    if missing or end <= start:
                        yield f"{name} of checkpoint {(life.hex(), seq)}: log {log} up to {end} is not all there"
                    start = end
        for entry in self.entries:
            if entry.pos >= needed.get((entry.life, entry.log), 0):
                yield f"{entry.place} is in no checkpoint of its life"

    def text_index(self, connection: sqlite3.Connection) -> Iterator[str]:
        watermark = int(self.meta.get("text:watermark", 0))
        indexed: dict[int, set[str]] = {}
        connection.execute(
            f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, {self._words}, instance)"
        )
        for term, number in connection.execute("SELECT term, doc FROM temp.vocabulary"):
            indexed.setdefault(number, set()).add(term)
        wanted = {
            entry.id: {f"__{entry.life[:6].hex()}", *entry.words()}
            for entry in self.entries
            if entry.searchable and entry.id <= watermark
        }
        for number in indexed.keys() | wanted.keys():
            if indexed.get(number) != wanted.get(number):
                yield f"text index: row {number} has {indexed.get(number)}, its entry {wanted.get(number)}"


def _thread(row: tuple[Any, ...]) -> _Thread:
    name, life, head_seq, next_seq, pending, lineage = row
    spans: list[tuple[bytes, int, int]] = []
    first = 1
    for base, last in json.loads(lineage):
        spans.append((bytes.fromhex(base), first, last))
        first = last + 1
    return _Thread(name, life, head_seq, next_seq, pending, [*spans, (life, first, 2**62)])

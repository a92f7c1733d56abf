"""Listings, last saved first, and full-text search: an entry is indexed once and found in every thread that has it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.core.errors import Corrupt
from holdfast.memory.backends.sql import text_index
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.forks import readers
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.lineage import THREAD_COLUMNS, ThreadRow, thread_row, visible
from holdfast.memory.backends.sql.plan import Plan, fetch
from holdfast.memory.backends.sql.reading import (
    CheckpointRow,
    checkpoint_row,
    find_thread,
    metadata_has,
    newest,
)
from holdfast.memory.encoding import decode_id, encode_id
from holdfast.memory.glob import compile_glob, literal_prefix
from holdfast.memory.log import load_lists, path_spans
from holdfast.memory.paging import RecencyCursor
from holdfast.memory.ranking import bm25
from holdfast.memory.records import CheckpointInfo, Page
from holdfast.memory.text import snippet

_THREADS_A_QUERY = 500
_CHECKPOINTS_A_QUERY = 200
_LEAST_WINDOW = 64


def list_threads(
    t: Tables, scope: str, ns: str, pattern: str, limit: int, after: str | None, now: int
) -> Plan[Page[str]]:
    """Thread ids that match, last saved first."""
    newest_number = yield from _newest_number(t, scope, ns)
    cursor = RecencyCursor.open(after, "threads", newest_number)
    matches = compile_glob(pattern).fullmatch
    found: list[str] = []
    for low, top in cursor.spans(newest_number):
        high = top
        while low <= high:
            rows = yield from _thread_ids(t, (scope, ns), (low, high), literal_prefix(pattern), now)
            for thread_id, saved in rows:
                if matches(decode_id(thread_id)) is None:
                    continue
                if len(found) == limit:
                    return Page(found, cursor.encode("threads"))
                found.append(decode_id(thread_id))
                cursor = cursor.behind(saved, newest_number)
            if len(rows) < _THREADS_A_QUERY:
                break
            high = rows[-1][1] - 1
    return Page(found)


def _thread_ids(
    t: Tables, place: tuple[str, str], span: tuple[int, int], prefix: str, now: int
) -> Plan[list[tuple[str, int]]]:
    # The encoding of a prefix is a prefix of the encoding.
    condition = f" AND {t.dialect.substring}(thread_id, 1, ?) = ?" if prefix else ""
    found = yield from fetch(
        f"SELECT thread_id, saved FROM {t.threads} WHERE scope = ? AND ns = ? AND saved BETWEEN ? AND ?"
        f" AND (expires_at IS NULL OR expires_at > ?){condition} ORDER BY saved DESC LIMIT ?",
        *(*place, *span, now, *((len(encode_id(prefix)), encode_id(prefix)) if prefix else ())),
        _THREADS_A_QUERY,
    )
    return [(thread_id, saved) for thread_id, saved in found]


def _newest_number(t: Tables, scope: str, ns: str) -> Plan[int]:
    ((number,),) = yield from fetch(
        f"SELECT MAX(saved) FROM {t.threads} WHERE scope = ? AND ns = ?", scope, ns
    )
    return int(number or 0)


def list_infos(
    t: Tables, scope: str, ns: str, limit: int, after: str | None, where: tuple[str, Any] | None, now: int
) -> Plan[Page[CheckpointInfo]]:
    """Checkpoints without their states: threads last saved first, the newest checkpoint of each first."""
    kind = "checkpoints" if where is None else "query"
    number = yield from _newest_number(t, scope, ns)
    cursor = RecencyCursor.open(after, kind, number)
    found: list[CheckpointInfo] = []
    for low, top in cursor.spans(number):
        high = top
        while low <= high:
            rows = yield from _thread_rows(t, (scope, ns), (low, high), now)
            for thread in rows:
                before = cursor.before if thread.saved == cursor.position and cursor.before else None
                while True:
                    infos = yield from newest(t, thread, _CHECKPOINTS_A_QUERY, before)
                    for row in infos:
                        if where is not None and not metadata_has(row, *where):
                            continue
                        if len(found) == limit:
                            return Page(found, cursor.encode(kind))
                        found.append(row.info(decode_id(thread.thread_id)))
                        cursor = cursor.behind(thread.saved, number, sequence=row.seq)
                    if len(infos) < _CHECKPOINTS_A_QUERY:
                        break
                    before = infos[-1].seq
            if len(rows) < _THREADS_A_QUERY:
                break
            high = rows[-1].saved - 1
    return Page(found)


def _thread_rows(t: Tables, place: tuple[str, str], span: tuple[int, int], now: int) -> Plan[list[ThreadRow]]:
    found = yield from fetch(
        f"SELECT thread_id, {THREAD_COLUMNS} FROM {t.threads} WHERE scope = ? AND ns = ? AND saved BETWEEN ? AND ?"
        " AND (expires_at IS NULL OR expires_at > ?) ORDER BY saved DESC LIMIT ?",
        *(*place, *span, now, _THREADS_A_QUERY),
    )
    return [thread_row((*place, thread_id), columns) for thread_id, *columns in found]


# ── search ────────────────────────────────────────────────────────────────────────────────────────


class _Match(NamedTuple):
    """A message: where it is stored, which checkpoint of its life added it, and its JSON."""

    life: bytes
    log: int
    position: int
    seq: int
    line: str


def search(
    t: Tables, scope: str, ns: str, prefix: bytes, terms: Sequence[str], limit: int, now: int
) -> Plan[list[dict[str, Any]]]:
    """The best hits: one for each thread and message. The index must have been caught up."""
    found = yield from text_index.match(t, prefix, terms)
    finder = _Finder(t, (scope, ns), terms, now)
    window = max(_LEAST_WINDOW, 4 * limit)
    for start in range(0, len(found.numbers), window):
        messages = yield from _messages(t, found.numbers[start : start + window])
        for score, match in _ranked(messages, found):
            yield from finder.take(match, score)
            if len(finder.hits) >= limit:
                return finder.hits[:limit]
    return finder.hits


class _Finder:
    """Turns matching entries into hits: in which threads, first at which checkpoint."""

    def __init__(self, t: Tables, place: tuple[str, str], terms: Sequence[str], now: int) -> None:
        self.hits: list[dict[str, Any]] = []
        self._tables = t
        self._place = place
        self._terms = terms
        self._now = now
        self._threads: dict[ThreadKey, ThreadRow | None] = {}
        self._told: set[tuple[str, str]] = set()

    def take(self, match: _Match, score: float) -> Plan[None]:
        for key in (yield from _threads_with(self._tables, match)):
            told = (key[2], match.line)
            if key[:2] != self._place or told in self._told:
                continue  # another scope whose hash begins alike; or the message is told already
            try:
                if key not in self._threads:
                    self._threads[key] = yield from find_thread(self._tables, key, self._now)
                thread = self._threads[key]
                if thread is None:
                    continue
                self._told.add(told)
                first = yield from _first_with(self._tables, thread, match.line)
            except Corrupt:
                continue  # loading the thread says so; what is found in others must not depend on it
            if first is not None:
                self.hits.append(
                    {
                        "thread_id": decode_id(key[2]),
                        "checkpoint_id": first.checkpoint_id,
                        "score": score,
                        "snippet": snippet(text_index.line_text(match.line), self._terms),
                    }
                )


def _messages(t: Tables, numbers: Sequence[int]) -> Plan[list[_Match]]:
    """The messages in the entries with these numbers."""
    marks = ", ".join("?" * len(numbers))
    found = yield from fetch(
        f"SELECT life, log, pos, seq, body FROM {t.entries} WHERE id IN ({marks}) ORDER BY id", *numbers
    )
    return [match for row in found for match in _lines(*row)]


def _lines(life: bytes, log: int, position: int, seq: int, body: str) -> list[_Match]:
    lines = text_index.lines_of(body)
    return [_Match(life, log, position + index, seq, line) for index, line in enumerate(lines)]


def _ranked(messages: Sequence[_Match], found: text_index.Matches) -> list[tuple[float, _Match]]:
    """Those that have a term, by BM25, with the lengths of the messages at hand for those of all."""
    frequencies = [Counter(text_index.words_of(message.line)) for message in messages]
    lengths = [frequency.total() for frequency in frequencies]
    average = sum(lengths) / max(1, len(lengths))
    scores = [
        bm25(frequency, length, found.frequencies, found.documents, average)
        for frequency, length in zip(frequencies, lengths, strict=True)
    ]
    ranked = sorted(zip(scores, messages, strict=True), key=lambda pair: -pair[0])
    return [(score, message) for score, message in ranked if score > 0]


def _threads_with(t: Tables, match: _Match) -> Plan[list[ThreadKey]]:
    """Threads that can see the checkpoint which added the entry."""
    own = yield from fetch(f"SELECT scope, ns, thread_id FROM {t.lives} WHERE life = ?", match.life)
    forks = yield from readers(t, match.life, match.seq)
    return sorted([*((scope, ns, thread_id) for scope, ns, thread_id in own), *forks], key=lambda key: key[2])


def _first_with(t: Tables, thread: ThreadRow, line: str) -> Plan[CheckpointRow | None]:
    """The first checkpoint that the thread shows and that has the message.

    An edit of what came before it may have stored the message again, so all its entries are looked at.
    """
    lives = ", ".join("?" * len(thread.spans))
    found = yield from fetch(
        f"SELECT life, log, pos, seq, body FROM {t.entries}"
        f" WHERE life IN ({lives}) AND searchable = 1 AND {t.dialect.find}(body, ?) > 0 ORDER BY seq",
        *(*(span.life for span in thread.spans), line),
    )
    best: CheckpointRow | None = None
    for match in (match for row in found for match in _lines(*row) if match.line == line):
        span = next(span for span in thread.spans if span.life == match.life)
        if match.seq > span.last or (best is not None and best.seq <= match.seq):
            continue
        shown = yield from _first_after(t, thread, match)
        if shown is not None and (best is None or shown.seq < best.seq):
            best = shown
    return best


def _first_after(t: Tables, thread: ThreadRow, match: _Match) -> Plan[CheckpointRow | None]:
    """The first checkpoint, from the one that added the entry, that the thread shows and that has the entry."""
    condition, params = visible(t, thread)
    after, limit = match.seq - 1, 1
    while True:
        found = yield from fetch(
            f"SELECT c.life, c.seq, c.checkpoint_id, c.parent_id, c.created_at, '{{}}', '', c.lists"
            f" FROM {t.checkpoints} c WHERE {condition} AND c.seq > ? ORDER BY c.seq LIMIT ?",
            *(*params, after, limit),
        )
        for row in map(checkpoint_row, found):
            if _has(row, match):
                return row
        if len(found) < limit:
            return None
        after, limit = found[-1][1], _CHECKPOINTS_A_QUERY


def _has(row: CheckpointRow, match: _Match) -> bool:
    paths = load_lists(row.lists, row.life, row.place).values()
    return any(
        (life, log) == (match.life, match.log) and start <= match.position < end
        for path in paths
        for life, log, start, end in path_spans(path)
    )

"""Listings, last saved first, and full-text search: an entry is indexed once and found in every thread that has it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.core import codec
from holdfast.core.errors import Corrupt
from holdfast.memory.backends.sql import text_index
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.forks import readers
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.keys import scope_number
from holdfast.memory.backends.sql.lineage import FOREVER, THREAD_COLUMNS, ThreadRow, thread_row, visible
from holdfast.memory.backends.sql.plan import FRESH, LAST, Plan, Row, Statement, fetch, rows
from holdfast.memory.backends.sql.reading import (
    CheckpointRow,
    checkpoint_row,
    find_thread,
    metadata_has,
    newest_query,
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
_THREADS_A_BATCH = 16
_LEAST_WINDOW = 64


class _Listing(NamedTuple):
    """What a page begins with: where it is, the newest number, and the first rows of each range to be listed."""

    cursor: RecencyCursor
    newest: int
    ranges: list[tuple[int, list[Row]]]


def list_threads(
    t: Tables, scope: str, ns: str, pattern: str, limit: int, after: str | None, now: int
) -> Plan[Page[str]]:
    """Thread ids that match, last saved first."""
    matches = compile_glob(pattern).fullmatch
    prefix = literal_prefix(pattern)
    size = max(_THREADS_A_QUERY, limit + 1)
    # The encoding of a prefix is a prefix of the encoding.
    encoded = encode_id(prefix)
    condition = f" AND {t.dialect.substring}(thread_id, 1, {len(encoded)}) = ?" if prefix else ""
    params = (encoded,) if prefix else ()

    def query(low: int, high: int) -> Statement:
        return _saved_between(t, (scope, ns), (low, high), "", condition, params, size, now)

    listing = yield from _open(t, (scope, ns), after, "threads", query)
    cursor = listing.cursor
    found: list[str] = []
    later = False
    for low, first in listing.ranges:
        more = first
        while True:
            for thread_id, saved in more:
                if saved > listing.newest:
                    later = True
                    continue
                if matches(decode_id(thread_id)) is None:
                    continue
                if len(found) == limit:
                    return Page(found, cursor.encode("threads"))
                found.append(decode_id(thread_id))
                cursor = cursor.behind(saved, listing.newest)
            if len(more) < size:
                break
            (more,) = yield [query(low, more[-1][1] - 1)]
    return Page(found, (yield from _rest(t, (scope, ns), listing, "threads", size, later=later)))


def _open(
    t: Tables,
    place: tuple[str, str],
    after: str | None,
    kind: str,
    query: Callable[[int, int], Statement],
) -> Plan[_Listing]:
    """The beginning of a page, in one batch.

    Where many write at once, numbers that were drawn are waited for: a thread that gets its number later gets one
    above all that are there, where the listing looks again at its end. It is a transaction of its own, so that
    writers need not wait until the page is done. Each of its questions sees what is committed by then: rows may come
    with a number above the newest one. They are left for later, as if they had been saved after the page.
    """
    number = scope_number(t.threads, *place)
    waiting = [rows(t.dialect.settling, number)] if t.dialect.settling else []
    spans = [(1, FOREVER)] if after is None else RecencyCursor.open(after, kind, 0).spans(FOREVER)
    batch = [*waiting, _newest_number(t, place), *(query(low, high) for low, high in spans)]
    batch[0] = batch[0]._replace(mark=FRESH | LAST)
    results = yield batch
    newest_number = int(results[len(waiting)][0][0] or 0)
    found = results[len(waiting) + 1 :]
    ranges = [(low, list(more)) for (low, _), more in zip(spans, found, strict=True)]
    return _Listing(RecencyCursor.open(after, kind, newest_number), newest_number, ranges)


def _rest(
    t: Tables, place: tuple[str, str], listing: _Listing, kind: str, size: int, *, later: bool
) -> Plan[str | None]:
    """The cursor of a page that came to the bottom. If it took more than its first rows, threads may have been saved
    meanwhile, whose old numbers it then didn't meet: they are left for the next page. ``later``: there are some."""
    if not later:
        if not t.dialect.lock or all(len(more) < size for _, more in listing.ranges):
            return None
        ((number,),) = (yield [_newest_number(t, place)])[0]
        if int(number or 0) <= listing.newest:
            return None
    return RecencyCursor(listing.newest, listing.newest, listing.newest + 1).encode(kind)


def _newest_number(t: Tables, place: tuple[str, str]) -> Statement:
    return rows(f"SELECT MAX(saved) FROM {t.threads} WHERE scope = ? AND ns = ?", *place)


def _saved_between(
    t: Tables,
    place: tuple[str, str],
    span: tuple[int, int],
    columns: str,
    condition: str,
    params: Sequence[Any],
    limit: int,
    now: int,
) -> Statement:
    """Threads with these numbers, last saved first."""
    return rows(
        f"SELECT thread_id, saved{columns} FROM {t.threads} WHERE scope = ? AND ns = ? AND saved BETWEEN ? AND ?"
        f" AND (expires_at IS NULL OR expires_at > ?){condition} ORDER BY saved DESC LIMIT ?",
        *(*place, *span, now, *params, limit),
    )


def list_infos(
    t: Tables, scope: str, ns: str, limit: int, after: str | None, where: tuple[str, Any] | None, now: int
) -> Plan[Page[CheckpointInfo]]:
    """Checkpoints without their states: threads last saved first, the newest checkpoint of each first."""
    kind = "checkpoints" if where is None else "query"
    size = max(_THREADS_A_QUERY, limit + 1)

    containing, within = _containing(t, where)

    def query(low: int, high: int) -> Statement:
        columns = f", {THREAD_COLUMNS}"
        return _saved_between(t, (scope, ns), (low, high), columns, *within, size, now)

    listing = yield from _open(t, (scope, ns), after, kind, query)
    cursor = listing.cursor
    found: list[CheckpointInfo] = []
    later = False
    for low, first in listing.ranges:
        more = first
        while True:
            threads = [
                thread_row((scope, ns, thread_id), columns)
                for thread_id, saved, *columns in more
                if saved <= listing.newest
            ]
            later = later or len(threads) < len(more)
            for some in _groups(t, threads):
                befores = [
                    cursor.before if each.saved == cursor.position and cursor.before else None
                    for each in some
                ]
                results = yield [
                    newest_query(t, *each, _CHECKPOINTS_A_QUERY, containing)
                    for each in zip(some, befores, strict=True)
                ]
                for thread, first_infos in zip(some, results, strict=True):
                    most = limit - len(found) + 1
                    for row in (yield from _matching(t, thread, first_infos, where, containing, most)):
                        if len(found) == limit:
                            return Page(found, cursor.encode(kind))
                        found.append(row.info(decode_id(thread.thread_id)))
                        cursor = cursor.behind(thread.saved, listing.newest, sequence=row.seq)
            if len(more) < size:
                break
            (more,) = yield [query(low, more[-1][1] - 1)]
    return Page(found, (yield from _rest(t, (scope, ns), listing, kind, size, later=later)))


Condition = tuple[str, tuple[Any, ...]]


def _containing(t: Tables, where: tuple[str, Any] | None) -> tuple[Condition, Condition]:
    """What narrows the search, where the database has an index for it: conditions on checkpoints and on threads."""
    text = "" if where is None else codec.dumps({where[0]: where[1]})
    contains = t.dialect.metadata_contains
    if not text or not contains or "\\u" in text:  # what has to be escaped is not in every database's JSON
        return ("", ()), ("", ())
    own = f"SELECT c.life FROM {t.checkpoints} c WHERE {contains}"
    # A fork may have inherited one, from any of its ancestors: all forks are looked at.
    return (f" AND {contains}", (text,)), (f" AND (life IN ({own}) OR base IS NOT NULL)", (text,))


def _matching(
    t: Tables,
    thread: ThreadRow,
    first: Sequence[Row],
    where: tuple[str, Any] | None,
    containing: Condition,
    most: int,
) -> Plan[list[CheckpointRow]]:
    """The thread's newest checkpoints that match, so many at the most; ``first`` are the newest of all."""
    matching: list[CheckpointRow] = []
    found = first
    while True:
        for row in map(checkpoint_row, found):
            if where is None or metadata_has(row, *where):
                matching.append(row)
                if len(matching) == most:
                    return matching
        if len(found) < _CHECKPOINTS_A_QUERY:
            return matching
        (found,) = yield [newest_query(t, thread, found[-1][1], _CHECKPOINTS_A_QUERY, containing)]


def _groups(t: Tables, threads: Sequence[ThreadRow]) -> Iterator[Sequence[ThreadRow]]:
    """Threads to ask for together: one at a time where that costs no round trip."""
    size = _THREADS_A_BATCH if t.dialect.lock else 1
    for start in range(0, len(threads), size):
        yield threads[start : start + size]


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

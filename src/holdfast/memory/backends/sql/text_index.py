"""The text index over entries: it may lag behind the saves, and is caught up before it is asked.

Our analyser makes the words, the database keeps them. The watermark is the highest row number that is indexed; a
new version of the analyser empties the index, and it is built anew.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

from pydantic_core import from_json

from holdfast.core.messages import decode_message
from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.keys import SCOPE_BYTES
from holdfast.memory.backends.sql.plan import (
    REPEATABLE,
    Plan,
    Statement,
    change,
    execute,
    fetch,
    heavy,
    last,
    many,
    rows,
)
from holdfast.memory.ranking import bm25
from holdfast.memory.text import ANALYSER_VERSION, analyse, message_text

CATCH_UP_ROWS = 1024
MOST_MATCHES = 100_000
NOT_MINE = -1
"""What there is to index is not this tenant's alone."""
_WATERMARK = "text:watermark"
_ANALYSER = "text:analyser"

IndexRow = tuple[int, str, str]
"""Row number, token of the scope, words."""


class TextIndex(Protocol):
    """How one database keeps words. Rows are removed with the same words that they were added with."""

    def ddl(self, words: str) -> tuple[str, ...]: ...
    def add(self, words: str, index_rows: Sequence[IndexRow]) -> Statement: ...
    def remove(self, words: str, index_rows: Sequence[IndexRow]) -> Statement: ...
    def match(self, words: str, scope: str, term: str, limit: int) -> Statement:
        """The numbers of the scope's rows that have the term, highest first."""
        ...

    def clear(self, words: str) -> Statement: ...
    def compact(self, words: str) -> Statement: ...


@cache
def analyser() -> str:
    """What the stored words were made by."""
    return f"{ANALYSER_VERSION}/{version('PyStemmer')}"


def scope_token(life: bytes) -> str:
    """All lives of a scope begin with the same bytes; different scopes are told apart by the caller as well."""
    return life[:SCOPE_BYTES].hex()


def line_text(line: str) -> str:
    """The searchable text of a stored message."""
    try:
        document = from_json(line)
    except ValueError:
        document = json.loads(line)  # lone surrogates
    content = document.get("content", "")
    if type(content) is str and "tool_calls" not in document:
        return content
    return message_text(decode_message(line))


def catch_up(t: Tables, limit: int = CATCH_UP_ROWS) -> Plan[int]:
    """Index the entries that are not indexed yet, so many at the most; returns how many rows were looked at."""
    if t.dialect.queued:
        return (yield from _catch_up_queue(t, limit))
    watermark = yield from _watermark(t)
    found = yield from fetch(
        f"SELECT id, life, searchable, body FROM {t.entries} WHERE id > ? ORDER BY id LIMIT ?",
        watermark,
        limit,
    )
    if not found:
        return 0
    yield from execute(
        t.text.add(
            t.words, _index_rows((i, life, body) for i, life, searchable, body in found if searchable)
        ),
        *_set(t, _WATERMARK, str(found[-1][0])),
    )
    return len(found)


def lag(t: Tables) -> Plan[int]:
    """How many rows the index is behind, at the most."""
    if t.dialect.queued:
        mark, found = yield last(
            [
                rows(f"SELECT value FROM {t.meta} WHERE name = ?", _ANALYSER),
                rows(f"SELECT 1 FROM {t.unindexed} LIMIT 1"),
            ]
        )
        return len(found) if mark == [(analyser(),)] else 1
    values = yield from _stored(t)
    ((newest,),) = yield from fetch(f"SELECT MAX(id) FROM {t.entries}")
    return int(newest or 0) - (_number(values) or 0)


class Matches(NamedTuple):
    """Numbers of entries, the most promising first, and how many have each term."""

    numbers: list[int]
    frequencies: dict[str, int]
    documents: int


def match(t: Tables, life: bytes, terms: Sequence[str]) -> Plan[Matches]:
    """Entries of the life's scope with any of the terms: those with more and rarer ones first, then newest first.

    The frequencies are those of the scope: no tenant's ranking tells about another's words.
    """
    results = yield [t.text.match(t.words, scope_token(life), term, MOST_MATCHES) for term in terms]
    documents = max((number for found in results for (number,) in found), default=0)
    frequencies = {term: len(found) for term, found in zip(terms, results, strict=True)}
    scores: dict[int, float] = {}
    for term, found in zip(terms, results, strict=True):
        weight = bm25({term: 1}, 1, {term: frequencies[term]}, documents, 1.0)
        for (number,) in found:
            scores[number] = scores.get(number, 0.0) + weight
    return Matches(sorted(scores, key=lambda number: (-scores[number], -number)), frequencies, documents)


def remove_entries(t: Tables, condition: str, params: Sequence[Any]) -> Plan[int]:
    """Delete entries together with their words."""
    if t.dialect.queued:
        # First what is to be indexed: if somebody does so just now, his words are there when the words are deleted.
        *_, removed = yield [
            change(f"DELETE FROM {t.unindexed} WHERE {condition}", *params),
            change(
                f"DELETE FROM {t.words} WHERE id IN (SELECT id FROM {t.entries} WHERE {condition} AND searchable = 1)",
                *params,
            ),
            change(f"DELETE FROM {t.entries} WHERE {condition}", *params),
        ]
        return int(removed)
    watermark = yield from _watermark(t)
    indexed = yield from fetch(
        f"SELECT id, life, body FROM {t.entries} WHERE {condition} AND searchable = 1 AND id <= ?",
        *params,
        watermark,
    )
    statements = [change(f"DELETE FROM {t.entries} WHERE {condition}", *params)]
    if indexed:
        statements.append(t.text.remove(t.words, _index_rows(indexed)))
    removed, *_ = yield [*statements]
    ((newest,),) = yield [rows(f"SELECT COALESCE(MAX(id), 0) FROM {t.entries}")]
    if newest[0] < watermark:
        # A database may give the numbers of deleted rows to new ones: these must be indexed as well.
        yield from execute(*_set(t, _WATERMARK, str(newest[0])))
    return int(removed)


def _catch_up_queue(t: Tables, limit: int) -> Plan[int]:
    """Numbers of rows may be committed out of order, so what is to be indexed is listed, and taken from the list.

    Who comes second waits for the first: when it goes on, what the first took is indexed.
    """
    mark, found = yield [
        rows(f"SELECT value FROM {t.meta} WHERE name = ?{t.dialect.lock}", _ANALYSER),
        rows(
            f"SELECT life, log, pos FROM {t.unindexed} ORDER BY life, log, pos LIMIT ?{t.dialect.lock}", limit
        ),
    ]
    if mark != [(analyser(),)]:
        if t.dialect.fenced and (yield from fetch(t.dialect.fenced)) != [(False,)]:
            return NOT_MINE
        yield from note_analyser(t)
        yield from list_all(t)
        return 1
    if not found:
        return 0
    place = "life = ? AND log = ? AND pos = ?"
    body = f"SELECT id, life, body FROM {t.entries} WHERE {place}"
    entries = yield heavy([rows(body, *key) for key in found])
    yield [
        many(f"DELETE FROM {t.unindexed} WHERE {place}", found)._replace(mark=REPEATABLE),
        t.text.add(t.words, _index_rows(row for one in entries for row in one)),
    ]
    return len(found)


def list_all(t: Tables) -> Plan[None]:
    """Forget all words, and list all that has some as to be indexed."""
    listed = f"SELECT 1 FROM {t.unindexed} u WHERE u.life = e.life AND u.log = e.log AND u.pos = e.pos"
    yield from execute(
        t.text.clear(t.words),
        change(
            f"INSERT INTO {t.unindexed} (life, log, pos) SELECT life, log, pos FROM {t.entries} e"
            f" WHERE e.searchable = 1 AND NOT EXISTS ({listed})"
        ),
    )


def note_analyser(t: Tables) -> Plan[None]:
    """All words that are there are this analyser's."""
    yield from execute(*_set(t, _ANALYSER, analyser()))


def compact(t: Tables) -> Plan[None]:
    """Rewrite the index without what was deleted from it."""
    yield from execute(t.text.compact(t.words))


def _watermark(t: Tables) -> Plan[int]:
    """Up to where the index is right; 0, and an empty index, if another analyser made it."""
    number = _number((yield from _stored(t)))
    if number is not None:
        return number
    yield from execute(t.text.clear(t.words), *_set(t, _WATERMARK, "0"), *_set(t, _ANALYSER, analyser()))
    return 0


def _stored(t: Tables) -> Plan[dict[str, str]]:
    found = yield from fetch(f"SELECT name, value FROM {t.meta} WHERE name IN (?, ?)", _WATERMARK, _ANALYSER)
    return dict(found)


def _number(values: Mapping[str, str]) -> int | None:
    """The watermark; ``None`` if the index is not one of this analyser, or nothing says how far it goes."""
    watermark = values.get(_WATERMARK, "")
    return int(watermark) if values.get(_ANALYSER) == analyser() and watermark.isdigit() else None


def _set(t: Tables, name: str, value: str) -> list[Statement]:
    return t.dialect.put_row(t.meta, ("name",), ("value",), name, value)


def _index_rows(entries: Iterable[tuple[int, bytes, str]]) -> list[IndexRow]:
    return [(number, scope_token(life), " ".join(_words(body))) for number, life, body in entries]


def _words(body: str) -> list[str]:
    try:
        return analyse("\n".join([line_text(line) for line in lines_of(body)]))
    except Exception:  # one of them is damaged: the others have their words
        return [word for line in lines_of(body) for word in words_of(line)]


def lines_of(body: str) -> list[str]:
    """The elements in an entry. One that is not even text has none: reading it says so."""
    return body.split("\n") if type(body) is str else []


def words_of(line: str) -> list[str]:
    """The words of a message. A damaged one has none: reading it says so, search and index must not stop at it."""
    try:
        return analyse(line_text(line))
    except Exception:
        return []

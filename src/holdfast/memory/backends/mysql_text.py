"""Statements as the text that MariaDB and MySQL take: our placeholders and a few phrases, translated once."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from holdfast.memory.backends.sql.plan import Statement

MOST_ROWS_TEXT = 400_000
"""Bytes of one insert of many rows: the server takes at least a megabyte at once."""
_DELETE_IN = re.compile(r"DELETE FROM (\S+) (WHERE \w+ IN \(SELECT )")
_NEWEST = re.compile(r"SELECT MAX\(saved\) (FROM \S+ WHERE scope = \? AND ns = \?)")
_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX IF NOT EXISTS ")
_VALUES = re.compile(r"(INSERT INTO .* VALUES )(\([^()]*\))", re.DOTALL)


def makes_index(sql: str) -> bool:
    """Whether it makes an index unless it is there: MySQL has no such statement, so its error says that it is."""
    return _INDEX.match(sql) is not None


@lru_cache(maxsize=4096)
def _pieces(sql: str) -> tuple[bytes, ...]:
    """The text around the placeholders; none of ours has a question mark for another purpose."""
    # With its name said twice the rows are found by way of the subquery, else all of the table is looked through.
    text = _DELETE_IN.sub(r"DELETE \1 FROM \1 \2", sql)
    # The end of an index over parts of columns is only looked up where the rows are asked for in its order.
    text = _NEWEST.sub(r"SELECT MAX(saved) FROM (SELECT saved \1 ORDER BY saved DESC LIMIT 1) newest", text)
    text = _INDEX.sub(lambda found: f"CREATE {found[1] or ''}INDEX ", text)
    return tuple(part.encode() for part in text.split("?"))


@lru_cache(maxsize=1024)
def _insert_pieces(sql: str) -> tuple[bytes, tuple[bytes, ...]] | None:
    """What is in front of the row in an insert of one row, and the pieces of the row."""
    found = _VALUES.fullmatch(sql)
    return (
        None if found is None else (found[1].encode(), tuple(part.encode() for part in found[2].split("?")))
    )


def texts_of(statement: Statement, escapes: bool) -> Iterator[bytes]:
    """The statement with its values in it; with many rows as few texts as may be.

    ``escapes``: whether the server takes a backslash for the beginning of an escape.
    """
    kind, sql, params, _ = statement
    if kind != "many":
        yield _filled(_pieces(sql), params, escapes)
        return
    insert = _insert_pieces(sql)
    if insert is None:
        pieces = _pieces(sql)
        for row in params:
            yield _filled(pieces, row, escapes)
        return
    head, pieces = insert
    rows: list[bytes] = []
    size = 0
    for row in params:
        text = _filled(pieces, row, escapes)
        if rows and size + len(text) > MOST_ROWS_TEXT:
            yield head + b", ".join(rows)
            rows, size = [], 0
        rows.append(text)
        size += len(text) + 2
    if rows:
        yield head + b", ".join(rows)


def _filled(pieces: Sequence[bytes], params: Sequence[Any], escapes: bool) -> bytes:
    if len(pieces) != len(params) + 1:
        raise ValueError(f"{len(pieces) - 1} placeholders, {len(params)} values")
    text = [pieces[0]]
    for value, piece in zip(params, pieces[1:], strict=True):
        text.append(literal(value, escapes))
        text.append(piece)
    return b"".join(text)


def literal(value: Any, escapes: bool) -> bytes:
    """A value in SQL. No other than these types is let through, and nothing in a text can end it."""
    kind = type(value)
    if kind is str:
        # In UTF-8 these bytes are never part of another character.
        data: bytes = value.encode()
        if escapes:
            data = data.replace(b"\\", b"\\\\")
        return b"'" + data.replace(b"'", b"''") + b"'"
    if kind is int:
        return b"%d" % value
    if value is None:
        return b"NULL"
    if kind in (bytes, bytearray, memoryview):
        return b"x'" + bytes(value).hex().encode() + b"'"
    if kind is bool:
        return b"1" if value else b"0"
    if kind is float and math.isfinite(value):
        return repr(value).encode()
    raise TypeError(f"a {kind.__name__} can't be bound")

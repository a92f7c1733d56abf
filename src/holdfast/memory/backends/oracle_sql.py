"""The plans' SQL as Oracle reads it. A text is rewritten once; plans have few of them.

Written in what every release from 19c on takes: no LIMIT, no SELECT without FROM, no IF NOT EXISTS, no word that is
reserved, no empty text (it would be NULL), and a bind has a name.
"""

import json as json_format
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_RESERVED = re.compile(r"\b(?:size|number)\b")  # types are written in capitals
_LIMIT = re.compile(r"\bLIMIT (\?|\d+)")
_LOCKED_LIMIT = re.compile(
    r"SELECT (?P<columns>[\w, ]+) FROM (?P<table>[\w.]+) (?P<order>ORDER BY [\w, ]+) LIMIT \? FOR UPDATE"
)
_NO_TABLE = re.compile(r"SELECT (\d+ AS \w+)(?= UNION|\))")
_CREATE = re.compile(r"CREATE (TABLE|INDEX|UNIQUE INDEX) IF NOT EXISTS ")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_KEPT = re.compile(r"\x00(\d+)\x00")
_MARK = re.compile(r"\?(\d*)")
_TABLE = re.compile(r"(?:INSERT INTO|UPDATE|MERGE INTO|CREATE TABLE) ([\w.]+)")
_JSON_COLUMN = re.compile(r"\b(\w+) JSON\b")

_OTHER_INDEXES = ("CREATE SEARCH INDEX ", "CREATE VECTOR INDEX ")

LONGEST_TEXT = 4000
"""Bytes that an expression takes; longer text can be stored as it is, and is compared as a LOB only."""

LONGEST_VALUE = 32_767
"""Bytes of a value that is sent as such; a longer one is streamed."""


WITH_JSON = 21
"""The first release that has columns of type JSON."""

LONGEST_NUMBER = 38
"""Digits of a number that comes out as it went in."""

_LONGEST_NAME = 255  # bytes of a field's name in JSON
_LARGEST = 1e125  # numbers of the database end here, and those near 0 at its reciprocal


class Document(str):
    """JSON that the database is to look into: its own type where the column is of that, else text."""

    __slots__ = ()


def document(text: str) -> Document | None:
    """The text, if the database's own JSON can hold what it says; else the database is not to look into it."""
    try:
        json_format.loads(text, parse_int=_whole, parse_float=_fraction, object_pairs_hook=_fields)
    except ValueError:
        return None
    return Document(text)


def _whole(digits: str) -> None:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(digits)


def _fraction(digits: str) -> None:
    size = abs(float(digits))
    if size and not 1 / _LARGEST < size < _LARGEST:
        raise ValueError(digits)


def _fields(pairs: list[tuple[str, Any]]) -> None:
    if any(len(name.encode()) > _LONGEST_NAME for name, _ in pairs):
        raise ValueError("the name of a field is too long")


class OracleText(NamedTuple):
    """A statement. ``creates``: that what it creates is there already is no error. ``stores``: its binds are values of
    columns, of any length. ``merges``: it writes one row, new or not. ``table``: what it writes to. ``has_json``: it
    makes columns of that type."""

    sql: str
    names: tuple[str, ...]
    creates: bool
    stores: bool
    merges: bool
    queries: bool
    table: str
    has_json: bool


@lru_cache(maxsize=4096)
def oracle_text(sql: str, *, json: bool = False) -> OracleText:
    """The statement for Oracle, and the names of its binds in their order. A mark with a number, as in ``?2``, is the
    parameter of that number, once more or for the first time. Without ``json`` documents are text."""
    literals: list[str] = []

    def keep(found: re.Match[str]) -> str:
        literals.append(found[0] if found[0] != "''" else "' '")
        return f"\x00{len(literals) - 1}\x00"

    text, created = _CREATE.subn(r"CREATE \1 ", " ".join(_LITERAL.sub(keep, sql).split()))
    created = created or text.startswith(_OTHER_INDEXES)
    has_json = text.startswith("CREATE TABLE ") and bool(_JSON_COLUMN.search(text))
    if has_json and not json:
        text = _JSON_COLUMN.sub(r"\1 CLOB CHECK (\1 IS JSON)", text)
    text = _RESERVED.sub(lambda word: f'"{word[0].upper()}"', text)
    text = _NO_TABLE.sub(r"SELECT \1 FROM DUAL", text)
    text = _LOCKED_LIMIT.sub(_locked, text)
    text = _LIMIT.sub(r"FETCH FIRST \1 ROWS ONLY", text)
    numbers: list[int] = []

    def name(mark: re.Match[str]) -> str:
        numbers.append(int(mark[1]) if mark[1] else len(numbers) + 1)
        return f":p{numbers[-1]}"

    text = _MARK.sub(name, text)
    text = _KEPT.sub(lambda kept: literals[int(kept[1])], text)
    written = _TABLE.match(text)
    return OracleText(
        text,
        tuple(f"p{number}" for number in range(1, max(numbers, default=0) + 1)),
        bool(created),
        text.startswith("INSERT") and " VALUES (" in text,
        text.startswith("MERGE INTO "),
        text.startswith(("SELECT", "WITH")),
        written[1] if written else "",
        has_json and json,
    )


def _locked(found: re.Match[str]) -> str:
    """Rows can't be limited and locked in one go: those to lock are chosen first."""
    columns, table, order = found["columns"], found["table"], found["order"]
    chosen = f"SELECT {columns} FROM {table} {order} FETCH FIRST ? ROWS ONLY"
    return f"SELECT {columns} FROM {table} WHERE ({columns}) IN ({chosen}) {order} FOR UPDATE"


def bound(text: OracleText, params: Sequence[Any], native: bool = False) -> dict[str, Any]:
    """The binds by name. ``native``: the columns for documents are of the database's own type."""
    binds = dict(zip(text.names, params, strict=True))
    if text.table:
        for name, value in binds.items():
            if type(value) is Document:
                binds[name] = json_format.loads(value) if native else str(value)
    return binds


def long_texts(text: OracleText, binds: Mapping[str, Any]) -> list[str]:
    """Binds that must be sent as LOBs: an expression would refuse them, and so does a MERGE."""
    if text.stores:
        return []
    return [name for name, value in binds.items() if type(value) is str and exceeds(value, LONGEST_TEXT)]


def is_long(text: OracleText, binds: Mapping[str, Any]) -> bool:
    """Whether one of the values has no place in an array of values."""
    longest = LONGEST_TEXT if text.merges else LONGEST_VALUE
    return any(exceeds(value, longest) for value in binds.values())


def exceeds(value: Any, most: int) -> bool:
    """Whether it is text of more bytes, or more bytes."""
    if not isinstance(value, str | bytes) or len(value) * 4 <= most:
        return False
    return len(value.encode() if isinstance(value, str) else value) > most

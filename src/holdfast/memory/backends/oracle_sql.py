"""The plans' SQL as Oracle reads it. A text is rewritten once; plans have few of them.

Written in what every release from 19c on takes: no LIMIT, no SELECT without FROM, no IF NOT EXISTS, no word that is
reserved, no empty text (it would be NULL), and a bind has a name.
"""

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

LONGEST_TEXT = 4000
"""Bytes that an expression takes; longer text can be stored as it is, and is compared as a LOB only."""

LONGEST_VALUE = 32_767
"""Bytes of a value that is sent as such; a longer one is streamed."""


class OracleText(NamedTuple):
    """A statement. ``if_absent``: that what it creates is there already is no error. ``stores``: its binds are values
    of columns, of any length."""

    sql: str
    names: tuple[str, ...]
    if_absent: bool
    stores: bool
    queries: bool


@lru_cache(maxsize=4096)
def oracle_text(sql: str) -> OracleText:
    """The statement for Oracle, and the names of its binds in their order."""
    text, created = _CREATE.subn(r"CREATE \1 ", " ".join(sql.split()))
    text = _RESERVED.sub(lambda word: f'"{word[0].upper()}"', text)
    text = text.replace("''", "' '")
    text = _NO_TABLE.sub(r"SELECT \1 FROM DUAL", text)
    text = _LOCKED_LIMIT.sub(_locked, text)
    text = _LIMIT.sub(r"FETCH FIRST \1 ROWS ONLY", text)
    first, *rest = text.split("?")
    names = tuple(f"p{number}" for number in range(1, len(rest) + 1))
    text = "".join([first, *(f":{name}{part}" for name, part in zip(names, rest, strict=True))])
    stores = text.startswith("INSERT") and " VALUES (" in text
    return OracleText(text, names, bool(created), stores, text.startswith(("SELECT", "WITH")))


def _locked(found: re.Match[str]) -> str:
    """Rows can't be limited and locked in one go: those to lock are chosen first."""
    columns, table, order = found["columns"], found["table"], found["order"]
    chosen = f"SELECT {columns} FROM {table} {order} FETCH FIRST ? ROWS ONLY"
    return f"SELECT {columns} FROM {table} WHERE ({columns}) IN ({chosen}) {order} FOR UPDATE"


def bound(text: OracleText, params: Sequence[Any]) -> dict[str, Any]:
    """The binds by name."""
    return dict(zip(text.names, params, strict=True))


def long_texts(text: OracleText, binds: Mapping[str, Any]) -> list[str]:
    """Binds that must be sent as LOBs: an expression would refuse them."""
    if text.stores:
        return []
    return [
        name
        for name, value in binds.items()
        if type(value) is str and len(value) * 4 > LONGEST_TEXT and len(value.encode()) > LONGEST_TEXT
    ]


def is_long(binds: Mapping[str, Any]) -> bool:
    """Whether one of the values has no place in an array of values."""
    return any(
        len(value) * 4 > LONGEST_VALUE
        and len(value.encode() if type(value) is str else value) > LONGEST_VALUE
        for value in binds.values()
        if type(value) in (str, bytes)
    )

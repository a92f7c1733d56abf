"""Statements as the texts and values that PostgreSQL takes."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from holdfast.memory.backends.sql.plan import LAST_GUARD, Batch

_BINARY = 1
_INT8, _FLOAT8, _BOOL, _BYTEA = 20, 701, 16, 17
_MOST_FUSED = 12  # inserts in one statement

Encode = Callable[[Any], bytes | None]


@lru_cache(maxsize=4096)
def numbered(sql: str) -> bytes:
    """The statement with `$1`, `$2`, ... for its question marks; none of ours has one for another purpose."""
    first, *rest = sql.split("?")
    return "".join([first, *(f"${number}{part}" for number, part in enumerate(rest, 1))]).encode()


@lru_cache(maxsize=1024)
def guarding(sql: str) -> bytes:
    """A change that fails, and the whole pipeline with it, if it changes nothing; else it answers with the number."""
    return (
        b"WITH held AS ("
        + numbered(sql)
        + b" RETURNING 1) SELECT COUNT(*) / CAST(COUNT(*) > 0 AS INTEGER) FROM held"
    )


# ── a guard and what it guards as one statement ───────────────────────────────────────────────────


def fused(batch: Batch) -> tuple[bytes, list[Any]] | None:
    """A batch that is a plan's last, with a guard and then nothing but rows to insert, as one statement.

    It inserts if the guard holds, and nothing otherwise; what it says to have inserted last tells. To send and receive
    one statement takes a client half the time that a pipeline of four does.
    """
    first = batch[0] if len(batch) > 1 else None
    if first is None or first.mark & LAST_GUARD != LAST_GUARD:
        return None
    texts = [first.sql]
    values = [*first.params]
    for kind, sql, params, mark in batch[1:]:
        if mark:
            return None
        for row in params if kind == "many" else (params,):
            texts.append(sql)
            values += row
    command = _fused_text(tuple(texts)) if len(texts) <= _MOST_FUSED else None
    return None if command is None else (command, values)


@lru_cache(maxsize=256)
def _fused_text(texts: tuple[str, ...]) -> bytes | None:
    guard, *inserts = texts
    guarded = [_insert_if_held(sql) for sql in inserts]
    if not guarded or None in guarded:
        return None
    *before, last = guarded
    parts = [f"held AS ({guard} RETURNING 1)", *(f"part_{n} AS ({sql})" for n, sql in enumerate(before))]
    return numbered(f"WITH {', '.join(parts)} {last}")


def _insert_if_held(sql: str) -> str | None:
    """The same insert of one row, if the guard holds."""
    head, values, row = sql.partition(" VALUES (")
    if not values or not head.startswith("INSERT INTO ") or not row.endswith(")") or "(" in row:
        return None
    return f"{head} SELECT {row[:-1]} FROM held"


# ── values ────────────────────────────────────────────────────────────────────────────────────────

_ENCODERS: dict[type, tuple[Encode, int, int]] = {
    # Text has no type: the server finds the one that its place wants.
    str: (str.encode, 0, 0),
    type(None): (lambda _: None, 0, 0),
    int: (b"%d".__mod__, _INT8, 0),
    bool: (lambda value: b"t" if value else b"f", _BOOL, 0),
    float: (lambda value: repr(value).encode(), _FLOAT8, 0),
}
_BYTES: tuple[Encode, int, int] = (bytes, _BYTEA, _BINARY)


def encoded(params: Sequence[Any]) -> tuple[list[bytes | None], list[int], list[int]]:
    """Values, types and formats. The last two are for reading only."""
    encoders, types, formats = _layout(tuple(map(type, params)))
    return [encode(value) for encode, value in zip(encoders, params, strict=True)], types, formats


@lru_cache(maxsize=4096)
def _layout(kinds: tuple[type, ...]) -> tuple[list[Encode], list[int], list[int]]:
    found = [_ENCODERS.get(kind, _BYTES) for kind in kinds]
    return [encode for encode, _, _ in found], [oid for _, oid, _ in found], [form for _, _, form in found]

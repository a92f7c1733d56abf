"""The documents of `OracleBackend` once more, as JSON that the database looks into.

One row for each thread, in the table ``..._documents``: what the thread's head says, in plain JSON. It follows the
saves, and is only ever a hint: a thread whose row is missing or older than its head is read, and whatever the database
finds is tested against the document itself. So nothing is missed, whoever saved it, and what JSON can't hold is found
as well.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
from typing import Any, Final, NamedTuple

from holdfast.core import codec
from holdfast.core.state import AgentState, decode_state
from holdfast.memory.backends.oracle_json import Condition
from holdfast.memory.backends.oracle_sql import LONGEST_NUMBER, Document
from holdfast.memory.backends.sql import reading
from holdfast.memory.backends.sql.dialect import Tables, qualified
from holdfast.memory.backends.sql.heads import ThreadKey
from holdfast.memory.backends.sql.plan import Plan, last, rows
from holdfast.memory.backends.sql.schema import Schema

_LARGEST = 16_000_000  # characters of a document that is worth looking into
_LONGEST_NAME = 100
PORTION: Final = 20
"""Threads whose rows a search brings up to date, behind it."""

# Words that a text index leaves out by itself, in its list for English: a query of them alone would find nothing.
_UNINDEXED = frozenset(
    """all almost also although and any are because been both but can could did does either for from had has have
    having her here hers him his how however into its just might mrs non nor not one only onto our ours shall she should
    since some still such than that the their them then there therefore these they this those though through thus too
    until very was were what when where whether which while who whose why will with would yet you your yours""".split()
)


def documents_table(t: Tables) -> str:
    return qualified(t.schema, f"{t.prefix}_documents")


def documents_schema(t: Tables) -> Schema:
    """The table of documents."""
    table = documents_table(t)
    columns = "life RAW(16) NOT NULL PRIMARY KEY, seq NUMBER(19) NOT NULL, data JSON, metadata JSON"
    return Schema(
        component="documents",
        meta=t.meta,
        dialect=t.dialect,
        steps=((f"CREATE TABLE {table} ({columns})",),),
        tables=(table,),
    )


def words_schema(t: Tables) -> Schema:
    """The text index over the documents, for `JSON_TEXTCONTAINS`. It is part of each commit."""
    table = documents_table(t)
    index = f"CREATE SEARCH INDEX {t.prefix}_documents_text ON {table} (data)"
    return Schema(
        component="documents:text",
        meta=t.meta,
        dialect=t.dialect,
        steps=((f"{index} FOR JSON PARAMETERS ('SYNC (ON COMMIT)')",),),
        tables=(table,),
    )


def keep(t: Tables, key: ThreadKey, now: int) -> Plan[None]:
    """Make the thread's row say what its head says. While it does, nobody saves to the thread."""
    table = documents_table(t)
    thread = yield from reading.find_thread(t, key, now, lock=True)
    if thread is None:
        return
    row = yield from reading.row_at(t, thread, thread.head_seq)
    _, lists = yield from reading.read_lists(t, row)
    state = reading.decode(row, lists, decode_state)
    metadata = codec.loads(row.metadata, place=f"metadata of {row.place}")
    values = thread.life, thread.head_seq, as_json(_data(state)), as_json(metadata)
    yield last(t.dialect.put_row(table, ("life",), ("seq", "data", "metadata"), *values))


def _data(state: AgentState) -> dict[str, Any]:
    from holdfast.memory.backends.documents import document_of

    return document_of(state)


class Candidates(NamedTuple):
    """Threads that may have what is looked for, last saved first; ``behind``: those whose rows are not up to date."""

    thread_ids: list[str]
    behind: list[str]


def candidates(t: Tables, place: tuple[str, str], condition: Condition) -> Plan[Candidates]:
    """Encoded ids of threads whose document meets a condition on ``d``, or is not known."""
    test, params = condition
    table, here = documents_table(t), "t.scope = ? AND t.ns = ?"
    columns = "t.saved, t.thread_id"
    (found, unknown) = yield [
        rows(
            f"SELECT {columns} FROM {t.threads} t JOIN {table} d ON d.life = t.life AND d.seq = t.head_seq"
            f" WHERE {here} AND {test}",
            *(*place, *params),
        ),
        rows(
            f"SELECT {columns}, d.seq - t.head_seq FROM {t.threads} t LEFT JOIN {table} d ON d.life = t.life"
            f" WHERE {here} AND (d.seq IS NULL OR d.seq <> t.head_seq OR d.data IS NULL OR d.metadata IS NULL)",
            *place,
        ),
    ]
    behind = [thread_id for _, thread_id, distance in unknown if distance != 0]
    both = {thread_id: saved for saved, thread_id, *_ in (*found, *unknown)}
    return Candidates(sorted(both, key=lambda thread_id: -both[thread_id]), behind)


def has_words(t: Tables, path: Sequence[str], words: Sequence[str]) -> Condition | None:
    """A condition for texts below the path that have these words; ``None`` if the index can't tell."""
    plain = [word for word in words if word.isascii() and word.isalpha() and len(word) > 2]
    told = [word for word in plain if word not in _UNINDEXED]
    steps = list(path)
    if not told or not all(name.isascii() and name.isidentifier() for name in steps):
        return None
    where = "$" + "".join(f'."{name}"' for name in steps)
    found = f"SELECT x.life FROM {documents_table(t)} x WHERE JSON_TEXTCONTAINS(x.data, '{where}', ?)"
    return f"d.life IN ({found})", (" AND ".join(f"{{{word}}}" for word in told),)


# ── plain JSON ────────────────────────────────────────────────────────────────────────────────────────


class _Unsearchable(Exception):
    """A path leads through it in a way that the database does not follow."""


def as_json(value: Mapping[str, Any]) -> Document | None:
    """A document as anybody's JSON: texts, numbers and truth values are what they are, all else is near to it."""
    try:
        text = json.dumps(_plain(value, in_list=0), ensure_ascii=False, separators=(",", ":"))
    except (_Unsearchable, RecursionError):
        return None
    return Document(text) if len(text) <= _LARGEST else None


def _plain(value: Any, in_list: int) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, in_list)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(value, int):
        return value if abs(value) < 10**LONGEST_NUMBER else None
    if isinstance(value, float):
        return value if math.isfinite(value) and (not value or 1e-125 < abs(value) < 1e125) else None
    if isinstance(value, Mapping):
        if in_list > 1:  # a name is looked for in the elements of a list, not in those of a list within it
            raise _Unsearchable
        return {
            name: _plain(below, 0)
            for name, below in value.items()
            if isinstance(name, str)
            and len(name) <= _LONGEST_NAME
            and "\0" not in name
            and name.isprintable()
        }
    if isinstance(value, list | tuple):
        return [_plain(below, in_list + 1) for below in value]
    return value.isoformat() if isinstance(value, date) else None

"""Our analyser's terms as PostgreSQL's `tsvector`, under a GIN index.

What is stored is a text of terms, and the index is over the `tsvector` that the server makes of it: stored itself, it
would take half as much again. A long term is stored as a code. Whoever searches looks at the texts that are found, so
two terms with one code cost a look, nothing else. Changes are not put off (``fastupdate``): the list of what was put
off stays in the index's file, several times as long as the index.
"""

from base64 import b85encode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from zlib import crc32

from holdfast.memory.backends.sql.plan import Statement, change, many, rows
from holdfast.memory.backends.sql.text_index import IndexRow

_LONGEST = 5  # bytes, which is how long a code is
_PART = 400_000  # bytes: a vector has at most a megabyte
_VECTOR = "array_to_tsvector(string_to_array(terms, ' '))"


class Lexemes:
    """A row's terms, each once, and its scope as one more term: what no text can contain.

    A row with more terms than a vector can hold has several parts. Only single terms are asked for, so it doesn't
    matter which part has which.
    """

    def ddl(self, words: str) -> tuple[str, ...]:
        index = words.rpartition(".")[2]
        return (
            f'CREATE TABLE {words} (id BIGINT NOT NULL, terms TEXT COLLATE "C" NOT NULL)',
            f"CREATE INDEX {index}_entry ON {words} (id)",
            f"CREATE INDEX {index}_terms ON {words} USING GIN (({_VECTOR})) WITH (fastupdate = off)",
        )

    def add(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(
            f"INSERT INTO {words} (id, terms) VALUES (?, ?)",
            [
                (number, f"{_scope_word(scope)} {some}")
                for number, scope, text in index_rows
                for some in _parts(text)
            ],
        )

    def remove(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(f"DELETE FROM {words} WHERE id = ?", [(number,) for number, _, _ in index_rows])

    def match(self, words: str, scope: str, term: str, limit: int) -> Statement:
        word = _word(term)
        query = f"{_quoted(_scope_word(scope))} & {_quoted(word)}"
        # Where the index is not used, most rows are dropped before a vector is made of their terms.
        return rows(
            f"SELECT DISTINCT id FROM {words} WHERE STRPOS(terms, ?) > 0 AND {_VECTOR} @@ CAST(? AS TSQUERY)"
            " ORDER BY id DESC LIMIT ?",
            *(word, query, limit),
        )

    def clear(self, words: str) -> Statement:
        return change(f"DELETE FROM {words}")

    def compact(self, words: str) -> Statement:
        """The server's own vacuum sees to it."""
        return rows("SELECT 1")


def _parts(text: str) -> Iterator[str]:
    part: list[str] = []
    size = 0
    for term in dict.fromkeys(map(_word, text.split())):
        length = len(term.encode()) + 1
        if part and size + length > _PART:
            yield " ".join(part)
            part, size = [], 0
        part.append(term)
        size += length
    if part:
        yield " ".join(part)


@lru_cache(maxsize=16_384)
def _word(term: str) -> str:
    """The term, or its code: neither is longer than a code."""
    data = term.encode()
    return term if len(data) <= _LONGEST else b85encode(crc32(data).to_bytes(4)).decode()


def _scope_word(scope: str) -> str:
    return f"__{scope}"


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"

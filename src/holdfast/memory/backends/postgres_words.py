"""Our analyser's terms as PostgreSQL's `tsvector`, under a GIN index."""

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from holdfast.memory.backends.sql.plan import Statement, change, many, rows
from holdfast.memory.backends.sql.text_index import IndexRow

_LONGEST = 1000  # bytes: a lexeme has at most 2046
_PART = 400_000  # bytes: a vector has at most a megabyte


class Lexemes:
    """A row's terms, each once, and its scope as one more term: what no text can contain.

    A row with more terms than a vector can hold has several parts. Only single terms are asked for, so it doesn't
    matter which part has which.
    """

    def ddl(self, words: str) -> tuple[str, ...]:
        index = words.rpartition(".")[2]
        return (
            f"""CREATE TABLE {words} (
            id BIGINT NOT NULL, part BIGINT NOT NULL, terms TSVECTOR NOT NULL, PRIMARY KEY (id, part))""",
            f"CREATE INDEX {index}_terms ON {words} USING GIN (terms)",
        )

    def add(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        terms = "array_to_tsvector(ARRAY(SELECT jsonb_array_elements_text(CAST(? AS JSONB))))"
        return many(
            f"INSERT INTO {words} (id, part, terms) VALUES (?, ?, {terms})",
            [
                (number, part, json.dumps([_scope_word(scope), *some], ensure_ascii=False))
                for number, scope, text in index_rows
                for part, some in enumerate(_parts(text))
            ],
        )

    def remove(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(f"DELETE FROM {words} WHERE id = ?", [(number,) for number, _, _ in index_rows])

    def match(self, words: str, scope: str, term: str, limit: int) -> Statement:
        query = f"{_quoted(_scope_word(scope))} & {_quoted(_word(term))}"
        return rows(
            f"SELECT DISTINCT id FROM {words} WHERE terms @@ CAST(? AS TSQUERY) ORDER BY id DESC LIMIT ?",
            *(query, limit),
        )

    def clear(self, words: str) -> Statement:
        return change(f"DELETE FROM {words}")

    def compact(self, words: str) -> Statement:
        """The server's own vacuum sees to it."""
        return rows("SELECT 1")


def _parts(text: str) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for term in dict.fromkeys(map(_word, text.split())):
        length = len(term.encode())
        if part and size + length > _PART:
            yield part
            part, size = [], 0
        part.append(term)
        size += length
    if part:
        yield part


def _word(term: str) -> str:
    """The term; a very long one is cut, and told apart from others that begin alike."""
    data = term.encode()
    if len(data) <= _LONGEST:
        return term
    return f"{data[:_LONGEST].decode(errors='ignore')}_{blake2b(data, digest_size=8).hexdigest()}"


def _scope_word(scope: str) -> str:
    return f"__{scope}"


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"

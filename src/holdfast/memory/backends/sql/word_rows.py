"""Words as rows: for a database whose own text index would cut texts into words of its own."""

from collections.abc import Sequence

from holdfast.memory.backends.sql.dialect import Dialect
from holdfast.memory.backends.sql.plan import Statement, change, many, rows
from holdfast.memory.backends.sql.text_index import IndexRow


class WordRows:
    """One row for each entry and term of it, by scope and term."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def ddl(self, words: str) -> tuple[str, ...]:
        d = self._dialect
        return (
            f"CREATE TABLE {words} (term {d.id_text} NOT NULL, id {d.number} NOT NULL, PRIMARY KEY (term, id))"
            + d.clustered,
            f"CREATE INDEX {words.rpartition('.')[2]}_entry ON {words} (id)",
        )

    def add(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        # In the order of the table: writers that come at once take the rows one after the other.
        found = sorted(
            {(_word(scope, term), number) for number, scope, text in index_rows for term in text.split()}
        )
        return many(f"INSERT INTO {words} (term, id) VALUES (?, ?)", found)

    def remove(self, words: str, index_rows: Sequence[IndexRow]) -> Statement:
        return many(f"DELETE FROM {words} WHERE id = ?", [(number,) for number, _, _ in index_rows])

    def match(self, words: str, scope: str, term: str, limit: int) -> Statement:
        query = f"SELECT id FROM {words} WHERE term = ? ORDER BY id DESC LIMIT ?"
        return rows(query, _word(scope, term), limit)

    def clear(self, words: str) -> Statement:
        return change(f"DELETE FROM {words}")

    def compact(self, words: str) -> Statement:
        """The server sees to it by itself."""
        return rows("SELECT 1")


def _word(scope: str, term: str) -> str:
    return f"{scope} {term}"

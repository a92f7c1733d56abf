"""A page of threads where each question of it sees what is committed by then, as on a server."""

from typing import Any

import pytest

from holdfast.memory.backends.sql.dialect import Tables
from holdfast.memory.backends.sql.finding import list_threads
from holdfast.memory.backends.sql.plan import Batch
from holdfast.memory.backends.sql.word_rows import WordRows
from holdfast.memory.records import Page


class Threads:
    """Threads by name, with the numbers of their last saves, which change between the questions of one batch."""

    def __init__(self, *names: str) -> None:
        self.numbers = {name: number for number, name in enumerate(names, 1)}
        self.to_save: list[str] = []

    def save(self, name: str) -> None:
        self.numbers[name] = max(self.numbers.values()) + 1

    def answer(self, batch: Batch) -> list[Any]:
        """Between two questions the next one of ``to_save`` is saved."""
        return [self._one(sql, params) for _, sql, params, _ in batch if "saved" in sql]

    def _one(self, sql: str, params: Any) -> list[Any]:
        if "MAX(saved)" in sql:
            found: list[Any] = [(max(self.numbers.values()),)]
        else:
            _, _, low, high, _, limit = params
            rows = sorted(((number, name) for name, number in self.numbers.items()), reverse=True)
            found = [(name, number) for number, name in rows if low <= number <= high][:limit]
        if self.to_save:
            self.save(self.to_save.pop(0))
        return found


def page(threads: Threads, tables: Tables, limit: int, after: str | None) -> Page[str]:
    plan = list_threads(tables, "scope", "ns", "*", limit, after, 0)
    batch = next(plan)
    while True:
        try:
            batch = plan.send(threads.answer(batch))
        except StopIteration as stop:
            found: Page[str] = stop.value
            return found


@pytest.fixture
def tables() -> Tables:
    engine = pytest.importorskip("holdfast.memory.backends.mysql_engine", reason="needs pymysql")
    return Tables(engine.MYSQL, WordRows(engine.MYSQL))


@pytest.mark.parametrize("limit", [2, 3, 10])
@pytest.mark.parametrize("saved", ["a", "b", "c", "d", "e", "ab", "ea", "aa", "edcba"])
def test_a_save_between_two_questions_of_a_page_hides_no_thread(
    tables: Tables, limit: int, saved: str
) -> None:
    for when in range(4):  # in the first, second, ... page
        threads = Threads("a", "b", "c", "d", "e")
        met: list[str] = []
        after: str | None = None
        for number in range(12):
            if number == when:
                threads.to_save = list(saved)
            found = page(threads, tables, limit, after)
            met += found
            after = found.next
            if after is None:
                break
        assert set(met) == set("abcde"), (when, met)
        assert after is None

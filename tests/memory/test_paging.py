"""Pages of a listing by recency: without gap or repetition alone, without gap while others save and delete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidInput
from holdfast.memory.cursors import encode_cursor
from holdfast.memory.paging import RecencyCursor

KIND = "threads"


class Counter:
    """Threads with the number of their last save, and a listing over them."""

    def __init__(self, threads: int) -> None:
        self.newest = 0
        self.numbers: dict[int, int] = {}
        for thread in range(threads):
            self.save(thread)

    def save(self, thread: int) -> None:
        self.newest += 1
        self.numbers[thread] = self.newest

    def page(self, limit: int, after: str | None) -> tuple[list[int], str | None]:
        cursor = RecencyCursor.open(after, KIND, self.newest)
        found: list[tuple[int, int]] = []
        for lowest, highest in cursor.spans(self.newest):
            rows = [(n, thread) for thread, n in self.numbers.items() if lowest <= n <= highest]
            found += sorted(rows, reverse=True)
        page = found[:limit]
        more = len(found) > limit
        following = cursor.behind(page[-1][0], self.newest).encode(KIND) if more else None
        return [thread for _, thread in page], following


@given(threads=st.integers(0, 20), limit=st.integers(1, 25))
def test_alone_every_thread_is_listed_once_last_saved_first(threads: int, limit: int) -> None:
    counter, seen, after = Counter(threads), list[int](), None
    while True:
        page, after = counter.page(limit, after)
        assert len(page) == limit or after is None
        seen += page
        if after is None:
            break
    assert seen == list(range(threads))[::-1]


@given(
    threads=st.integers(1, 12),
    limit=st.integers(1, 5),
    meanwhile=st.lists(st.lists(st.integers(-15, 14), max_size=4), max_size=12),
)
def test_what_existed_at_the_beginning_and_still_does_is_in_some_page(
    threads: int, limit: int, meanwhile: list[list[int]]
) -> None:
    counter = Counter(threads)
    page, after = counter.page(limit, None)
    seen = set(page)
    deleted: set[int] = set()
    for changes in meanwhile:
        for thread in changes:
            if thread >= 0:
                counter.save(thread)
            elif counter.numbers.pop(-thread - 1, None):
                deleted.add(-thread - 1)
        if after is None:
            break
        page, after = counter.page(limit, after)
        seen |= set(page)
    while after is not None:
        page, after = counter.page(limit, after)
        seen |= set(page)
    assert set(range(threads)) - deleted <= seen


def test_within_a_thread_the_listing_goes_on_below_the_last_checkpoint() -> None:
    cursor = RecencyCursor.open(None, KIND, 9).behind(5, 9, sequence=3)
    assert cursor.spans(9) == [(1, 5)]
    assert [cursor.has(5, sequence) for sequence in (1, 2, 3, 4)] == [True, True, False, False]
    assert cursor.has(4, 100)
    assert RecencyCursor.open(None, KIND, 9).behind(5, 9).spans(11) == [(1, 4), (10, 11)]


def test_a_cursor_is_read_back_and_others_are_refused() -> None:
    cursor = RecencyCursor(1, 9, 5, 2)
    assert RecencyCursor.open(cursor.encode(KIND), KIND, 20) == cursor
    for wrong in (
        cursor.encode("other"),
        encode_cursor(KIND, 1, 2, 3),
        encode_cursor(KIND, 1, 2, 3, "4"),
        "x",
    ):
        with pytest.raises(InvalidInput, match="after"):
            RecencyCursor.open(wrong, KIND, 20)

"""What listings of threads and metadata promise: order of saves, plain patterns, strict values, no gaps."""

from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_threads,
    chat,
    grow,
    ids_of,
    requires,
)
from holdfast.testing.clock import FrozenClock
from holdfast.testing.running import bounded


async def touch(checkpointer: BaseCheckpointer, *thread_ids: str) -> None:
    for thread_id in thread_ids:
        await checkpointer.save(AgentState(), thread_id)


class ListingCases(CheckpointerCases):
    async def test_threads_are_listed_last_saved_first(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "list_threads")
            for thread_id in ("b", "a", "d", "c", "a"):
                await touch(checkpointer, thread_id)
                clock.advance(-1)  # the clock has no say
            assert await all_threads(checkpointer) == ["a", "c", "d", "b"]
            await checkpointer.delete("c")
            head = await checkpointer.head("a")
            assert head is not None
            await checkpointer.delete("a", head.checkpoint_id)  # a deletion is not a save
            assert await all_threads(checkpointer) == ["a", "d", "b"]
            assert await checkpointer.list_threads(2) == ["a", "d"]
            assert await checkpointer.list_threads(0) == []

    async def test_a_hundred_threads_are_listed_by_default(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_threads")
            await touch(checkpointer, *[f"t{number}" for number in range(101)])
            page = await checkpointer.list_threads()
            assert page == [f"t{number}" for number in range(100, 0, -1)]
            assert page.next is not None
            last = await checkpointer.list_threads(after=page.next)
            assert (list(last), last.next) == (["t0"], None)

    async def test_only_star_question_mark_and_backslash_are_special(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_threads")
            ids = [
                "user1",
                "user10",
                "User1",
                "a[1]",
                "a1",
                "50%",
                "50x",
                "a_b",
                "axb",
                "a*b",
                "a\\b",
                "l1\nl2",
                "🦀",
            ]
            await touch(checkpointer, *ids)
            expected = {
                "*": ids,
                "": [],
                "user1": ["user1"],
                "user?": ["user1"],
                "user*": ["user1", "user10"],
                "?ser1": ["user1", "User1"],
                "*1": ["user1", "User1", "a1"],
                "a[1]": ["a[1]"],
                "[a]*": [],
                "50%": ["50%"],
                "%": [],
                "a_b": ["a_b"],
                "_____": [],
                "?????": ["user1", "User1", "l1\nl2"],
                "a?b": ["a_b", "axb", "a*b", "a\\b"],
                r"a\*b": ["a*b"],
                r"a\?b": [],
                r"a\\b": ["a\\b"],
                "a\\": [],
                r"\u\s\er1": ["user1"],
                "l1*l2": ["l1\nl2"],
                "?": ["🦀"],
                "USER1": [],
                "**1*": ["user1", "user10", "User1", "a[1]", "a1", "l1\nl2"],
                "' OR 1=1 --": [],
                "\x00*": [],
                "\ud800": [],
            }
            for pattern, matching in expected.items():
                assert await all_threads(checkpointer, pattern) == matching[::-1], pattern
            bad: list[Any] = [None, 1, b"*"]
            for pattern in bad:
                with pytest.raises(InvalidInput, match="pattern"):
                    await checkpointer.list_threads(pattern=pattern)

    async def test_the_limit_counts_what_matches(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_threads")
            await touch(checkpointer, "a1", "a2", "a3", *[f"b{number}" for number in range(20)])
            first = await checkpointer.list_threads(2, "a*")
            assert first == ["a3", "a2"]
            second = await checkpointer.list_threads(2, "a*", after=first.next)
            assert (list(second), second.next) == (["a1"], None)

    async def test_pages_of_threads_join_without_gap_or_repetition(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_threads")
            ids = [f"t{number}" for number in range(7)]
            await touch(checkpointer, *ids)
            for size in (1, 2, 3, 7, 8):
                seen: list[str] = []
                after: str | None = None
                for _ in bounded():
                    page = await checkpointer.list_threads(size, after=after)
                    seen += page
                    after = page.next
                    if after is None:
                        break
                assert seen == ids[::-1]

    async def test_a_listing_of_threads_is_complete_while_others_write(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_threads")
            ids = [f"t{number}" for number in range(8)]
            await touch(checkpointer, *ids)
            seen: set[str] = set()
            # Between pages threads are saved again (some twice), come and go.
            meanwhile = [["t0", "new"], ["t1", "t7"], ["t0"], ["t2", "t1"]]
            page = await checkpointer.list_threads(2)
            for saved in meanwhile:
                seen |= set(page)
                await touch(checkpointer, *saved)
                await checkpointer.delete("t5")
                assert page.next is not None
                page = await checkpointer.list_threads(2, after=page.next)
            seen |= set(page)
            while page.next is not None:
                page = await checkpointer.list_threads(2, after=page.next)
                seen |= set(page)
            assert set(ids) - seen <= {"t5"}

    # ── metadata ──────────────────────────────────────────────────────────────────────────────────

    async def test_checkpoints_are_listed_with_metadata(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "list_with_metadata")
            await checkpointer.save(AgentState(), "a", "a1", {"n": 1})
            await checkpointer.save(AgentState(), "b", "b1")
            await checkpointer.save(AgentState(), "a", "a2", {"deep": {"list": [1, None]}})
            listed = await checkpointer.list_with_metadata()
            assert listed == [
                {
                    "thread_id": "a",
                    "checkpoint_id": "a2",
                    "metadata": {"deep": {"list": [1, None]}},
                    "created_at": clock.now,
                },
                {"thread_id": "a", "checkpoint_id": "a1", "metadata": {"n": 1}, "created_at": clock.now},
                {"thread_id": "b", "checkpoint_id": "b1", "metadata": {}, "created_at": clock.now},
            ]
            assert await checkpointer.list_with_metadata(2) == listed[:2]
            assert await checkpointer.list_with_metadata(0) == []

    async def test_pages_with_metadata_join_without_gap_or_repetition(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_with_metadata", "metadata_query", "branching")
            await grow(checkpointer, "a", 3)
            await grow(checkpointer, "b", 2)
            await checkpointer.fork("a", "c2", "c")
            expected = [
                ("c", "c2"),
                ("c", "c1"),
                ("b", "c2"),
                ("b", "c1"),
                ("a", "c3"),
                ("a", "c2"),
                ("a", "c1"),
            ]
            ones = [pair for pair in expected if pair[1] == "c1"]
            for size in range(1, 9):
                assert await _paged(checkpointer, size) == expected
                assert await _paged(checkpointer, size, where=("n", 1)) == ones

    async def test_a_listing_with_metadata_is_complete_while_others_write(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "list_with_metadata")
            for thread_id in ("a", "b", "c"):
                await grow(checkpointer, thread_id, 3)
            there = {(thread_id, f"c{number}") for thread_id in "abc" for number in (1, 2, 3)}
            seen: set[tuple[str, str]] = set()
            page = await checkpointer.list_with_metadata(2)
            for number, saved in enumerate(["a", "c", "b", "c", "a"], start=10):
                seen |= set(ids_of(page))
                await grow(checkpointer, saved, 1, start=number)
                assert page.next is not None
                page = await checkpointer.list_with_metadata(2, after=page.next)
            seen |= set(ids_of(page))
            while page.next is not None:
                page = await checkpointer.list_with_metadata(2, after=page.next)
                seen |= set(ids_of(page))
            assert there <= seen

    async def test_metadata_is_found_by_exact_value_and_type(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "metadata_query")
            values: list[Any] = [1, True, 1.0, "1", None, 0, False, "", [], {}, [1], [True], (1,), {"a": 1}]
            values += [{"a": 1.0}, "a%", "a_", "A", "a", float("nan"), 2**70, b"a", "\x00", "\ud800", " a"]
            for number, value in enumerate(values):
                await checkpointer.save(AgentState(), f"t{number}", "c", {"key": value, "n": number})
            await checkpointer.save(AgentState(), "without", "c", {"other": 1})
            for number, value in enumerate(values):
                found = await checkpointer.query_by_metadata("key", value)
                assert ids_of(found) == [(f"t{number}", "c")], repr(value)
            assert await checkpointer.query_by_metadata("key", "missing") == []
            assert await checkpointer.query_by_metadata("missing", None) == []

    async def test_metadata_keys_are_only_names(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "metadata_query")
            keys = [
                "a.b",
                "a",
                "$",
                "$.a",
                "a[0]",
                '"',
                "'",
                "\\",
                "%",
                "_",
                "*",
                "a'; --",
                "",
                " ",
                "\x00",
                "\ud800",
            ]
            keys += ["🦀", "A", "a\nb", '$."a"', "b"]
            for key in keys:
                await checkpointer.save(AgentState(), "t", f"key {keys.index(key)}", {key: {"b": [1]}})
            for number, key in enumerate(keys):
                found = await checkpointer.query_by_metadata(key, {"b": [1]})
                assert ids_of(found) == [("t", f"key {number}")], key
            bad: list[Any] = [None, 1, b"a"]
            for key in bad:
                with pytest.raises(InvalidInput, match="key"):
                    await checkpointer.query_by_metadata(key, 1)
            with pytest.raises(InvalidInput, match="value"):
                await checkpointer.query_by_metadata("a", object())

    async def test_every_checkpoint_is_found_by_its_metadata(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "metadata_query", "branching")
            for number in range(4):
                await checkpointer.save(chat(str(number)), "t", f"c{number}", {"even": number % 2 == 0})
            await checkpointer.fork("t", "c2", "fork")
            await checkpointer.delete("t", "c0")
            found = await checkpointer.query_by_metadata("even", True)
            assert ids_of(found) == [("fork", "c2"), ("fork", "c0"), ("t", "c2")]
            assert ids_of(await checkpointer.query_by_metadata("even", True, 2)) == ids_of(found)[:2]
            assert await checkpointer.query_by_metadata("even", True, 0) == []

    async def test_get_metadata_is_that_of_the_head_or_of_the_asked(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "metadata_query")
            await checkpointer.save(AgentState(), "t", "c1", {"n": 1})
            await checkpointer.save(AgentState(), "t", "c2")
            assert await checkpointer.get_metadata("t") == {}
            assert await checkpointer.get_metadata("t", "c1") == {"n": 1}


async def _paged(
    checkpointer: BaseCheckpointer, size: int, *, where: tuple[str, Any] | None = None
) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    after: str | None = None
    for _ in bounded():
        if where is None:
            page = await checkpointer.list_with_metadata(size, after=after)
        else:
            page = await checkpointer.query_by_metadata(*where, size, after=after)
        seen += ids_of(page)
        after = page.next
        if after is None:
            break
    return seen

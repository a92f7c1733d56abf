"""What listings promise: an order, pages that fit together, and no gap while others write."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.records import Page
from holdfast.testing.running import bounded
from holdfast.testing.store_cases.base import NS, OpenStore, StoreCases, all_keys, fill, keys, requires, wrong

BAD_LIMITS = wrong(-1, True, 1.5, "1", None)


async def pages(fetch: Callable[..., Awaitable[Page[Any]]]) -> list[list[Any]]:
    """All pages, one after the other."""
    found: list[list[Any]] = []
    after: str | None = None
    for _ in bounded():
        page = await fetch(after=after)
        found.append(list(page))
        after = page.next
        if after is None:
            break
    return found


class ListingCases(StoreCases):
    async def test_keys_are_in_order_of_code_points(self, open_store: OpenStore) -> None:
        names = [
            "b",
            "a",
            "B",
            "Z",
            "_",
            "10",
            "9",
            "é",
            "e\u0301",
            "\uffff",
            "\U0001f600",
            "\ue000",
            "\ud800",
            "\x00",
            "aa",
        ]
        async with open_store() as store:
            await fill(store, NS, names)
            assert await store.list_keys(NS) == sorted(names)
            assert await all_keys(store, NS) == sorted(names)
            assert (await pages(partial(store.list_keys, NS, 4))) == [
                sorted(names)[start : start + 4] for start in range(0, len(names), 4)
            ]

    async def test_limits(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await fill(store, NS, (f"k{index:03}" for index in range(120)))
            assert len(await store.list_keys(NS)) == 100
            assert len(await store.search(NS)) == 10
            for limit in (0, 1, 119, 120, 121, 10**6):
                assert len(await store.list_keys(NS, limit)) == min(limit, 120)
                assert len(await store.search(NS, limit=limit)) == min(limit, 120)
            assert (await store.list_keys(NS, 120)).next is None
            assert (await store.list_keys(NS, 119)).next is not None
            assert (await store.search(NS, limit=120)).next is None
            for bad in BAD_LIMITS:
                with pytest.raises(InvalidInput, match="limit"):
                    await store.list_keys(NS, bad)
                with pytest.raises(InvalidInput, match="limit"):
                    await store.search(NS, None, bad)

    async def test_pages_fit_together(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            names = [f"k{index:02}" for index in range(25)]
            await fill(store, NS, names)
            for size in (1, 7, 24, 25, 26):
                found = await pages(partial(store.search, NS, limit=size))
                assert [item.key for page in found for item in page] == names[::-1]
                assert all(len(page) == size for page in found[:-1])
                listed = await pages(partial(store.list_keys, NS, size))
                assert [key for page in listed for key in page] == names

    async def test_pages_over_many_namespaces_fit_together(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            places = [(*NS, part) for part in ("b", "a", "a/b", "a b", "ä")]
            for place in places:
                await fill(store, place, "xyz")
            listed = await pages(partial(store.list_keys, NS, 2, prefix=True))
            assert sorted(key for page in listed for key in page) == sorted("xyz" * len(places))
            items = [item async for item in store.iterate(NS, prefix=True)]
            assert len({(item.namespace, item.key) for item in items}) == len(items) == 3 * len(places)
            found = await pages(partial(store.search, NS, limit=4, prefix=True))
            versions = [item.version for page in found for item in page]
            assert versions == sorted(versions, reverse=True)
            assert len(versions) == 3 * len(places)

    async def test_namespaces_are_listed_once_each_page_by_page(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "list_namespaces")
            places = [("a",), ("a", "b"), ("a", "c"), ("b",), ("a/b",), ("c", "d", "e")]
            for place in places:
                await fill(store, place, "xy")
            for size in (1, 2, 6, 7):
                found = await pages(partial(store.list_namespaces, limit=size))
                assert sorted(place for page in found for place in page) == sorted(places)
            assert await store.list_namespaces(limit=0) == []
            assert sorted(await store.list_namespaces(("a",))) == [("a",), ("a", "b"), ("a", "c")]
            assert await store.list_namespaces(("nobody",)) == []
            await store.delete(("b",), "x")
            assert ("b",) in await store.list_namespaces()
            await store.delete(("b",), "y")
            assert ("b",) not in await store.list_namespaces()

    async def test_wrong_cursors_are_refused(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await fill(store, NS, "abc")
            of_keys = (await store.list_keys(NS, 1)).next
            of_search = (await store.search(NS, limit=1)).next
            for bad in wrong("", "x", "%%%", "W10", "bnVsbA", of_search, 1, ("a",)):
                with pytest.raises(InvalidInput, match="after"):
                    await store.list_keys(NS, after=bad)
            for bad in wrong("", "x", "%%%", "W10", "bnVsbA", of_keys, 1, ("a",)):
                with pytest.raises(InvalidInput, match="after"):
                    await store.search(NS, after=bad)

    async def test_iterating_is_complete_while_others_write(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            names = [f"k{index:04}" for index in range(700)]
            early = [f"e{index:04}" for index in range(20)]
            await store.put_batch([(NS, name, 0, None) for name in early + names])
            seen: list[str] = []
            async for item in store.iterate(NS):
                seen.append(item.key)
                if len(seen) % 50 == 0:
                    await store.delete(NS, early.pop())  # what was seen moves up
                    await store.put(NS, names[len(seen) // 2], 1)  # behind
                    await store.put(NS, names[-len(seen) // 2 - 1], 1)  # ahead
                    await store.put(NS, f"z{len(seen)}", 1)  # new, ahead
                if len(seen) % 500 == 0:
                    await store.put_batch([(NS, f"a{index}", 1) for index in range(50)])  # new, behind
            assert [key for key in seen if key.startswith("k")] == names
            assert len(seen) == len(set(seen))

    async def test_newest_first_is_complete_while_others_write(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            names = [f"k{index:02}" for index in range(20)]
            await fill(store, NS, names)
            seen: list[str] = []
            after: str | None = None
            for step in range(100):
                page = await store.search(NS, limit=3, after=after)
                seen += keys(page)
                if step < 4:  # what is still to come jumps to the front
                    await store.put(NS, names[step], 1)
                    await store.put(NS, names[-1 - step], 1)
                after = page.next
                if after is None:
                    break
            assert after is None
            assert set(seen) == set(names)

    async def test_clearing_counts_and_takes_only_its_own(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await fill(store, NS, "abc")
            await fill(store, (*NS, "below"), "ab")
            await fill(store, ("suite",), "a")
            assert await store.clear_namespace(NS) == 3
            assert await store.clear_namespace(NS) == 0
            assert await all_keys(store, ("suite",), prefix=True) == ["a", "a", "b"]
            await fill(store, NS, "abc")
            assert await store.clear_namespace(NS, prefix=True) == 5
            assert await store.list_keys(("suite",), prefix=True) == ["a"]
            for bad in wrong(1, None, "yes"):
                with pytest.raises(InvalidInput, match="prefix"):
                    await store.clear_namespace(("suite",), prefix=bad)
            assert await store.exists(("suite",), "a") is True

    # ── neighbours ────────────────────────────────────────────────────────────────────────────────

    async def test_neighbours_are_of_one_group_and_near(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            for ordinal in (5, 3, 9, 4, 1, 7, -2, 0):
                for group in ("s1", "s10", "S1", "%"):
                    metadata = {"group": group, "ordinal": ordinal}
                    await store.put(NS, f"{group} {ordinal}", 1, metadata)
            odd: list[dict[str, Any]] = [
                {"group": "s1"},
                {"ordinal": 4},
                {"group": "s1", "ordinal": "4"},
                {"group": "s1", "ordinal": True},
                {"group": "s1", "ordinal": 4.0},
                {"group": "s1", "ordinal": None},
                {"group": ["s1"], "ordinal": 4},
            ]
            for index, metadata in enumerate(odd):
                await store.put(NS, f"odd {index}", 1, metadata)
            await store.put((*NS, "below"), "s1 4", 1, {"group": "s1", "ordinal": 4})

            async def near(group: str, ordinal: int, window: int) -> list[str]:
                return keys(await store.neighbours(NS, group, ordinal, window))

            assert await near("s1", 4, 0) == ["s1 4"]
            assert await near("s1", 4, 1) == ["s1 3", "s1 4", "s1 5"]
            assert await near("s1", 6, 1) == ["s1 5", "s1 7"]
            assert await near("s1", 0, 2) == ["s1 -2", "s1 0", "s1 1"]
            assert await near("s1", 6, 0) == []
            assert await near("s1", 3, 10**6) == [f"s1 {n}" for n in (-2, 0, 1, 3, 4, 5, 7, 9)]
            assert await near("%", 4, 1) == ["% 3", "% 4", "% 5"]
            assert await near("nobody", 4, 1) == []

    async def test_bad_neighbourhoods_are_refused(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "metadata_filter")
            for bad in wrong(True, 1.0, "1", None):
                with pytest.raises(InvalidInput, match="ordinal"):
                    await store.neighbours(NS, "g", bad, 1)
                with pytest.raises(InvalidInput, match="window"):
                    await store.neighbours(NS, "g", 1, bad)
            with pytest.raises(InvalidInput, match="window"):
                await store.neighbours(NS, "g", 1, -1)
            with pytest.raises(InvalidInput, match="group"):
                await store.neighbours(NS, "", 1, 1)

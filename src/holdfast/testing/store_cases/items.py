"""What single items promise: they come back as they were put, as copies, with versions that only grow."""

import asyncio
import copy
import math
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core import codec
from holdfast.core.errors import Closed, Conflict, InvalidInput
from holdfast.memory.records import Page, StoreItem
from holdfast.memory.store import BaseStore
from holdfast.testing.clock import FrozenClock
from holdfast.testing.running import bounded
from holdfast.testing.store_cases.base import (
    NS,
    VALUES,
    OpenStore,
    StoreCases,
    all_keys,
    fill,
    keys,
    requires,
    wrong,
)


class ItemCases(StoreCases):
    async def test_missing_is_none_false_or_empty(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            assert await store.get(NS, "k") is None
            assert await store.get_item(NS, "k") is None
            assert await store.get_batch([(NS, "k"), (("other",), "k")]) == [None, None]
            assert await store.exists(NS, "k") is False
            assert await store.delete(NS, "k") is False
            assert await store.list_keys(NS) == []
            assert await store.search(NS) == []
            assert await store.clear_namespace(NS) == 0
            assert await all_keys(store, NS) == []

    async def test_values_come_back_with_their_types(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            for key, value in VALUES.items():
                await store.put(NS, key, value, {"m": value})
            for key, value in VALUES.items():
                item = await store.get_item(NS, key)
                assert item is not None
                assert codec.same(item.value, value), key
                assert codec.same(item.metadata, {"m": value}), key
                assert codec.same(await store.get(NS, key), value), key
            assert math.copysign(1, await store.get(NS, "minus zero")) == -1
            assert list(await store.get(NS, "order of keys")) == ["z", "a", "m"]
            found = {item.key: item.value for item in await store.search(NS, limit=1000)}
            assert all(codec.same(found[key], value) for key, value in VALUES.items())

    async def test_what_cannot_be_stored_is_refused_with_its_path(self, open_store: OpenStore) -> None:
        cycle: list[Any] = []
        cycle.append(cycle)
        async with open_store() as store:
            for bad in (object(), cycle, lambda: None, {"deep": [1, object()]}):
                with pytest.raises(InvalidInput, match="value"):
                    await store.put(NS, "k", bad)
                with pytest.raises(InvalidInput, match="metadata"):
                    await store.put(NS, "k", 1, {"m": bad})
            with pytest.raises(InvalidInput, match=r"value\.deep\[1\]"):
                await store.put(NS, "k", {"deep": [1, object()]})
            for bad_metadata in wrong("text", [("a", 1)], {1: "a"}):
                with pytest.raises(InvalidInput, match="metadata"):
                    await store.put(NS, "k", 1, bad_metadata)
            assert await store.exists(NS, "k") is False

    async def test_values_are_copies(self, open_store: OpenStore) -> None:
        value, metadata = {"list": [1, {"deep": [2]}]}, {"tags": ["a"]}
        kept_value, kept_metadata = copy.deepcopy(value), copy.deepcopy(metadata)
        async with open_store() as store:
            await store.put(NS, "k", value, metadata)
            value["list"].append("after the put")
            metadata["tags"].append("after the put")
            for _ in range(2):
                item = await store.get_item(NS, "k")
                assert item is not None
                (found,) = await store.search(NS)
                (stepped,) = [entry async for entry in store.iterate(NS)]
                (batched,) = await store.get_batch([(NS, "k")])
                alone = await store.get(NS, "k")
                for each in (item, found, stepped):
                    assert each.value == kept_value
                    assert each.metadata == kept_metadata
                    each.value["list"][1]["deep"].append("by a reader")
                    each.metadata["tags"].clear()
                for each in (batched, alone):
                    assert each == kept_value
                    each["list"].clear()

    async def test_an_item_says_what_it_is(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            first = await store.put(list(NS), "k", {"a": 1}, {"m": 1})
            born = clock.now
            clock.advance(60)
            second = await store.put(NS, "k", {"a": 2})
            item = await store.get_item(NS, "k")
            assert item == StoreItem(NS, "k", {"a": 2}, {}, born, born + timedelta(seconds=60), second)
            assert 0 < first < second
            assert item.created_at.tzinfo is not None
            await store.delete(NS, "k")
            clock.advance(60)
            await store.put(NS, "k", {"a": 3})
            again = await store.get_item(NS, "k")
            assert again is not None
            assert again.created_at == again.updated_at == clock.now

    async def test_order_does_not_depend_on_the_clock(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            for key in "cab":
                await store.put(NS, key, 1)
                clock.advance(-3600)
            assert keys(await store.search(NS)) == ["b", "a", "c"]
            await store.put(NS, "c", 2)
            assert keys(await store.search(NS)) == ["c", "b", "a"]

    async def test_versions_never_repeat(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            seen: list[int] = []
            for _ in range(3):
                seen += [
                    await store.put(NS, "k", 1),
                    await store.put(NS, "k", 1),
                    await store.put(NS, "x", 1),
                ]
                assert await store.delete(NS, "k") is True
                assert await store.delete(NS, "k") is False
                seen.append(await store.put(NS, "k", 2))
                assert await store.clear_namespace(NS) == 2
                seen += await store.put_batch([(NS, "k", 3, None), (NS, "x", 3, None)])
            assert seen == sorted(set(seen))
            assert seen[0] > 0

    async def test_delete_takes_that_item_only(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await fill(store, NS, "abc")
            await fill(store, (*NS, "below"), "abc")
            assert await store.delete(NS, "b") is True
            assert await store.get(NS, "b") is None
            assert await store.list_keys(NS) == ["a", "c"]
            assert await store.list_keys((*NS, "below")) == ["a", "b", "c"]

    # ── compare-and-set ───────────────────────────────────────────────────────────────────────────

    async def test_compare_and_set(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "compare_and_set")
            first = await store.put(NS, "k", 1, expected_version=0)
            for wrong in (0, first + 1, 2**62):
                with pytest.raises(Conflict) as caught:
                    await store.put(NS, "k", "lost", expected_version=wrong)
                assert (caught.value.expected, caught.value.actual) == (wrong, first)
            second = await store.put(NS, "k", 2, expected_version=first)
            assert await store.get(NS, "k") == 2
            with pytest.raises(Conflict):
                await store.delete(NS, "k", expected_version=first)
            assert await store.delete(NS, "k", expected_version=second) is True
            for gone in (first, second):
                with pytest.raises(Conflict) as caught:
                    await store.put(NS, "k", "back", expected_version=gone)
                assert (caught.value.expected, caught.value.actual) == (gone, 0)
            assert await store.exists(NS, "k") is False
            assert await store.put(NS, "k", 3, expected_version=0) > second

    async def test_bad_versions_are_refused(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "compare_and_set")
            for bad in wrong(-1, True, 1.0, "1", 2**63):
                with pytest.raises(InvalidInput, match="expected_version"):
                    await store.put(NS, "k", 1, expected_version=bad)
            assert await store.exists(NS, "k") is False

    async def test_concurrent_writers_lose_nothing(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "compare_and_set")

            async def add(name: int) -> None:
                for step in range(4):
                    for _ in bounded():
                        item = await store.get_item(NS, "list")
                        done = [] if item is None else item.value
                        version = 0 if item is None else item.version
                        await asyncio.sleep(0)  # the others get their turn between read and write
                        try:
                            await store.put(NS, "list", [*done, [name, step]], expected_version=version)
                            break
                        except Conflict:
                            continue

            await asyncio.gather(*(add(name) for name in range(16)))
            done = await store.get(NS, "list")
            assert sorted(done) == [[name, step] for name in range(16) for step in range(4)]

    async def test_a_cancelled_write_is_whole_or_absent(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            for turns in range(12):
                key = f"k{turns}"
                task = asyncio.ensure_future(store.put(NS, key, {"text": "whole"}, {"m": turns}))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    version = await task
                except asyncio.CancelledError:
                    version = None
                item = await store.get_item(NS, key)
                if item is None:
                    assert version is None
                else:
                    assert (item.value, item.metadata) == ({"text": "whole"}, {"m": turns})
                    assert version in (None, item.version)
                assert await store.put(NS, key, "after", {"m": -1}) > (item.version if item else 0)
                assert await store.get(NS, key) == "after"

    # ── many at a time ────────────────────────────────────────────────────────────────────────────

    async def test_put_batch_and_get_batch_keep_the_order(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            other = ("another root",)
            versions = await store.put_batch(
                [(NS, "a", 1, {"m": 1}), (other, "a", 2), (NS, "b", 3, None), (NS, "a", 4, {"m": 4})]
            )
            assert len(set(versions)) == 4
            assert versions[0] < versions[2] < versions[3]
            wanted = [(NS, "b"), (other, "a"), (NS, "none"), (NS, "a"), (NS, "b")]
            assert await store.get_batch(wanted) == [3, 2, None, 4, 3]
            item = await store.get_item(NS, "a")
            assert item is not None
            assert (item.metadata, item.version) == ({"m": 4}, versions[3])
            assert await store.put_batch([]) == []
            assert await store.get_batch([]) == []

    async def test_a_batch_with_a_bad_entry_writes_nothing(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            for bad in ((NS, "", 1), (NS, "b", object()), ((), "b", 1), (NS, "b"), "ab", (NS, "b", 1, 2)):
                with pytest.raises(InvalidInput, match=r"items\[1\]"):
                    await store.put_batch([(NS, "a", 1), bad, (NS, "c", 1)])
            with pytest.raises(InvalidInput):
                await store.put_batch("text")
            for place in ((NS, ""), (NS,), "ab", ((), "k")):
                with pytest.raises(InvalidInput, match=r"places\[0\]"):
                    await store.get_batch([place])
            assert await store.list_keys(NS) == []

    async def test_a_large_batch(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            items = [(NS, f"k{index:05}", index, {"n": index}) for index in range(2500)]
            await store.put_batch(items)
            assert await store.get_batch([(NS, key) for _, key, _, _ in items]) == list(range(2500))
            assert await store.list_keys(NS, 5000) == [key for _, key, _, _ in items]

    # ── other names, and the end ──────────────────────────────────────────────────────────────────

    async def test_aliases_do_the_same(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            version = await store.aput(NS, "k", {"text": "apple"}, {"m": 1})
            assert await store.aget(NS, "k") == {"text": "apple"}
            assert await store.asearch(NS) == await store.search(NS)
            if store.capabilities.list_namespaces:
                assert await store.alist_namespaces() == [NS]
            item = await store.get_item(NS, "k")
            assert item is not None
            assert item.version == version
            assert await store.adelete(NS, "k") is True
            assert await store.adelete(NS, "k") is False

    async def test_closing_twice_is_fine_and_use_after_it_is_not(self, open_store: OpenStore) -> None:
        store = open_store()
        await store.put(NS, "k", 1)
        await store.close()
        await store.close()

        async def walk() -> None:
            async for _ in store.iterate(NS):
                pass

        calls = [
            lambda: store.put(NS, "k", 1),
            lambda: store.put_with_embedding(NS, "k", 1, [1.0]),
            lambda: store.put_batch([(NS, "k", 1)]),
            lambda: store.get(NS, "k"),
            lambda: store.get_item(NS, "k"),
            lambda: store.get_batch([(NS, "k")]),
            lambda: store.exists(NS, "k"),
            lambda: store.delete(NS, "k"),
            lambda: store.batch([]),
            lambda: store.list_keys(NS),
            store.list_namespaces,
            lambda: store.search(NS),
            lambda: store.search(NS, "query"),
            lambda: store.search_by_embedding(NS, [1.0]),
            lambda: store.text_candidates(NS, ["a"], 1),
            lambda: store.neighbours(NS, "g", 1, 1),
            lambda: store.clear_namespace(NS),
            store.purge_expired,
            walk,
        ]
        for call in calls:
            with pytest.raises(Closed):
                await call()

    async def test_leaving_the_context_closes(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await store.put(NS, "k", 1)
        with pytest.raises(Closed):
            await store.get(NS, "k")

    # ── more than one object ──────────────────────────────────────────────────────────────────────

    async def test_another_object_sees_the_items(self, open_store: OpenStore) -> None:
        reopen = self.share(open_store)
        async with open_store() as store:
            version = await store.put(NS, "k", VALUES["nested"], {"m": 1})
            async with reopen() as other:
                await _check_same(store, other)
                assert await other.put(NS, "k", 2) > version
                await other.delete(NS, "none")
                await _check_same(store, other)
        async with reopen() as later:
            assert await later.get(NS, "k") == 2
            assert await later.put(NS, "k", 3) > version

    async def test_versions_go_on_in_a_new_object(self, open_store: OpenStore) -> None:
        reopen = self.share(open_store)
        last = 0
        for _ in range(3):
            async with reopen() as store:
                version = await store.put(NS, "k", 1)
                assert version > last
                last = version
                await store.clear_namespace(NS)


async def _check_same(store: BaseStore, other: BaseStore) -> None:
    mine: Page[StoreItem] = await store.search(NS)
    assert mine == await other.search(NS)
    assert await store.list_keys(NS) == await other.list_keys(NS)

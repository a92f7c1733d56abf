"""What a batch promises: all of it, or nothing."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.memory.store import BaseStore
from holdfast.testing.running import bounded
from holdfast.testing.store_cases.base import NS, OpenStore, StoreCases, fill, keys, requires, wrong

OTHER = ("suite", "other")


async def snapshot(store: BaseStore) -> dict[tuple[Sequence[str], str], tuple[object, int]]:
    return {
        (item.namespace, item.key): (item.value, item.version)
        async for item in store.iterate(("suite",), prefix=True)
    }


class BatchCases(StoreCases):
    async def test_writes_are_done_in_order(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "atomic_batch")
            versions = await fill(store, NS, "ab")
            done = await store.batch(
                [
                    PutOp(NS, "a", "new", {"m": 1}),
                    DeleteOp(NS, "b"),
                    DeleteOp(NS, "nobody"),
                    PutOp(OTHER, "c", 1),
                    PutOp(OTHER, "c", 2),
                    DeleteOp(NS, "a"),
                    PutOp(NS, "d", 1),
                    DeleteOp(NS, "d"),
                    PutOp(NS, "b", "back"),
                ]
            )
            assert done[1:3] == [versions["b"], 0]
            assert done[5] == done[0]
            assert done[7] == done[6]
            puts = [done[index] for index in (0, 3, 4, 6, 8)]
            assert puts == sorted(set(puts))
            assert puts[0] > max(versions.values())
            assert await snapshot(store) == {(NS, "b"): ("back", done[8]), (OTHER, "c"): (2, done[4])}
            assert await store.batch([]) == []

    async def test_requirements_come_first(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "atomic_batch")
            versions = await fill(store, NS, "ab")
            ops: list[PutOp | DeleteOp] = [PutOp(NS, "a", "new"), DeleteOp(NS, "b"), PutOp(OTHER, "c", 1)]
            before = await snapshot(store)
            for require, expected, actual in (
                ([(NS, "a", versions["a"]), (NS, "b", versions["a"])], versions["a"], versions["b"]),
                ([(NS, "a", 0)], 0, versions["a"]),
                ([(OTHER, "c", 5)], 5, 0),
                ([(NS, "nobody", versions["a"])], versions["a"], 0),
            ):
                with pytest.raises(Conflict) as caught:
                    await store.batch(ops, require)
                assert (caught.value.expected, caught.value.actual) == (expected, actual)
                assert await snapshot(store) == before
            good = [(NS, "a", versions["a"]), (NS, "b", versions["b"]), (OTHER, "c", 0), (NS, "nobody", 0)]
            assert await store.batch([], good) == []
            assert await snapshot(store) == before
            assert len(await store.batch(ops, good)) == 3
            with pytest.raises(Conflict):
                await store.batch(ops, good)

    async def test_a_bad_entry_stops_all(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "atomic_batch")
            await fill(store, NS, "ab")
            before = await snapshot(store)
            for bad in wrong(
                PutOp(NS, "", 1),
                PutOp((), "x", 1),
                PutOp(NS, "x", object()),
                PutOp(NS, "x", 1, {"m": object()}),
                DeleteOp(NS, " "),
                ("put", NS, "x", 1),
                None,
            ):
                with pytest.raises(InvalidInput, match=r"ops\[1\]"):
                    await store.batch([PutOp(NS, "a", "new"), bad, DeleteOp(NS, "b")])
            for need in wrong((NS, "a"), (NS, "a", -1), (NS, "a", True), (NS, "", 1), "abc", None):
                with pytest.raises(InvalidInput, match=r"require\[0\]"):
                    await store.batch([DeleteOp(NS, "b")], [need])
            assert await snapshot(store) == before

    async def test_one_root_only(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "atomic_batch")
            with pytest.raises(InvalidInput, match="root"):
                await store.batch([PutOp(NS, "a", 1), PutOp(("elsewhere",), "a", 1)])
            with pytest.raises(InvalidInput, match="root"):
                await store.batch([PutOp(NS, "a", 1)], [(("elsewhere",), "a", 0)])
            assert await store.search(NS) == []

    async def test_search_knows_what_a_batch_did(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "atomic_batch", "text_search")
            await fill(store, NS, {"a": "an apple", "b": "a pear"})
            await store.batch([PutOp(NS, "a", "a pear"), DeleteOp(NS, "b"), PutOp(NS, "c", "an apple")])
            assert keys(await store.search(NS, "apple")) == ["c"]
            assert keys(await store.search(NS, "pear")) == ["a"]

    async def test_concurrent_transfers_keep_the_sum(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "atomic_batch")
            await fill(store, NS, {"a": 100, "b": 100})

            async def move(amount: int) -> None:
                for _ in bounded():
                    a, b = await store.get_item(NS, "a"), await store.get_item(NS, "b")
                    assert a is not None
                    assert b is not None
                    await asyncio.sleep(0)  # the others get their turn between read and write
                    try:
                        await store.batch(
                            [PutOp(NS, "a", a.value - amount), PutOp(NS, "b", b.value + amount)],
                            [(NS, "a", a.version), (NS, "b", b.version)],
                        )
                        return
                    except Conflict:
                        continue

            await asyncio.gather(*(move(amount) for amount in range(1, 9)))
            assert await store.get_batch([(NS, "a"), (NS, "b")]) == [100 - 36, 100 + 36]

"""What a time to live promises: an expired item is absent for everything."""

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.testing.clock import FrozenClock
from holdfast.testing.store_cases.base import NS, OpenStore, StoreCases, all_keys, keys, requires, wrong

FLEETING = ("suite", "fleeting")


class ExpiryCases(StoreCases):
    async def test_an_expired_item_is_absent_for_every_read(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            requires(store, "ttl")
            await store.put(NS, "stays", {"text": "apple"}, {"group": "g", "ordinal": 1})
            await store.put(NS, "goes", {"text": "apple"}, {"group": "g", "ordinal": 2}, ttl=10)
            await store.put(FLEETING, "goes", 1, ttl=10)

            async def check(there: bool) -> None:
                both = ["goes", "stays"] if there else ["stays"]
                assert (await store.get(NS, "goes") is not None) is there
                assert (await store.get_item(NS, "goes") is not None) is there
                assert await store.exists(NS, "goes") is there
                assert (await store.get_batch([(NS, "goes")]))[0] == ({"text": "apple"} if there else None)
                assert await store.list_keys(NS) == both
                assert sorted(keys(await store.search(NS))) == both
                assert len(await store.search(NS, limit=1)) == 1
                assert await all_keys(store, NS) == both
                declared = store.capabilities
                if declared.metadata_filter:
                    assert sorted(keys(await store.search(NS, filter={"group": "g"}))) == both
                    assert keys(await store.neighbours(NS, "g", 1, 5)) == ["stays", "goes"][: len(both)]
                if declared.text_search:
                    assert sorted(keys(await store.search(NS, "apples"))) == both
                    found = await store.text_candidates(NS, ["appl"], 10)
                    assert sorted(candidate.item.key for candidate in found.candidates) == both
                    assert found.document_frequencies == {"appl": len(both)}
                    assert found.documents == len(both)
                if declared.list_namespaces:
                    expected = [FLEETING, NS] if there else [NS]
                    assert sorted(await store.list_namespaces()) == sorted(expected)

            await check(True)
            clock.advance(9.999999)
            await check(True)
            clock.advance(0.000001)
            await check(False)
            clock.advance(-5)
            clock.advance(6)
            await check(False)

    async def test_an_expired_item_is_absent_for_every_write(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            requires(store, "ttl")
            first = await store.put(NS, "k", "old", {"m": 1}, ttl=10)
            clock.advance(10)
            assert await store.delete(NS, "k") is False
            assert await store.clear_namespace(NS) == 0
            second = await store.put(NS, "k", "newer", ttl=10)
            clock.advance(10)
            assert second > first
            if store.capabilities.compare_and_set:
                with pytest.raises(Conflict) as caught:
                    await store.put(NS, "k", "lost", expected_version=second)
                assert (caught.value.expected, caught.value.actual) == (second, 0)
            if store.capabilities.atomic_batch:
                with pytest.raises(Conflict):
                    await store.batch([PutOp(NS, "x", 1)], [(NS, "k", second)])
                assert await store.batch([DeleteOp(NS, "k")], [(NS, "k", 0)]) == [0]
                await store.put(NS, "k", "newer", ttl=10)
                clock.advance(10)
            if store.capabilities.compare_and_set:
                third = await store.put(NS, "k", "newest", expected_version=0)
            else:
                third = await store.put(NS, "k", "newest")
            item = await store.get_item(NS, "k")
            assert item is not None
            assert item.created_at == item.updated_at == clock.now
            assert (item.value, item.metadata, item.version) == ("newest", {}, third)
            assert third > second

    async def test_a_put_sets_the_time_anew(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            requires(store, "ttl")
            for key in ("cleared", "renewed", "left"):
                await store.put(NS, key, 1, ttl=10)
            clock.advance(5)
            await store.put(NS, "cleared", 2)
            await store.put(NS, "renewed", 2, ttl=10)
            clock.advance(5)
            assert await store.list_keys(NS) == ["cleared", "renewed"]
            clock.advance(5)
            assert await store.list_keys(NS) == ["cleared"]
            clock.advance(days=10_000)
            assert await store.list_keys(NS) == ["cleared"]
            await store.put(NS, "brief", 1, ttl=1e-9)
            assert await store.exists(NS, "brief") is True
            clock.advance(0.000001)
            assert await store.exists(NS, "brief") is False

    async def test_a_batch_may_have_a_time_to_live(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            requires(store, "ttl", "atomic_batch")
            await store.batch([PutOp(NS, "goes", 1, ttl=5), PutOp(NS, "stays", 1)])
            clock.advance(5)
            assert await store.list_keys(NS) == ["stays"]

    async def test_clearing_counts_only_what_was_there(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            requires(store, "ttl")
            await store.put(NS, "goes", 1, ttl=5)
            await store.put(NS, "stays", 1)
            clock.advance(5)
            assert await store.clear_namespace(NS) == 1
            clock.advance(-5)
            assert await store.list_keys(NS) == []

    async def test_purging_takes_the_expired_only(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock) as store:
            requires(store, "ttl")
            await store.put_batch([(NS, "stays", 1)])
            await store.put(NS, "later", 1, ttl=100)
            for index in range(5):
                await store.put((*NS, str(index)), "goes", {"text": "apple"}, ttl=10)
            assert await store.purge_expired() == 0
            clock.advance(10)
            assert await store.purge_expired() == 5
            assert await store.purge_expired() == 0
            clock.advance(-10)
            assert await store.list_keys(NS, prefix=True) == ["later", "stays"]

    async def test_bad_times_are_refused(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "ttl")
            for bad in wrong(0, -1, True, "10", float("nan"), float("inf"), 1e300, [1]):
                with pytest.raises(InvalidInput, match="ttl"):
                    await store.put(NS, "k", 1, ttl=bad)
            assert await store.exists(NS, "k") is False

    async def test_an_expired_vector_is_not_found(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(clock=clock, dimension=2) as store:
            requires(store, "ttl", "vector_search")
            await store.put_with_embedding(NS, "goes", 1, [1, 0], ttl=10)
            await store.put_with_embedding(NS, "stays", 1, [0, 1])
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["goes", "stays"]
            clock.advance(10)
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["stays"]
            assert keys(await store.search_by_embedding(NS, [1, 0], limit=1)) == ["stays"]

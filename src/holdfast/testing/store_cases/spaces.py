"""What a store knows of its vectors, and what it takes to replace them by another embedder's."""

import pytest

from holdfast.core.errors import InvalidInput, VectorMismatch
from holdfast.memory.store import BaseStore
from holdfast.memory.vectors import Metric, VectorSpace
from holdfast.testing.clock import FrozenClock
from holdfast.testing.store_cases.base import NS, OpenStore, StoreCases, all_keys, keys, requires, wrong

OLD = VectorSpace(2, Metric.COSINE)
NEW = VectorSpace(3, Metric.DOT, "another embedder")


async def lacking(store: BaseStore, limit: int = 100) -> list[str]:
    """The keys of all items without a vector, page by page."""
    found: list[str] = []
    after = None
    while True:
        page = await store.without_vectors(NS, limit, after=after)
        assert len(page) <= limit
        found += keys(page)
        after = page.next
        if after is None:
            return found


class SpaceCases(StoreCases):
    async def test_a_namespace_tells_its_space(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            assert await store.space_of(NS) is None
            await store.put(NS, "plain", 1)
            assert await store.space_of(NS) is None
            await store.put_with_embedding(NS, "k", 1, [1, 0])
            assert await store.space_of(NS) == OLD
            await store.put(NS, "k", "without its vector")
            assert await store.space_of(NS) == OLD  # until it is empty or changed
            for other in (NS[:1], (*NS, "below"), (NS[0], NS[1] + "x")):
                assert await store.space_of(other) is None
            assert await store.space_of(NS[:1], prefix=True) == OLD
            assert await store.space_of((NS[0], NS[1][:-1]), prefix=True) is None
            await store.delete(NS, "k")
            await store.delete(NS, "plain")
            assert await store.space_of(NS[:1], prefix=True) is None
            for bad in wrong("text", (), 1):
                with pytest.raises(InvalidInput, match="namespace"):
                    await store.space_of(bad)
            with pytest.raises(InvalidInput, match="prefix"):
                await store.space_of(NS, prefix=wrong(1)[0])

    async def test_a_store_that_is_open_for_no_vectors_tells_them_too(self, open_store: OpenStore) -> None:
        reopen = self.share(open_store)
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            await store.put_with_embedding(NS, "k", 1, [1, 0])
        async with reopen() as other:
            assert await other.space_of(NS) == OLD
            assert await lacking(other) == []

    async def test_changing_the_space_drops_the_vectors_and_nothing_else(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search", "compare_and_set")
            below = (*NS, "below")
            version = await store.put_with_embedding(NS, "a", {"text": "one"}, [1, 0], {"m": 1})
            await store.put_with_embedding(NS, "b", 2, [0, 1])
            await store.put_with_embedding(below, "c", 3, [1, 0])
            assert len(await store.search_by_embedding(NS, [1, 0])) == 2
            before = await store.get_item(NS, "a")
            assert await store.change_space(NS, NEW) == 2
            assert await store.space_of(NS) == NEW
            assert await store.get_item(NS, "a") == before
            assert await all_keys(store, NS) == ["a", "b"]
            assert await lacking(store) == ["a", "b"]
            assert keys(await store.search_by_embedding(below, [1, 0])) == ["c"]
            assert await store.put(NS, "a", 1, expected_version=version) > version

    async def test_a_changed_space_refuses_the_old_vectors(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            await store.put_with_embedding(NS, "a", 1, [1, 0])
            await store.put_with_embedding(NS, "b", 1, [0, 1])
            assert len(await store.search_by_embedding(NS, [1, 0])) == 2
            await store.change_space(NS, NEW)
            with pytest.raises(VectorMismatch, match=r"another embedder.*holdfast reembed") as caught:
                await store.put_with_embedding(NS, "a", 2, [1, 0])
            assert (caught.value.namespace, caught.value.stored) == (NS, str(NEW))
            with pytest.raises(VectorMismatch, match="dimension 3"):
                await store.search_by_embedding(NS, [1, 0])
            assert await store.get(NS, "a") == 1
            assert await store.change_space(NS, OLD) == 0
            assert await store.search_by_embedding(NS, [1, 0]) == []
            await store.put_with_embedding(NS, "b", 1, [1, 0])
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["b"]

    async def test_changing_to_the_same_space_changes_nothing(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            await store.put(NS, "plain", 1)
            assert await store.change_space(NS, NEW) == 0
            assert await store.space_of(NS) is None
            await store.put_with_embedding(NS, "k", 1, [1, 0])
            assert await store.change_space(NS, OLD) == 0
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["k"]
            for bad in wrong(None, "COSINE", 2):
                with pytest.raises(InvalidInput, match="space"):
                    await store.change_space(NS, bad)

    async def test_items_without_a_vector_are_listed_by_key(self, open_store: OpenStore) -> None:
        clock = FrozenClock()
        async with open_store(dimension=2, clock=clock) as store:
            requires(store, "vector_search")
            assert await lacking(store) == []
            names = [f"k{number:02}" for number in range(12)]
            for number, key in enumerate(reversed(names)):
                if number % 3:
                    await store.put_with_embedding(NS, key, 1, [1, 0])
                else:
                    await store.put(NS, key, {"of": key})
            await store.put((*NS, "below"), "x", 1)
            wanted = ["k02", "k05", "k08", "k11"]
            for limit in (1, 2, 4, 5):
                assert await lacking(store, limit) == wanted
            (first,) = await store.without_vectors(NS, 1)
            assert (first.key, first.value, first.namespace) == ("k02", {"of": "k02"}, NS)
            await store.put_with_embedding(NS, "k02", 1, [1, 0])
            await store.put(NS, "k00", "lost its vector")
            await store.delete(NS, "k05")
            assert await lacking(store) == ["k00", "k08", "k11"]
            if store.capabilities.ttl:
                await store.put(NS, "k08", 1, ttl=10)
                clock.advance(seconds=20)
                assert await lacking(store) == ["k00", "k11"]
            assert await store.without_vectors(NS, 0) == []
            with pytest.raises(InvalidInput, match="after"):
                await store.without_vectors(NS, after="nonsense")

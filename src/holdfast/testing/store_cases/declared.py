"""What declaring promises: what is declared works (the other cases), and what is not raises, saying so."""

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput, Unsupported
from holdfast.memory.records import PutOp
from holdfast.memory.store import BaseStore
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.testing.store_cases.base import NS, OpenStore, StoreCases, wrong

Calls = dict[str, list[Callable[[], Awaitable[Any]]]]


def calls_by_capability(store: BaseStore) -> Calls:
    """Calls that need a capability, each alone."""

    async def walk() -> None:
        async for _ in store.iterate(NS, {"m": 1}):
            pass

    return {
        "ttl": [lambda: store.put(NS, "k", 1, ttl=10), store.purge_expired],
        "compare_and_set": [
            lambda: store.put(NS, "k", 1, expected_version=0),
            lambda: store.delete(NS, "k", expected_version=1),
        ],
        "text_search": [lambda: store.search(NS, "query"), lambda: store.text_candidates(NS, ["a"], 1)],
        "vector_search": [
            lambda: store.put_with_embedding(NS, "k", 1, [1.0, 0.0]),
            lambda: store.search_by_embedding(NS, [1.0, 0.0]),
        ],
        "metadata_filter": [
            lambda: store.search(NS, filter={"m": 1}),
            lambda: store.neighbours(NS, "g", 1, 1),
            walk,
        ],
        "atomic_batch": [lambda: store.batch([PutOp(NS, "k", 1)])],
        "list_namespaces": [store.list_namespaces],
    }


class DeclaredCases(StoreCases):
    async def test_the_backend_declares_what_it_must(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            missing = {name for name in self.required if not getattr(store.capabilities, name)}
        assert not missing, f"must be declared: {sorted(missing)}"

    async def test_what_is_not_declared_raises(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            calls = calls_by_capability(store)
            assert calls.keys() == {field.name for field in fields(StoreCapabilities)}
            for capability, attempts in calls.items():
                if getattr(store.capabilities, capability):
                    continue
                for attempt in attempts:
                    with pytest.raises(Unsupported, match=capability) as caught:
                        await attempt()
                    assert isinstance(caught.value, NotImplementedError)
                    assert type(store).__name__ in str(caught.value)
            assert await store.search(NS) == []

    async def test_vectors_need_a_dimension(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            assert store.capabilities.vector_search is False
            with pytest.raises(Unsupported, match="dimension="):
                await store.put_with_embedding(NS, "k", 1, [1.0])
            with pytest.raises(Unsupported, match="dimension="):
                await store.search_by_embedding(NS, [1.0])
            assert await store.exists(NS, "k") is False

    def test_a_wrong_space_is_refused(self, open_store: OpenStore) -> None:
        for dimension in wrong(0, -1, True, 1.5, "2"):
            with pytest.raises(InvalidInput, match="dimension"):
                open_store(dimension=dimension)
        for metric in wrong("", "NEAR", 1, "cosine "):
            with pytest.raises(InvalidInput, match="distance_metric"):
                open_store(dimension=2, distance_metric=metric)

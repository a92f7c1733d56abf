"""The side-by-side comparison of stores: the reference equals itself, and a broken one is told apart."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import Conflict
from holdfast.memory.backends.memory_store import InMemoryStore, Storage
from holdfast.memory.store_requests import ItemDelete, ItemPut, Namespace, WriteRequest
from holdfast.memory.vectors import Metric, VectorSpace
from holdfast.testing.store_model import StoreStep, compare_stores, store_steps
from holdfast.testing.store_suite import OpenStore


def opener(kind: type[InMemoryStore] = InMemoryStore, storage: Storage | None = None) -> OpenStore:
    """Opens stores: each on its own storage, or all on the given one."""

    def open_store(**options: Any) -> InMemoryStore:
        store = kind(**options)
        if storage is not None:
            store._storage = storage
        return store

    return open_store


@settings(max_examples=25)  # a smoke test: the reference against itself
@given(steps=store_steps(), metric=st.sampled_from(list(Metric)))
def test_the_reference_does_what_the_reference_does(steps: list[StoreStep], metric: Metric) -> None:
    asyncio.run(compare_stores(opener(), opener(), steps, distance_metric=metric, every=5))


@settings(max_examples=10)  # a smoke test: the reference against itself
@given(steps=store_steps())
def test_opening_again_changes_nothing(steps: list[StoreStep]) -> None:
    asyncio.run(compare_stores(opener(), opener(storage=Storage()), steps, reopen=True, every=10))


class ReplacedItemKeepsItsTime(InMemoryStore):
    """Wrong only if an item that would have expired is replaced by one that would not."""

    def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
        row = self._find(op.namespace, op.key, now_us)
        if isinstance(op, ItemPut) and row is not None and op.expires_us is None:
            op = ItemPut(op.namespace, op.key, op.value, op.metadata, op.text, row.expires_us, op.vector)
        return super()._apply(op, now_us)


def test_a_mistake_is_told_as_calls() -> None:
    steps = [
        StoreStep("put", variant=3),
        StoreStep("put_vector", space=1, variant=1),
        StoreStep("put", variant=0),
        StoreStep("tick", variant=1),
    ]
    with pytest.raises(AssertionError, match="differs after") as caught:
        asyncio.run(compare_stores(opener(), opener(ReplacedItemKeepsItsTime), steps))
    told = str(caught.value).partition("reference:")[0].rstrip().splitlines()
    assert told[0] == "namespaces differs after"
    assert [line.strip().split("(")[0] for line in told[1:]] == [
        "put",
        "put_with_embedding",
        "put",
        "clock.advance",
    ]
    asyncio.run(compare_stores(opener(), opener(ReplacedItemKeepsItsTime), steps[:2] + steps[3:]))


def test_the_steps_reach_what_matters() -> None:
    """Deletions, expiry, conflicts and batches that do something: else the comparison proves little."""
    done: Counter[str] = Counter()

    class Counting(InMemoryStore):
        def _apply(self, op: ItemPut | ItemDelete, now_us: int) -> int:
            held = self._storage.rows.get(op.namespace, {}).get(op.key)
            live = held is not None and held.lives(now_us)
            done["deleted"] += live and isinstance(op, ItemDelete)
            done["replaced"] += live and isinstance(op, ItemPut)
            done["written over an expired one"] += held is not None and not live
            return super()._apply(op, now_us)

        async def _change_space(self, namespace: Namespace, space: VectorSpace) -> int:
            gone = await super()._change_space(namespace, space)
            done["vectors given up"] += bool(gone)
            return gone

        async def _write(self, request: WriteRequest) -> list[int]:
            try:
                written = await super()._write(request)
            except Conflict:
                done["conflict"] += 1
                raise
            done["required"] += bool(request.require and request.ops)
            return written

    @settings(max_examples=100, database=None, derandomize=True)  # enough to count
    @given(steps=store_steps())
    def run(steps: list[StoreStep]) -> None:
        asyncio.run(compare_stores(opener(), opener(Counting), steps, every=100))

    run()
    wanted = (
        "deleted",
        "replaced",
        "written over an expired one",
        "conflict",
        "required",
        "vectors given up",
    )
    assert min(done[what] for what in wanted) >= 10, done

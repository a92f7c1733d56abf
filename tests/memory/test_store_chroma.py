"""The conformance suite on Chroma, in a directory and in memory; and random operations beside the reference."""

import asyncio
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.store import BaseStore, StoreCapabilities
from holdfast.memory.store_backends import ChromaStore
from holdfast.memory.vectors import Metric
from holdfast.testing.store_cases.declared import DeclaredCases
from holdfast.testing.store_cases.items import ItemCases
from holdfast.testing.store_model import StoreStep, compare_stores, store_steps
from holdfast.testing.store_suite import OpenStore, StoreSuite
from tests.memory.chroma_folder import chroma_folder

pytest.importorskip("chromadb", reason="needs chromadb")

ALL_BUT_BATCHES = frozenset(field.name for field in fields(StoreCapabilities)) - {"atomic_batch"}


def named(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class TestChromaStore(StoreSuite):
    required = ALL_BUT_BATCHES

    @pytest.fixture
    def open_store(self) -> Iterator[OpenStore]:
        with chroma_folder() as folder:
            yield lambda **options: ChromaStore(folder, **named(options))


class TestChromaStoreInMemory(ItemCases, DeclaredCases):
    """The same code on Chroma's other storage."""

    required = ALL_BUT_BATCHES
    shared_storage = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **options: ChromaStore(**named(options))


@settings(
    max_examples=5,  # a step takes Chroma milliseconds
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # looking for the smallest failing example takes minutes
)
@given(steps=store_steps(), metric=st.sampled_from(list(Metric)), cache=st.sampled_from([0, 4_000, 10**9]))
def test_chroma_does_what_the_reference_does(steps: list[StoreStep], metric: Metric, cache: int) -> None:
    with chroma_folder() as folder:

        def open_reference(**options: Any) -> BaseStore:
            return InMemoryStore(**options)

        def open_one(**options: Any) -> BaseStore:
            return ChromaStore(folder, cache_bytes=cache, **options)

        asyncio.run(
            compare_stores(
                open_reference,
                open_one,
                steps,
                distance_metric=metric,
                reopen=True,
                every=16,
            )
        )

"""The in-memory store passes the suite, as it is and when it declares nothing."""

from typing import Any

import pytest

from holdfast.memory.backends.memory_store import InMemoryStore, Storage
from holdfast.memory.store_capabilities import StoreCapabilities
from holdfast.testing.store_suite import OpenStore, StoreSuite


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class BareStore(InMemoryStore):
    """What a backend is that declares nothing."""

    @property
    def capabilities(self) -> StoreCapabilities:
        return StoreCapabilities()


class TestInMemoryStore(StoreSuite):
    shared_storage = False
    required = frozenset(StoreCapabilities.__dataclass_fields__)

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **options: InMemoryStore(**given(options))


class TestSharedStorage(StoreSuite):
    """Two objects on one storage, to run the tests that need them on the reference too."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        storage = Storage()

        def open_store(**options: Any) -> InMemoryStore:
            store = InMemoryStore(**given(options))
            store._storage = storage
            return store

        return open_store


class TestBareStore(StoreSuite):
    shared_storage = False

    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda **options: BareStore(**given(options))

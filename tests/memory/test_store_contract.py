"""Around the contract: its doors, its blocking twin, an empty backend, and the runner of the suite."""

import asyncio
import inspect
import subprocess
import sys

import pytest

from holdfast.core.errors import Conflict, InvalidInput, Unsupported
from holdfast.memory.backends.memory_store import InMemoryStore
from holdfast.memory.records import PutOp
from holdfast.memory.store import BaseStore, StoreCapabilities
from holdfast.memory.sync_store import SyncStore
from holdfast.testing.running import Suite, failures, run_suite

NS = ("a", "b")


def test_the_door_offers_the_in_memory_store() -> None:
    from holdfast.memory import store

    assert store.InMemoryStore is InMemoryStore
    with pytest.raises(AttributeError, match="Nothing"):
        _ = store.Nothing  # type: ignore[attr-defined]  # what is under test


def test_importing_the_contract_imports_no_numpy_and_no_asyncio() -> None:
    code = "import sys, holdfast.memory.store; print({'numpy', 'asyncio', 'sqlite3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_backend_that_implements_nothing_says_so() -> None:
    class Nothing(BaseStore):
        pass

    store = Nothing()
    assert store.capabilities == StoreCapabilities()
    for call in (store.put(NS, "k", 1), store.get(NS, "k"), store.list_keys(NS), store.clear_namespace(NS)):
        with pytest.raises(Unsupported, match="Nothing does not implement"):
            asyncio.run(call)


def test_an_alias_follows_an_override() -> None:
    class Loud(InMemoryStore):
        async def get(self, namespace: object, key: object) -> str:
            return "overridden"

    assert asyncio.run(Loud().aget(NS, "k")) == "overridden"


def test_capabilities_are_named() -> None:
    assert StoreCapabilities.all_but("ttl").ttl is False
    assert StoreCapabilities.all_but("ttl").text_search is True
    with pytest.raises(InvalidInput, match="flying"):
        StoreCapabilities.all_but("flying")


def test_the_blocking_twin_has_every_method() -> None:
    aliases = {"aput", "aget", "adelete", "asearch", "alist_namespaces"}
    methods = {
        name
        for name, member in inspect.getmembers(BaseStore, inspect.isfunction)
        if not name.startswith("_") and name not in aliases
    }
    assert methods <= set(dir(SyncStore))


def test_the_blocking_twin_needs_no_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("an event loop was made")

    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    with SyncStore(InMemoryStore(dimension=2)) as store:
        version = store.put(NS, "k", {"text": "apple"}, {"m": 1}, expected_version=0)
        with pytest.raises(Conflict):
            store.put(NS, "k", 2, expected_version=version + 1)
        store.put_with_embedding(NS, "v", 1, [1, 0])
        assert store.batch([PutOp(NS, "b", 1)], [(NS, "k", version)]) == [3]
        assert [item.key for item in store.search(NS, "apples")] == ["k"]
        assert [hit.item.key for hit in store.search_by_embedding(NS, [1, 0])] == ["v"]
        assert [item.key for item in store.iterate(NS)] == ["b", "k", "v"]
        assert store.list_namespaces() == [NS]
        assert store.capabilities.vector_search is True


# ── the suite's runner ────────────────────────────────────────────────────────────────────────────


class Sample(Suite):
    async def test_waits(self, value: int) -> None:
        await asyncio.sleep(0)
        assert value == 1

    def test_plain(self, value: int) -> None:
        assert value == 2

    async def test_left_out(self, value: int) -> None:
        pytest.skip("needs nothing, to see it left out")

    def test_fails_by_name(self, value: int) -> None:
        pytest.fail("on purpose")

    async def test_cancelled(self, value: int) -> None:
        raise asyncio.CancelledError


def test_the_runner_says_what_each_test_raised() -> None:
    outcomes = run_suite(Sample, lambda: 1)
    assert set(outcomes) == {"test_waits", "test_plain", "test_fails_by_name", "test_cancelled"}
    assert outcomes["test_waits"] is None
    assert isinstance(outcomes["test_plain"], AssertionError)
    assert set(failures(Sample, lambda: 2)) == {"test_waits", "test_fails_by_name", "test_cancelled"}
    assert list(run_suite(Sample, lambda: 1, only="test_plain")) == ["test_plain"]


def test_two_tests_of_one_name_are_refused() -> None:
    class Other(Suite):
        def test_plain(self, value: int) -> None:
            pass

    with pytest.raises(TypeError, match="test_plain twice"):
        type("Both", (Sample, Other), {})


def test_fixtures_stay_visible() -> None:
    assert list(inspect.signature(Sample.test_waits).parameters) == ["self", "value"]
    assert not inspect.iscoroutinefunction(Sample.test_waits)

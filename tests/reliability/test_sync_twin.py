"""The blocking twins are blocking: no event loop is made and no thread is started, whatever is called."""

import _thread
import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from holdfast.memory.backends.sqlite import SQLiteSyncCheckpointer
from holdfast.memory.backends.sqlite_saver import SQLiteSyncCheckpointSaver
from holdfast.memory.backends.sqlite_store import SQLiteSyncStore
from holdfast.memory.records import DeleteOp, PutOp
from holdfast.memory.saver import SyncCheckpointSaver
from holdfast.memory.sync import SyncCheckpointer
from holdfast.memory.sync_store import SyncStore
from holdfast.memory.vectors import Metric, VectorSpace
from tests.reliability.jobs import state_of


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise AssertionError(f"{what} in a blocking twin")

    return refuse


@pytest.fixture
def no_loop_no_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for place, name in (
            (asyncio, "new_event_loop"),
            (asyncio, "run"),
            (asyncio, "get_event_loop"),
            (asyncio.events, "new_event_loop"),
            (asyncio.events, "get_event_loop"),
            (asyncio.events, "get_running_loop"),
            (asyncio.base_events.BaseEventLoop, "__init__"),
            (threading.Thread, "start"),
            (threading, "_start_new_thread"),
            (_thread, "start_new_thread"),
        ):
            patch.setattr(place, name, _refuse(f"{getattr(place, '__name__', place)}.{name}"))
        yield


@pytest.mark.usefixtures("no_loop_no_thread")
@pytest.mark.parametrize("place", ["file", ":memory:"])
def test_every_method_of_the_checkpointer_works_without_loop_and_thread(place: str, tmp_path: Path) -> None:
    called: set[str] = set()

    class Noting(SyncCheckpointer):
        def __getattribute__(self, name: str) -> Any:
            called.add(name)
            return super().__getattribute__(name)

    twin = Noting(SQLiteSyncCheckpointer(tmp_path / "sync.db" if place == "file" else place)._inner)
    with twin:
        assert twin.capabilities.search
        assert twin.scope is None
        first = twin.save(state_of(2), "t", metadata={"number": 1})
        second = twin.save(state_of(4), "t", parent=first)
        assert twin.load("t") == state_of(4)
        checkpoint = twin.get("t", first)
        assert checkpoint is not None
        assert checkpoint.state == state_of(2)
        head = twin.head("t")
        assert head is not None
        assert head.checkpoint_id == second
        assert twin.exists("t")
        assert twin.list_checkpoints("t") == [second, first]
        assert len(twin.history("t")) == 2
        twin.put_writes("t", second, "task", [("channel", 1)])
        assert [write.value for write in twin.get_writes("t")] == [1]
        assert len(twin.search("message")) == 4
        assert len(twin.query_by_metadata("number", 1)) == 1
        assert twin.get_metadata("t", first) == {"number": 1}
        assert len(twin.list_with_metadata()) == 2
        assert twin.list_threads() == ["t"]
        diff = twin.diff("t", first)
        assert diff is not None
        assert not diff.identical
        assert twin.stats().checkpoints == 2
        assert twin.copy_thread("t", "copy")
        assert twin.copy_thread("t", "elsewhere", scope="tenant")
        assert twin.fork("t", first, "fork") == first
        assert twin.vacuum(0) == 0
        assert twin.prune(keep_last=1, dry_run=True).dry_run
        lines = list(twin.export_threads("fork"))
        assert twin.delete("fork")
        assert twin.import_threads(lines).threads == 1
        assert twin.scoped("tenant").exists("elsewhere")
        assert twin.delete_scope("tenant") == 1
    assert _public(SyncCheckpointer) <= called, "a method was not called here"


@pytest.mark.usefixtures("no_loop_no_thread")
@pytest.mark.parametrize("place", ["file", ":memory:"])
def test_every_method_of_the_store_works_without_loop_and_thread(place: str, tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="needs numpy")
    called: set[str] = set()

    class Noting(SyncStore):
        def __getattribute__(self, name: str) -> Any:
            called.add(name)
            return super().__getattribute__(name)

    path = tmp_path / "sync.db" if place == "file" else place
    with Noting(SQLiteSyncStore(path, dimension=2)._inner) as store:
        ns = ("user", "facts")
        assert store.capabilities.vector_search
        assert store.put(ns, "a", "likes green tea", {"group": "g", "ordinal": 1}) > 0
        assert store.put_with_embedding(ns, "b", "likes coffee", [1.0, 0.0], {"group": "g", "ordinal": 2}) > 0
        assert len(store.put_batch([(ns, "c", "likes rain", {}), (ns, "d", 4, {})])) == 2
        assert store.get(ns, "d") == 4
        item = store.get_item(ns, "a")
        assert item is not None
        assert store.get_batch([(ns, "a"), (ns, "none")]) == ["likes green tea", None]
        assert store.exists(ns, "c")
        assert store.batch([PutOp(ns, "e", 5), DeleteOp(ns, "d")])
        assert store.list_keys(ns) == ["a", "b", "c", "e"]
        assert store.list_namespaces() == [ns]
        assert len(list(store.iterate(ns))) == 4
        assert [found.key for found in store.search(ns, "tea")] == ["a"]
        assert [hit.item.key for hit in store.search_by_embedding(ns, [1.0, 0.1])] == ["b"]
        assert len(store.text_candidates(ns, ["tea"], 5).candidates) == 1
        assert [found.key for found in store.neighbours(ns, "g", 1, 1)] == ["a", "b"]
        assert store.purge_expired() == 0
        assert store.space_of(ns) == VectorSpace(2, Metric.COSINE)
        assert [found.key for found in store.without_vectors(ns)] == ["a", "c", "e"]
        assert store.change_space(ns, VectorSpace(9, Metric.DOT)) == 1
        store.erase_deleted()
        assert store.delete(ns, "a")
        assert store.clear_namespace(ns) == 3
    assert _public(SyncStore) <= called, "a method was not called here"


@pytest.mark.usefixtures("no_loop_no_thread")
@pytest.mark.parametrize("place", ["file", ":memory:"])
def test_every_method_of_the_saver_works_without_loop_and_thread(place: str, tmp_path: Path) -> None:
    called: set[str] = set()

    class Noting(SyncCheckpointSaver):
        def __getattribute__(self, name: str) -> Any:
            called.add(name)
            return super().__getattribute__(name)

    path = tmp_path / "sync.db" if place == "file" else place
    with Noting(SQLiteSyncCheckpointSaver(path)._inner) as saver:
        saver.put(thread_id="t", checkpoint_id="c1", checkpoint_data={"list": [1, 2]})
        saver.put(thread_id="t", checkpoint_id="c2", checkpoint_data={"list": [1, 2, 3]})
        found = saver.get(thread_id="t")
        assert found is not None
        assert found["checkpoint"] == {"list": [1, 2, 3]}
        assert len(saver.list_checkpoints(thread_id="t")) == 2
        saver.put_writes(thread_id="t", checkpoint_id="c2", task_id="task", writes=[("channel", 1)])
        assert len(saver.get_writes(thread_id="t", checkpoint_id="c2")) == 1
        assert saver.delete_thread(thread_id="t")
    assert _public(SyncCheckpointSaver) <= called, "a method was not called here"


def _public(twin: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(twin) if not name.startswith("_")}

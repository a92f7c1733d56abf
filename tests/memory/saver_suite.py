"""The promises of the versioned saver, for every backend: a fixture and a class statement."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from holdfast.core.errors import Closed, Conflict, InvalidInput

Call = Callable[..., Any]


class Awaited:
    """The asynchronous saver with each call awaited, so that one test serves both."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Call:
        method = getattr(self.saver, name)
        return lambda *args, **kwargs: self.loop.run_until_complete(method(*args, **kwargs))


@contextmanager
def opened(saver: Any, *, blocking: bool) -> Iterator[Any]:
    """The saver, to be called without awaiting; closed in the end."""
    facing = saver if blocking else Awaited(saver)
    yield facing
    facing.close()
    if isinstance(facing, Awaited):
        facing.loop.close()


class SaverSuite:
    """A subclass has a fixture `saver`."""

    def test_put_and_get_return_the_document_as_it_was(self, saver: Any) -> None:
        data = {"step": 0, "values": {"x": (1, 2), "when": datetime(2026, 1, 2)}, "none": None, "empty": []}
        saver.put(thread_id="t", checkpoint_id="c1", checkpoint_data=data, metadata={"source": "input"})
        found = saver.get(thread_id="t")
        assert found["checkpoint"] == data
        assert type(found["checkpoint"]["values"]["x"]) is tuple
        assert (found["checkpoint_id"], found["parent_checkpoint_id"]) == ("c1", None)
        assert found["metadata"] == {"source": "input"}
        assert datetime.fromisoformat(found["created_at"]).tzinfo is not None
        assert saver.get(thread_id="t", checkpoint_id="c2") is None
        assert saver.get(thread_id="u") is None

    def test_history_is_kept_newest_first_and_pages_back(self, saver: Any) -> None:
        for step in range(5):
            parent = None if step == 0 else f"c{step - 1}"
            saver.put(
                thread_id="t",
                checkpoint_id=f"c{step}",
                checkpoint_data={"step": step},
                parent_checkpoint_id=parent,
            )
        listed = saver.list_checkpoints(thread_id="t", limit=3)
        assert [row["checkpoint_id"] for row in listed] == ["c4", "c3", "c2"]
        assert [row["parent_checkpoint_id"] for row in listed] == ["c3", "c2", "c1"]
        older = saver.list_checkpoints(thread_id="t", before="c2")
        assert [row["checkpoint"]["step"] for row in older] == [1, 0]
        assert saver.list_checkpoints(thread_id="t", before="missing") == []
        assert saver.get(thread_id="t", checkpoint_id="c1")["checkpoint"] == {"step": 1}

    def test_a_repeated_id_is_a_conflict_and_changes_nothing(self, saver: Any) -> None:
        saver.put(thread_id="t", checkpoint_id="c", checkpoint_data={"a": 1})
        with pytest.raises(Conflict, match="'c'"):
            saver.put(thread_id="t", checkpoint_id="c", checkpoint_data={"a": 1})
        assert saver.get(thread_id="t")["checkpoint"] == {"a": 1}

    def test_namespaces_are_apart_and_the_empty_one_is_one_of_them(self, saver: Any) -> None:
        for ns in ("default", "", "inner"):
            saver.put(thread_id="t", checkpoint_id="c", checkpoint_data={"ns": ns}, checkpoint_ns=ns)
        for ns in ("default", "", "inner"):
            assert saver.get(thread_id="t", checkpoint_ns=ns)["checkpoint"] == {"ns": ns}
        assert saver.get(thread_id="t")["checkpoint"] == {"ns": "default"}
        assert saver.delete_thread("t") is True
        assert all(saver.get(thread_id="t", checkpoint_ns=ns) is None for ns in ("default", "", "inner"))
        assert saver.delete_thread("t") is False

    def test_writes_of_a_task_are_replaced_and_ordered(self, saver: Any) -> None:
        place = {"thread_id": "t", "checkpoint_id": "c"}
        with pytest.raises(Conflict):
            saver.put_writes(**place, task_id="a", writes=[("x", 1)])
        saver.put(**place, checkpoint_data={})
        saver.put_writes(**place, task_id="b", writes=[("x", 2)])
        saver.put_writes(**place, task_id="a", writes=[("x", 1), ("y", {"deep": [1]}), ("z", None)])
        saver.put_writes(**place, task_id="a", writes=[("y", b"bytes"), ("x", 3)])
        assert saver.get_writes(**place) == [
            {"task_id": "a", "idx": 0, "channel": "y", "value": b"bytes"},
            {"task_id": "a", "idx": 1, "channel": "x", "value": 3},
            {"task_id": "b", "idx": 0, "channel": "x", "value": 2},
        ]
        assert [write["value"] for write in saver.get_writes(**place, task_id="b")] == [2]
        saver.put(thread_id="t", checkpoint_id="next", checkpoint_data={}, parent_checkpoint_id="c")
        assert len(saver.get_writes(**place)) == 3  # a saver's writes belong to its history

    def test_an_edited_list_leaves_older_checkpoints_as_they_were(self, saver: Any) -> None:
        first = [f"element {number}" for number in range(20)]
        edited = ["summary", *first[15:]]
        for checkpoint_id, elements in (("a", first), ("b", edited), ("c", [*edited, "more"]), ("d", [])):
            saver.put(thread_id="t", checkpoint_id=checkpoint_id, checkpoint_data={"list": elements})
        found = [saver.get(thread_id="t", checkpoint_id=name)["checkpoint"]["list"] for name in "abcd"]
        assert found == [first, edited, [*edited, "more"], []]

    def test_bad_arguments_are_refused_by_name(self, saver: Any) -> None:
        good: dict[str, Any] = {"thread_id": "t", "checkpoint_id": "c", "checkpoint_data": {}}
        for wrong in (
            {"thread_id": ""},
            {"checkpoint_id": " "},
            {"checkpoint_data": [1]},
            {"checkpoint_ns": None},
        ):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                saver.put(**{**good, **wrong})
        with pytest.raises(InvalidInput, match=r"checkpoint_data\.x"):
            saver.put(thread_id="t", checkpoint_id="c", checkpoint_data={"x": object()})
        assert saver.get(thread_id="t") is None

    def test_a_closed_saver_says_so(self, saver: Any) -> None:
        saver.close()
        saver.close()
        with pytest.raises(Closed):
            saver.get(thread_id="t")

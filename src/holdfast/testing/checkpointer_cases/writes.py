"""What pending writes promise: each task's set whole, in order, and gone with the save that folds them in."""

from typing import Any

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.state import AgentState
from holdfast.memory.records import PendingWrite
from holdfast.testing.checkpointer_cases.base import CheckpointerCases, OpenCheckpointer, chat, grow, requires
from holdfast.testing.checkpointer_cases.saving import STRANGE_METADATA, STRANGE_TEXT


class WritesCases(CheckpointerCases):
    async def test_writes_come_back_by_task_and_index(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 2)
            await checkpointer.put_writes("t", "c2", "b", [("x", number) for number in range(12)])
            await checkpointer.put_writes("t", "c2", "a", [("x", "first"), ("x", "second")])
            await checkpointer.put_writes("t", "c1", "a", [("y", "older")])
            b = [PendingWrite("b", number, "x", number) for number in range(12)]
            a = [PendingWrite("a", 0, "x", "first"), PendingWrite("a", 1, "x", "second")]
            assert await checkpointer.get_writes("t") == a + b
            assert await checkpointer.get_writes("t", "c2") == a + b
            assert await checkpointer.get_writes("t", "c2", "b") == b
            assert await checkpointer.get_writes("t", task_id="a") == a
            assert await checkpointer.get_writes("t", "c1") == [PendingWrite("a", 0, "y", "older")]
            assert await checkpointer.get_writes("t", "c2", "missing") == []
            assert (await checkpointer.stats()).pending_writes == 15

    async def test_a_tasks_writes_are_replaced_as_a_whole(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 1)
            await checkpointer.put_writes("t", "c1", "task", [("x", 1), ("x", 2), ("x", 3)])
            await checkpointer.put_writes("t", "c1", "other", [("x", 0)])
            await checkpointer.put_writes("t", "c1", "task", [("y", 4)])
            assert await checkpointer.get_writes("t", "c1", "task") == [PendingWrite("task", 0, "y", 4)]
            await checkpointer.put_writes("t", "c1", "task", [])
            assert await checkpointer.get_writes("t") == [PendingWrite("other", 0, "x", 0)]

    async def test_values_come_back_exactly_and_as_copies(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 1)
            values: list[Any] = [
                STRANGE_METADATA,
                STRANGE_TEXT,
                None,
                True,
                1,
                1.0,
                [],
                (),
                AgentState().messages,
            ]
            writes = [(f"channel {STRANGE_TEXT}", value) for value in values]
            await checkpointer.put_writes("t", "c1", STRANGE_TEXT, writes)
            found = await checkpointer.get_writes("t", "c1", STRANGE_TEXT)
            assert [repr(write.value) for write in found] == [repr(value) for value in values]
            assert {write.channel for write in found} == {f"channel {STRANGE_TEXT}"}
            given = [1]
            await checkpointer.put_writes("t", "c1", "copy", [("x", given)])
            given.append(2)
            [write] = await checkpointer.get_writes("t", "c1", "copy")
            assert write.value == [1]
            write.value.append(3)
            assert (await checkpointer.get_writes("t", "c1", "copy"))[0].value == [1]

    async def test_the_save_that_folds_them_in_removes_them(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes", "compare_and_set")
            await grow(checkpointer, "t", 2)
            for checkpoint_id in ("c1", "c2"):
                await checkpointer.put_writes("t", checkpoint_id, "task", [("x", checkpoint_id)])
            await checkpointer.save(chat("folded"), "t", "c3", parent="c2")
            assert await checkpointer.get_writes("t", "c2") == []
            assert len(await checkpointer.get_writes("t", "c1")) == 1
            assert await checkpointer.get_writes("t") == []
            assert (await checkpointer.stats()).pending_writes == 1

    async def test_a_save_that_loses_keeps_them(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes", "compare_and_set")
            states = await grow(checkpointer, "t", 2)
            for checkpoint_id in ("c1", "c2"):
                await checkpointer.put_writes("t", checkpoint_id, "task", [("x", checkpoint_id)])
            with pytest.raises(Conflict):
                await checkpointer.save(chat("late"), "t", "c3", parent="c1")
            assert await checkpointer.save(states["c2"], "t", "c2", {"n": 2}, parent="c1") == "c2"  # a retry
            assert len(await checkpointer.get_writes("t", "c1")) == 1
            assert len(await checkpointer.get_writes("t", "c2")) == 1

    async def test_a_save_without_parent_keeps_them(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 1)
            await checkpointer.put_writes("t", "c1", "task", [("x", 1)])
            await checkpointer.save(chat("new"), "t", "c2")
            assert len(await checkpointer.get_writes("t", "c1")) == 1

    async def test_they_go_with_their_checkpoint(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 2)
            await checkpointer.put_writes("t", "c2", "task", [("x", 1)])
            await checkpointer.delete("t", "c2")
            with pytest.raises(Conflict):
                await checkpointer.put_writes("t", "c2", "task", [("x", 2)])
            await checkpointer.save(chat("the same id again"), "t", "c2")
            assert await checkpointer.get_writes("t", "c2") == []
            assert (await checkpointer.stats()).pending_writes == 0

    async def test_writes_of_a_missing_checkpoint_are_conflict(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 1)
            for thread_id, checkpoint_id in (("missing", "c1"), ("t", "c2"), ("t", "C1")):
                for writes in ([("x", 1)], []):
                    with pytest.raises(Conflict):
                        await checkpointer.put_writes(thread_id, checkpoint_id, "task", writes)
            assert (await checkpointer.stats()).pending_writes == 0

    async def test_writes_of_a_wrong_shape_are_refused(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "pending_writes")
            await grow(checkpointer, "t", 1)
            await checkpointer.put_writes("t", "c1", "task", [("kept", 1)])
            wrong: list[Any] = [
                None,
                "ab",
                ["ab"],
                [("x",)],
                [("x", 1, 2)],
                [(1, 2)],
                [("", 1)],
                [("x", object())],
            ]
            for writes in wrong:
                with pytest.raises(InvalidInput, match="writes"):
                    await checkpointer.put_writes("t", "c1", "task", writes)
            assert await checkpointer.get_writes("t") == [PendingWrite("task", 0, "kept", 1)]

"""What deleting promises: all of it goes, nothing else does, and nothing comes back."""

import pytest

from holdfast.core.errors import Conflict
from holdfast.core.state import AgentState
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_history,
    all_threads,
    chat,
    check_thread,
    grow,
    hits,
    requires,
    say,
)


def without(states: dict[str, AgentState], *ids: str) -> dict[str, AgentState]:
    return {checkpoint_id: state for checkpoint_id, state in states.items() if checkpoint_id not in ids}


class DeletingCases(CheckpointerCases):
    async def test_a_deleted_thread_leaves_nothing(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            declared = checkpointer.capabilities
            kept = await grow(checkpointer, "kept", 1)
            await checkpointer.save(chat("secret word"), "t", "x1", {"key": "value"})
            await checkpointer.save(chat("secret word", "more"), "t", "x2", {"key": "value"})
            if declared.pending_writes:
                await checkpointer.put_writes("t", "x2", "task", [("channel", "value")])
            assert await checkpointer.delete("t") is True
            assert await checkpointer.delete("t") is False
            await check_thread(checkpointer, "t", {})
            await check_thread(checkpointer, "kept", kept)
            assert await checkpointer.load("t", "x1") is None
            if declared.search:
                assert await hits(checkpointer, "secret") == set()
            if declared.metadata_query:
                assert await checkpointer.query_by_metadata("key", "value") == []
            if declared.list_with_metadata:
                assert [item["thread_id"] for item in await checkpointer.list_with_metadata()] == ["kept"]
            if declared.list_threads:
                assert await all_threads(checkpointer) == ["kept"]
            if declared.pending_writes:
                assert await checkpointer.get_writes("t", "x2") == []
            stats = await checkpointer.stats()
            assert (stats.threads, stats.checkpoints, stats.entries, stats.pending_writes) == (1, 1, 1, 0)

    async def test_a_deleted_checkpoint_leaves_the_others_exact(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 5)
            assert await checkpointer.delete("t", "missing") is False
            for gone in ("c3", "c1", "c2"):
                assert await checkpointer.delete("t", gone) is True
                assert await checkpointer.delete("t", gone) is False
                assert await checkpointer.load("t", gone) is None
                states = without(states, gone)
                await check_thread(checkpointer, "t", states)
            assert [info.parent_id for info in await all_history(checkpointer, "t")] == ["c4", "c3"]

    async def test_a_deleted_head_uncovers_the_one_before(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 4)
            await checkpointer.delete("t", "c4")
            await check_thread(checkpointer, "t", without(states, "c4"))
            await checkpointer.delete("t", "c3")
            await check_thread(checkpointer, "t", without(states, "c3", "c4"))

    async def test_a_save_after_a_deleted_head_reuses_no_position(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 3)
            await checkpointer.delete("t", "c3")
            states = without(states, "c3")
            states["new"] = say(states["c2"], "not m3")
            await checkpointer.save(states["new"], "t", "new")
            await check_thread(checkpointer, "t", states)
            head = await checkpointer.head("t")
            assert head is not None
            assert (head.parent_id, head.sequence) == ("c2", 4)

    async def test_a_fork_keeps_a_head_that_its_source_deleted_and_wrote_over(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.copy_thread("t", "fork")
            await checkpointer.delete("t", "c3")
            other = say(states["c2"], "not m3")
            await checkpointer.save(other, "t", "c3")  # the same id again, another content
            await check_thread(checkpointer, "fork", states)
            await check_thread(checkpointer, "t", {**without(states, "c3"), "c3": other})

    async def test_what_a_fork_deleted_stays_deleted_when_its_own_fork_goes(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 2)
            await checkpointer.copy_thread("t", "fork")
            for checkpoint_id in ("c3", "c4"):
                states[checkpoint_id] = say(states["c2"], checkpoint_id)
                await checkpointer.save(states[checkpoint_id], "fork", checkpoint_id)
            await checkpointer.delete("fork", "c1")  # inherited
            await checkpointer.copy_thread("fork", "second")
            await checkpointer.delete("fork", "c4")  # its own, which the second one still reads
            await checkpointer.delete("second")
            await check_thread(checkpointer, "fork", without(states, "c1", "c4"))
            await checkpointer.copy_thread("fork", "third")
            await check_thread(checkpointer, "third", without(states, "c1", "c4"))

    async def test_a_deleted_id_may_be_used_again(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 3)
            await checkpointer.delete("t", "c2")
            again = chat("again")
            await checkpointer.save(again, "t", "c2", {"again": True})
            await check_thread(checkpointer, "t", {**without(states, "c2"), "c2": again})

    async def test_without_checkpoints_there_is_no_thread(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 2)
            assert await checkpointer.delete("t", "c2") is True
            assert await checkpointer.delete("t", "c1") is True
            await check_thread(checkpointer, "t", {})
            assert await checkpointer.delete("t") is False
            if checkpointer.capabilities.list_threads:
                assert await all_threads(checkpointer) == []
            assert (await checkpointer.stats()).threads == 0
            if checkpointer.capabilities.compare_and_set:
                await checkpointer.save(chat("new"), "t", parent=None)

    # ── nothing comes back ────────────────────────────────────────────────────────────────────────

    async def test_a_late_write_does_not_revive_a_deleted_thread(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            states = await grow(checkpointer, "t", 2)
            await checkpointer.delete("t")
            with pytest.raises(Conflict) as caught:
                await checkpointer.save(say(states["c2"], "late"), "t", parent="c2")
            assert (caught.value.expected, caught.value.actual) == ("c2", None)
            if checkpointer.capabilities.pending_writes:
                with pytest.raises(Conflict):
                    await checkpointer.put_writes("t", "c2", "task", [("channel", 1)])
            await check_thread(checkpointer, "t", {})
            assert (await checkpointer.stats()).checkpoints == 0

    async def test_a_late_write_does_not_reach_the_next_life(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            states = await grow(checkpointer, "t", 2)
            await checkpointer.delete("t")
            new = {"n1": chat("new life")}
            await checkpointer.save(new["n1"], "t", "n1")
            with pytest.raises(Conflict) as caught:
                await checkpointer.save(say(states["c2"], "late"), "t", "c3", parent="c2")
            assert (caught.value.expected, caught.value.actual) == ("c2", "n1")
            if checkpointer.capabilities.pending_writes:
                with pytest.raises(Conflict):
                    await checkpointer.put_writes("t", "c2", "task", [("channel", 1)])
            await check_thread(checkpointer, "t", new)

    async def test_a_writer_on_a_deleted_head_gets_conflict(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            states = await grow(checkpointer, "t", 2)
            await checkpointer.delete("t", "c2")
            with pytest.raises(Conflict) as caught:
                await checkpointer.save(say(states["c2"], "late"), "t", parent="c2")
            assert (caught.value.expected, caught.value.actual) == ("c2", "c1")
            await check_thread(checkpointer, "t", without(states, "c2"))

    async def test_a_save_without_parent_begins_a_new_life(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 3)
            await checkpointer.delete("t")
            states = await grow(checkpointer, "t", 2)
            await check_thread(checkpointer, "t", states)
            infos = await all_history(checkpointer, "t")
            assert [(info.parent_id, info.sequence) for info in infos] == [("c1", 2), (None, 1)]

    async def test_deleting_one_thread_or_checkpoint_spares_its_namesakes(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            states = {name: await grow(checkpointer, name, 2) for name in ("t", "t1", "T", "t%", "t_", "t*")}
            await checkpointer.delete("t%")
            await checkpointer.delete("t*")
            await checkpointer.delete("t_", "c1")
            for name in ("t", "t1", "T"):
                await check_thread(checkpointer, name, states[name])
            await check_thread(checkpointer, "t_", without(states["t_"], "c1"))

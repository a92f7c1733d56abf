"""What branches promise: the whole past with the same ids, and from then on a life of their own."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.records import PendingWrite
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_history,
    all_threads,
    chat,
    check_thread,
    grow,
    requires,
    say,
    with_texts,
)
from holdfast.testing.clock import FrozenClock


def up_to(states: dict[str, AgentState], last: str) -> dict[str, AgentState]:
    ids = list(states)
    return {checkpoint_id: states[checkpoint_id] for checkpoint_id in ids[: ids.index(last) + 1]}


class BranchingCases(CheckpointerCases):
    async def test_a_copy_has_the_whole_history(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 4)
            clock.advance(60)
            assert await checkpointer.copy_thread("t", "copy") is True
            await check_thread(checkpointer, "copy", states)
            source, copy = await all_history(checkpointer, "t"), await all_history(checkpointer, "copy")
            for theirs, ours in zip(source, copy, strict=True):
                assert (ours.thread_id, theirs.thread_id) == ("copy", "t")
                assert (
                    ours.checkpoint_id,
                    ours.parent_id,
                    ours.sequence,
                    ours.created_at,
                    ours.metadata,
                ) == (
                    theirs.checkpoint_id,
                    theirs.parent_id,
                    theirs.sequence,
                    theirs.created_at,
                    theirs.metadata,
                )

    async def test_a_fork_ends_at_its_checkpoint(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 4)
            for checkpoint_id in states:
                assert await checkpointer.fork("t", checkpoint_id, f"at {checkpoint_id}") == checkpoint_id
                await check_thread(checkpointer, f"at {checkpoint_id}", up_to(states, checkpoint_id))
            assert await checkpointer.fork("t", None, "at head") == "c4"
            await check_thread(checkpointer, "at head", states)

    async def test_branches_go_their_own_ways(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.fork("t", "c2", "fork")
            source, fork = dict(states), up_to(states, "c2")
            for number in range(3):  # the same ids on both sides, in turn
                for thread_id, branch in (("t", source), ("fork", fork)):
                    state = say(list(branch.values())[-1], f"{thread_id} {number}")
                    branch[f"x{number}"] = state
                    await checkpointer.save(state, thread_id, f"x{number}")
            await check_thread(checkpointer, "t", source)
            await check_thread(checkpointer, "fork", fork)
            infos = await all_history(checkpointer, "fork")
            assert [info.sequence for info in infos] == [5, 4, 3, 2, 1]
            assert infos[2].parent_id == "c2"

    async def test_an_edited_history_in_a_fork_leaves_the_source(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.copy_thread("t", "fork")
            edited = with_texts(states["c3"], [Message.system("edited"), *states["c3"].messages[1:]])
            await checkpointer.save(edited, "fork", "edited")
            await check_thread(checkpointer, "t", states)
            await check_thread(checkpointer, "fork", {**states, "edited": edited})

    async def test_a_fork_outlives_its_source(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 5)
            await checkpointer.fork("t", "c3", "fork")
            for gone in ("c2", "c5", "c3"):
                await checkpointer.delete("t", gone)
                await check_thread(checkpointer, "fork", up_to(states, "c3"))
            await checkpointer.delete("t")
            await check_thread(checkpointer, "fork", up_to(states, "c3"))
            again = await grow(checkpointer, "t", 2)  # the next life of the source's id
            await check_thread(checkpointer, "fork", up_to(states, "c3"))
            await check_thread(checkpointer, "t", again)
            states = up_to(states, "c3") | await grow(checkpointer, "fork", 2, start=4)
            await check_thread(checkpointer, "fork", states)

    async def test_a_fork_outlives_a_vacuum_of_its_source(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            requires(checkpointer, "branching", "vacuum")
            states = await grow(checkpointer, "t", 6)
            await checkpointer.fork("t", "c3", "fork")
            clock.advance(days=31)
            assert await checkpointer.vacuum() == 2  # c4 and c5: c6 is the head, the rest is the fork's
            await check_thread(checkpointer, "fork", up_to(states, "c3"))
            await check_thread(checkpointer, "t", {**up_to(states, "c3"), "c6": states["c6"]})

    async def test_a_fork_of_a_fork_needs_neither(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "a", 3)
            await checkpointer.fork("a", "c2", "b")
            b_states = up_to(states, "c2") | await grow(checkpointer, "b", 2, start=10)
            await checkpointer.fork("b", "c10", "c")
            c_states = up_to(b_states, "c10") | await grow(checkpointer, "c", 1, start=20)
            await checkpointer.fork("c", "c1", "d")  # at what came from a
            await checkpointer.delete("b")
            await checkpointer.delete("a")
            await check_thread(checkpointer, "c", c_states)
            await check_thread(checkpointer, "d", up_to(states, "c1"))
            await checkpointer.delete("c")
            await check_thread(checkpointer, "d", up_to(states, "c1"))

    async def test_a_deep_chain_of_forks_is_exact(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "f0", 1)
            for depth in range(1, 45):
                await checkpointer.copy_thread(f"f{depth - 1}", f"f{depth}")
                states |= await grow(checkpointer, f"f{depth}", 1, start=depth + 1)
            for depth in range(44):
                await checkpointer.delete(f"f{depth}")
            await check_thread(checkpointer, "f44", states)

    # ── deleting in branches ──────────────────────────────────────────────────────────────────────

    async def test_a_deleted_inherited_checkpoint_is_hidden_in_that_thread_only(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.copy_thread("t", "fork")
            await checkpointer.copy_thread("t", "other")
            assert await checkpointer.delete("fork", "c2") is True
            assert await checkpointer.delete("fork", "c2") is False
            await check_thread(checkpointer, "fork", {"c1": states["c1"], "c3": states["c3"]})
            await check_thread(checkpointer, "t", states)
            await check_thread(checkpointer, "other", states)
            await checkpointer.copy_thread("fork", "of the fork")
            await check_thread(checkpointer, "of the fork", {"c1": states["c1"], "c3": states["c3"]})

    async def test_what_the_source_deleted_before_is_not_inherited(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 4)
            await checkpointer.delete("t", "c2")
            await checkpointer.fork("t", "c3", "fork")
            await check_thread(checkpointer, "fork", {"c1": states["c1"], "c3": states["c3"]})

    async def test_an_inherited_head_may_be_deleted(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.copy_thread("t", "fork")
            await checkpointer.delete("fork", "c3")
            other = say(states["c2"], "other")
            await checkpointer.save(other, "fork", "c3")
            await check_thread(checkpointer, "fork", {**up_to(states, "c2"), "c3": other})
            await check_thread(checkpointer, "t", states)
            head = await checkpointer.head("fork")
            assert head is not None
            assert (head.parent_id, head.sequence) == ("c2", 4)

    async def test_a_fork_whose_checkpoints_are_all_deleted_is_gone(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 2)
            await checkpointer.copy_thread("t", "fork")
            for checkpoint_id in states:
                assert await checkpointer.delete("fork", checkpoint_id) is True
            await check_thread(checkpointer, "fork", {})
            await check_thread(checkpointer, "t", states)
            assert await checkpointer.copy_thread("t", "fork") is True
            await check_thread(checkpointer, "fork", states)

    # ── what is refused ───────────────────────────────────────────────────────────────────────────

    async def test_an_existing_destination_is_conflict(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 2)
            others = await grow(checkpointer, "other", 1, start=7)
            for dest in ("other", "t"):
                with pytest.raises(Conflict):
                    await checkpointer.copy_thread("t", dest)
                with pytest.raises(Conflict):
                    await checkpointer.fork("t", "c1", dest)
            await check_thread(checkpointer, "t", states)
            await check_thread(checkpointer, "other", others)

    async def test_a_missing_source_is_false_or_invalid(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            await grow(checkpointer, "t", 1)
            assert await checkpointer.copy_thread("missing", "new") is False
            assert await checkpointer.copy_thread("missing", "t") is False
            for thread_id, checkpoint_id in (("missing", None), ("missing", "c1"), ("t", "c2")):
                with pytest.raises(InvalidInput, match="fork"):
                    await checkpointer.fork(thread_id, checkpoint_id, "new")
            await check_thread(checkpointer, "new", {})

    async def test_of_two_forks_onto_one_id_one_wins(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 3)
            outcomes = await asyncio.gather(
                *[checkpointer.fork("t", checkpoint_id, "new") for checkpoint_id in states],
                return_exceptions=True,
            )
            winners = [outcome for outcome in outcomes if isinstance(outcome, str)]
            assert len(winners) == 1
            assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 2
            await check_thread(checkpointer, "new", up_to(states, winners[0]))

    async def test_an_inherited_id_is_taken(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching")
            states = await grow(checkpointer, "t", 2)
            await checkpointer.copy_thread("t", "fork")
            assert await checkpointer.save(states["c1"], "fork", "c1", {"n": 1}) == "c1"
            with pytest.raises(Conflict):
                await checkpointer.save(chat("other"), "fork", "c1")
            await check_thread(checkpointer, "fork", states)

    # ── pending writes, order, scopes ─────────────────────────────────────────────────────────────

    async def test_pending_writes_come_along_and_are_independent(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching", "pending_writes", "compare_and_set")
            states = await grow(checkpointer, "t", 3)
            for checkpoint_id in states:
                await checkpointer.put_writes("t", checkpoint_id, "task", [("channel", checkpoint_id)])
            await checkpointer.fork("t", "c2", "fork")
            assert await _values(checkpointer.get_writes("fork", "c1")) == ["c1"]
            assert await _values(checkpointer.get_writes("fork")) == ["c2"]
            await checkpointer.save(chat("folded"), "fork", "folded", parent="c2")
            await checkpointer.put_writes("t", "c1", "task", [("channel", "changed")])
            assert await _values(checkpointer.get_writes("fork", "c2")) == []
            assert await _values(checkpointer.get_writes("t", "c2")) == ["c2"]
            assert await _values(checkpointer.get_writes("fork", "c1")) == ["c1"]
            await checkpointer.delete("t")
            assert await _values(checkpointer.get_writes("fork", "c1")) == ["c1"]

    async def test_a_fork_counts_as_saved(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching", "list_threads")
            await grow(checkpointer, "t", 2)
            await grow(checkpointer, "later", 1)
            await checkpointer.fork("t", "c1", "fork")
            assert await all_threads(checkpointer) == ["fork", "later", "t"]

    async def test_a_copy_into_another_scope_shares_nothing(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching", "scopes", "pending_writes")
            states = await grow(checkpointer, "t", 3)
            await checkpointer.put_writes("t", "c3", "task", [("channel", 1)])
            tenant = checkpointer.scoped("tenant")
            assert await checkpointer.copy_thread("t", "t", scope="tenant") is True
            with pytest.raises(Conflict):
                await checkpointer.copy_thread("t", "t", scope="tenant")
            assert await checkpointer.copy_thread("missing", "new", scope="tenant") is False
            before = await all_history(checkpointer, "t")
            await checkpointer.delete("t")
            await check_thread(tenant, "t", states)
            assert await all_history(tenant, "t") == before
            assert await _values(tenant.get_writes("t")) == [1]
            assert await tenant.copy_thread("t", "back", scope=None) is True
            await check_thread(checkpointer, "back", states)
            assert await tenant.copy_thread("t", "u", scope="tenant") is True
            await check_thread(tenant, "u", states)


async def _values(getting: Awaitable[list[PendingWrite]]) -> list[Any]:
    return [write.value for write in await getting]

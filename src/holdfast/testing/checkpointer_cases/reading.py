"""What reading promises: missing is never an error, listings are complete, nothing but the asked is seen."""

from dataclasses import astuple
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.memory.cursors import encode_cursor
from holdfast.memory.records import FieldChange, ListChange
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    all_history,
    chat,
    check_thread,
    grow,
    requires,
    say,
    texts,
    with_texts,
)
from holdfast.testing.running import bounded


class ReadingCases(CheckpointerCases):
    async def test_what_is_missing_is_none_false_or_empty(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "there", 1)
            for thread_id, checkpoint_id in (
                ("missing", None),
                ("missing", "c1"),
                ("there", "c2"),
                ("there", "C1"),
            ):
                assert await checkpointer.load(thread_id, checkpoint_id) is None
                assert await checkpointer.get(thread_id, checkpoint_id) is None
                assert await checkpointer.exists(thread_id, checkpoint_id) is False
                if checkpointer.capabilities.metadata_query:
                    assert await checkpointer.get_metadata(thread_id, checkpoint_id) is None
                if checkpointer.capabilities.pending_writes:
                    assert await checkpointer.get_writes(thread_id, checkpoint_id) == []
            assert await checkpointer.head("missing") is None
            assert await checkpointer.list_checkpoints("missing") == []
            assert await checkpointer.history("missing") == []
            assert await checkpointer.delete("missing") is False
            assert await checkpointer.diff("missing", "c1") is None
            assert await checkpointer.exists("there", "c1") is True

    async def test_a_long_thread_is_all_there_and_goes_on(self, open_checkpointer: OpenCheckpointer) -> None:
        """Long lists may be decoded where somebody looks: that must not be seen."""
        call = ToolCall(id="c", name="look", arguments={"n": [1, True]})
        found = ToolResult(tool_call_id="c", name="look", content="x")
        state = AgentState().with_messages(Message.user(f"{n} \u20ac \ud800" * (n % 3)) for n in range(700))
        for _ in range(200):
            state = state.with_tool_execution(found, call)
        async with open_checkpointer() as checkpointer:
            await checkpointer.save(state, "t", "c1")
            for n in range(3):
                state = state.with_message(Message.assistant(str(n), tool_calls=[call]))
                await checkpointer.save(state, "t", f"d{n}")
            loaded = await checkpointer.load("t")
            assert loaded is not None
            assert (len(loaded.messages), loaded.messages[-1]) == (703, state.messages[-1])
            assert loaded.messages[650:] == state.messages[650:]
            longer = loaded.with_message(Message.user("more"))
            await checkpointer.save(longer, "t", "c2")
            edited = loaded.model_copy(
                update={"messages": [*loaded.messages[:300], Message.user("other"), *loaded.messages[301:]]}
            )
            await checkpointer.save(edited, "t", "c3")
            await checkpointer.save(longer.model_copy(update={"messages": longer.messages[:400]}), "t", "c4")
            assert loaded == state
            assert state.messages == loaded.messages
            assert loaded.tool_executions == state.tool_executions
            assert loaded.model_dump() == state.model_dump()
            again = await checkpointer.load("t", "c2")
            assert again is not None
            assert [*again.messages] == [*state.messages, Message.user("more")]
            other = await checkpointer.load("t", "c3")
            assert other is not None
            assert [at for at, m in enumerate(other.messages) if m != state.messages[at]] == [300]
            cut = await checkpointer.load("t")
            assert cut is not None
            assert cut.messages == state.messages[:400]
            assert await checkpointer.load("t", "d2") == state

    async def test_head_and_get_tell_what_history_tells(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 3)
            history = await checkpointer.history("t")
            assert await checkpointer.head("t") == history[0]
            for info in history:
                assert info.thread_id == "t"
                assert info.metadata == {"n": info.sequence}
                found = await checkpointer.get("t", info.checkpoint_id)
                assert found is not None
                assert (found.info, found.state) == (info, states[info.checkpoint_id])

    async def test_a_checkpoint_id_belongs_to_its_thread(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            await checkpointer.save(chat("one"), "t1", "same")
            await checkpointer.save(chat("two"), "t2", "same")
            await checkpointer.save(chat("three"), "t2", "only here")
            assert texts(await checkpointer.load("t1", "same")) == ["one"]
            assert texts(await checkpointer.load("t2", "same")) == ["two"]
            assert await checkpointer.list_checkpoints("t1") == ["same"]
            assert await checkpointer.load("t1", "only here") is None

    async def test_listings_take_a_limit(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 12)
            newest_first = [f"c{number}" for number in range(12, 0, -1)]
            assert await checkpointer.list_checkpoints("t") == newest_first[:10]
            for limit in (0, 1, 11, 12, 13, 10**30):
                assert await checkpointer.list_checkpoints("t", limit) == newest_first[:limit]
                assert [
                    info.checkpoint_id for info in await checkpointer.history("t", limit)
                ] == newest_first[:limit]
            bad: list[Any] = [-1, 1.5, "10", None, True]
            for limit in bad:
                with pytest.raises(InvalidInput, match="limit"):
                    await checkpointer.list_checkpoints("t", limit)
                with pytest.raises(InvalidInput, match="limit"):
                    await checkpointer.history("t", limit)

    async def test_pages_of_history_join_without_gap_or_repetition(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 7)
            await checkpointer.delete("t", "c4")
            for size in range(1, 8):
                seen: list[str] = []
                page = await checkpointer.list_checkpoints("t", size)
                for _ in bounded():
                    seen += page
                    if page.next is None:
                        break
                    assert len(page) == size
                    page = await checkpointer.list_checkpoints("t", size, after=page.next)
                assert seen == ["c7", "c6", "c5", "c3", "c2", "c1"]

    async def test_pages_of_history_are_complete_while_others_write(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 6)
            first = await checkpointer.list_checkpoints("t", 2)
            await grow(checkpointer, "t", 2, start=7)
            await checkpointer.delete("t", "c5")  # the one that the cursor stands on
            await checkpointer.delete("t", "c3")
            rest = await checkpointer.list_checkpoints("t", 100, after=first.next)
            assert (list(first), list(rest)) == (["c6", "c5"], ["c4", "c2", "c1"])

    async def test_a_cursor_that_is_not_of_this_listing_is_refused(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 3)
            bad: list[Any] = ["", "garbage", "é", "\ud800", 3, b"x", encode_cursor("history", "1")]
            bad += [
                encode_cursor("history", 2**70),
                encode_cursor("other", 1),
                encode_cursor("history", 1, 2),
            ]
            for after in bad:
                with pytest.raises(InvalidInput, match="after"):
                    await checkpointer.history("t", 2, after=after)
                if checkpointer.capabilities.list_threads:
                    with pytest.raises(InvalidInput, match="after"):
                        await checkpointer.list_threads(2, after=after)
                if checkpointer.capabilities.list_with_metadata:
                    with pytest.raises(InvalidInput, match="after"):
                        await checkpointer.list_with_metadata(2, after=after)

    async def test_diff_tells_what_was_added_removed_and_changed(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            first = chat("a", "b", "c").with_iteration(1)
            second = with_texts(first, [*first.messages[:2], Message.user("x"), Message.user("y")])
            second = second.model_copy(update={"iteration": 2})
            await checkpointer.save(first, "t", "c1")
            await checkpointer.save(second, "t", "c2")
            diff = await checkpointer.diff("t", "c1")
            assert diff is not None
            assert (diff.before.checkpoint_id, diff.after.checkpoint_id) == ("c1", "c2")
            assert diff.fields == {"iteration": FieldChange(1, 2)}
            assert diff.lists == {"messages": ListChange(2, first.messages[2:], second.messages[2:])}
            back = await checkpointer.diff("t", "c2", "c1")
            assert back is not None
            assert back.lists == {"messages": ListChange(2, second.messages[2:], first.messages[2:])}
            same = await checkpointer.diff("t", "c1", "c1")
            assert same is not None
            assert same.identical

    async def test_diff_of_two_threads_and_of_missing_ones(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            state = chat("a")
            await checkpointer.save(state, "t", "c1")
            await checkpointer.save(say(state, "b"), "other", "c1")
            diff = await checkpointer.diff("t", "c1", "c1", after_thread="other")
            assert diff is not None
            assert diff.lists["messages"].added == (Message.user("b"),)
            assert await checkpointer.diff("t", "missing") is None
            assert await checkpointer.diff("t", "c1", "missing") is None
            assert await checkpointer.diff("t", "c1", after_thread="missing") is None

    async def test_stats_count_what_is_visible(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            assert astuple(await checkpointer.stats())[:4] == (0, 0, 0, 0)
            await grow(checkpointer, "t", 3)
            await grow(checkpointer, "u", 2)
            await checkpointer.delete("t", "c2")
            stats = await checkpointer.stats()
            assert (stats.threads, stats.checkpoints, stats.pending_writes) == (2, 4, 0)
            assert stats.entries > 0
            await checkpointer.delete("t")
            await checkpointer.delete("u")
            assert astuple(await checkpointer.stats())[:4] == (0, 0, 0, 0)

    # ── the same storage, another object ──────────────────────────────────────────────────────────

    async def test_another_object_sees_the_same_threads(self, open_checkpointer: OpenCheckpointer) -> None:
        opener = self.share(open_checkpointer)
        async with opener() as mine, opener() as yours:
            requires(mine, "persistent_checkpoint_ids")
            states = await grow(mine, "t", 3)
            await check_thread(yours, "t", states)
            states |= await grow(yours, "t", 2, start=4)
            await check_thread(mine, "t", states)
            await mine.delete("t", "c5")
            await check_thread(yours, "t", {key: states[key] for key in list(states)[:-1]})
            states["c6"] = chat("mine again")
            await mine.save(states["c6"], "t", "c6")
            states["c7"] = say(states["c6"], "and yours")
            await yours.save(states["c7"], "t", "c7")
            del states["c5"]
            await check_thread(mine, "t", states)

    async def test_what_was_saved_is_there_after_closing(self, open_checkpointer: OpenCheckpointer) -> None:
        opener = self.share(open_checkpointer)
        async with opener() as checkpointer:
            requires(checkpointer, "persistent_checkpoint_ids")
            states = await grow(checkpointer, "t", 3)
            history = await all_history(checkpointer, "t")
        async with opener() as checkpointer:
            await check_thread(checkpointer, "t", states)
            assert await all_history(checkpointer, "t") == history
            states |= await grow(checkpointer, "t", 1, start=4)
            await check_thread(checkpointer, "t", states)

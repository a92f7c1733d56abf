"""What `save` promises: exact states, compare-and-set, safe retries, copies, edits, long threads."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState, ToolExecution
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
from holdfast.testing.clock import FrozenClock
from holdfast.testing.running import bounded

STRANGE_TEXT = "NUL \x00, lone \ud800 and \udfff, 🦀 e\u0301 \u2028 \\ \" ' % _ * ? [ ] $hf {} <b>\r\n\t"
STRANGE_METADATA: dict[str, Any] = {
    STRANGE_TEXT: STRANGE_TEXT,
    "": "empty key",
    "$hf": "a key of the codec",
    "nan": float("nan"),
    "infinity": float("-inf"),
    "big": 2**200,
    "small": -(2**63) - 1,
    "float": 1.0,
    "true": True,
    "none": None,
    "bytes": b"\x00\xff",
    "moment": datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC),
    "naive": datetime.fromisoformat("1999-12-31"),
    "age": timedelta(days=-1, microseconds=1),
    "money": Decimal("0.10"),
    "tuple": (1, [2, {"three": 3}]),
    "set": {1, 2},
    "keys": {1: "one", None: "none"},
}


def rich_state() -> AgentState:
    """A state with something strange in every field."""
    call = ToolCall(id="t\x001", name="look_up", arguments={"q": STRANGE_TEXT, "n": [1, True, 1.0, None]})
    result = ToolResult(
        tool_call_id="t\x001", name="look_up", content=STRANGE_TEXT, error="\ud83d", duration_ms=1.5
    )
    return (
        AgentState(agent_id=STRANGE_TEXT)
        .with_messages(
            [
                Message.system(STRANGE_TEXT, name="\udc00", metadata=STRANGE_METADATA),
                Message.user(""),
                Message.assistant(None, [call], metadata={"nan": float("nan")}),
                Message.tool(result),
            ]
        )
        .with_tool_execution(result, call)
        .with_confidence(0.25)
        .with_confidence(1)
        .with_error(STRANGE_TEXT)
        .with_metadata(STRANGE_METADATA)
        .with_tokens(prompt=3, completion=2**40)
        .with_iteration(7)
    )


class SavingCases(CheckpointerCases):
    async def test_a_state_comes_back_exactly_as_it_was_saved(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            for number, state in enumerate([rich_state(), AgentState(), chat(""), chat(STRANGE_TEXT)]):
                await checkpointer.save(state, f"t{number}", "c1", STRANGE_METADATA)
                found = await checkpointer.get(f"t{number}")
                assert found is not None
                assert found.state == state
                assert found.state.to_checkpoint() == state.to_checkpoint()
                assert repr(found.info.metadata) == repr(STRANGE_METADATA)

    async def test_ids_are_given_or_made_in_order(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            made = [await checkpointer.save(AgentState(), "t") for _ in range(5)]
            assert made == sorted(set(made))
            assert await checkpointer.save(AgentState(), "t", "mine") == "mine"
            assert await checkpointer.list_checkpoints("t") == ["mine", *made[::-1]]

    async def test_a_checkpoint_knows_the_head_that_it_followed(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 3)
            infos = await all_history(checkpointer, "t")
            assert [(info.parent_id, info.sequence) for info in infos] == [("c2", 3), ("c1", 2), (None, 1)]

    async def test_times_are_the_clocks_and_aware(self, open_checkpointer: OpenCheckpointer) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            await checkpointer.save(AgentState(), "t", "c1")
            clock.advance(0.000001)
            await checkpointer.save(AgentState(), "t", "c2")
            infos = await all_history(checkpointer, "t")
            assert [info.created_at for info in infos] == [clock.now, clock.now - timedelta(microseconds=1)]
            assert infos[0].created_at.tzinfo is UTC

    async def test_order_is_by_sequence_when_the_clock_runs_backwards(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        clock = FrozenClock()
        async with open_checkpointer(clock=clock) as checkpointer:
            states: dict[str, AgentState] = {}
            for number in range(1, 5):
                states |= await grow(checkpointer, "t", 1, start=number)
                clock.advance(days=-1)
            await check_thread(checkpointer, "t", states)

    # ── compare-and-set ───────────────────────────────────────────────────────────────────────────

    async def test_a_save_on_the_head_wins(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            first, second = chat("a"), chat("a", "b")
            await checkpointer.save(first, "t", "c1", parent=None)
            await checkpointer.save(second, "t", "c2", parent="c1")
            await check_thread(checkpointer, "t", {"c1": first, "c2": second})

    async def test_a_save_on_another_head_is_conflict_and_writes_nothing(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            states = await grow(checkpointer, "t", 2)
            for parent in ("c1", "C2", "c3", None):
                with pytest.raises(Conflict) as caught:
                    await checkpointer.save(chat("late"), "t", "x", parent=parent)
                assert (caught.value.expected, caught.value.actual) == (parent, "c2")
            await check_thread(checkpointer, "t", states)

    async def test_a_save_with_a_parent_does_not_create_a_thread(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            with pytest.raises(Conflict) as caught:
                await checkpointer.save(chat("late"), "t", parent="c1")
            assert (caught.value.expected, caught.value.actual) == ("c1", None)
            await check_thread(checkpointer, "t", {})

    async def test_without_parent_a_diverging_state_becomes_the_head(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            mine, yours = chat("hello", "mine"), chat("hello", "yours")
            await checkpointer.save(mine, "t", "mine")
            await checkpointer.save(yours, "t", "yours")
            await check_thread(checkpointer, "t", {"mine": mine, "yours": yours})

    async def test_of_two_writers_on_one_head_one_wins(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            for parent in (None, "c0"):
                thread_id = f"after {parent}"
                if parent is not None:
                    await checkpointer.save(AgentState(), thread_id, parent)
                outcomes = await asyncio.gather(
                    *[checkpointer.save(chat(w), thread_id, w, parent=parent) for w in "abcdef"],
                    return_exceptions=True,
                )
                winners = [outcome for outcome in outcomes if isinstance(outcome, str)]
                losers = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
                assert (len(winners), len(losers)) == (1, 5)
                assert {(loser.expected, loser.actual) for loser in losers} == {(parent, winners[0])}
                assert await checkpointer.list_checkpoints(thread_id, 1) == winners

    async def test_sixteen_tasks_that_retry_lose_nothing(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")

            async def append(text: str) -> None:
                for _ in bounded():
                    found = await checkpointer.get("t")
                    state, parent = (found.state, found.info.checkpoint_id) if found else (AgentState(), None)
                    try:
                        await checkpointer.save(say(state, text), "t", parent=parent)
                    except Conflict:
                        await asyncio.sleep(0)
                    else:
                        return

            async def worker(name: int) -> None:
                for number in range(3):
                    await append(f"{name}-{number}")

            await asyncio.gather(*[worker(name) for name in range(16)])
            expected = [f"{name}-{number}" for name in range(16) for number in range(3)]
            found = texts(await checkpointer.load("t"))
            assert sorted(str(text) for text in found) == sorted(expected)
            assert len(await all_history(checkpointer, "t")) == 48

    # ── repeated ids ──────────────────────────────────────────────────────────────────────────────

    async def test_a_repeated_save_returns_its_id_and_writes_nothing(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            states = {"c1": rich_state()}
            states["c2"] = say(states["c1"], "more")
            metadata = {"n": 1, "nan": float("nan")}
            await checkpointer.save(states["c1"], "t", "c1", metadata)
            await checkpointer.save(states["c2"], "t", "c2", metadata)
            again = AgentState.from_checkpoint(states["c1"].to_checkpoint())
            assert await checkpointer.save(again, "t", "c1", dict(metadata)) == "c1"
            assert await checkpointer.save(states["c2"], "t", "c2", metadata) == "c2"
            await check_thread(checkpointer, "t", states)

    async def test_a_repeated_save_with_its_parent_is_safe_after_others_went_on(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            states = {"c1": chat("a"), "c2": chat("a", "b"), "c3": chat("c")}
            for parent, (checkpoint_id, state) in zip((None, "c1", "c2"), states.items(), strict=True):
                await checkpointer.save(state, "t", checkpoint_id, parent=parent)
            assert await checkpointer.save(states["c1"], "t", "c1", parent=None) == "c1"
            assert await checkpointer.save(states["c2"], "t", "c2", parent="c1") == "c2"
            for wrong in (None, "c2", "c3"):
                with pytest.raises(Conflict):
                    await checkpointer.save(states["c2"], "t", "c2", parent=wrong)
            await check_thread(checkpointer, "t", states)

    async def test_a_repeated_id_with_other_content_is_conflict(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            state = chat("a", "b").with_metadata(n=1)
            await checkpointer.save(state, "t", "c1", {"n": 1})
            others: list[tuple[AgentState, dict[str, Any]]] = [
                (state, {}),
                (state, {"n": 2}),
                (state, {"n": True}),
                (state, {"n": 1.0}),
                (state, {"n": "1"}),
                (say(state, "c"), {"n": 1}),
                (with_texts(state, state.messages[:1]), {"n": 1}),
                (with_texts(state, state.messages[::-1]), {"n": 1}),
                (state.with_metadata(n=True), {"n": 1}),
                (state.with_iteration(), {"n": 1}),
                (state.with_error("e"), {"n": 1}),
            ]
            for other, metadata in others:
                with pytest.raises(Conflict):
                    await checkpointer.save(other, "t", "c1", metadata)
            await check_thread(checkpointer, "t", {"c1": state})
            assert await checkpointer.save(AgentState(), "another thread", "c1") == "c1"

    # ── copies ────────────────────────────────────────────────────────────────────────────────────

    async def test_what_is_stored_is_a_copy_of_what_was_given(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            inner = {"list": [1], "set": {1}, "bytes": bytearray(b"a")}
            metadata: dict[str, Any] = {"inner": inner, "n": 1}
            await checkpointer.save(AgentState(), "t", "c1", metadata)
            metadata["n"] = 2
            cast(list[int], inner["list"]).append(2)
            cast(set[int], inner["set"]).add(2)
            cast(bytearray, inner["bytes"]).extend(b"b")
            info = await checkpointer.head("t")
            assert info is not None
            assert info.metadata == {"inner": {"list": [1], "set": {1}, "bytes": bytearray(b"a")}, "n": 1}

    async def test_what_is_handed_out_is_a_copy_of_what_is_stored(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            await checkpointer.save(AgentState(), "t", "c1", {"list": [1]})

            async def handed_out() -> list[dict[str, Any]]:
                found = await checkpointer.get("t")
                head = await checkpointer.head("t")
                assert found is not None
                assert head is not None
                given = [found.info.metadata, head.metadata, (await checkpointer.history("t"))[0].metadata]
                if checkpointer.capabilities.metadata_query:
                    given.append(await checkpointer.get_metadata("t") or {})
                    given.append((await checkpointer.query_by_metadata("list", [1]))[0]["metadata"])
                if checkpointer.capabilities.list_with_metadata:
                    given.append((await checkpointer.list_with_metadata())[0]["metadata"])
                return given

            for metadata in await handed_out():
                metadata["list"].append(2)
                metadata["more"] = 1
            assert all(metadata == {"list": [1]} for metadata in await handed_out())

    async def test_values_that_cannot_be_stored_are_refused_before_anything_is_written(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            bad: dict[str, Any] = {"here": [object()]}
            with pytest.raises(InvalidInput, match="here"):
                await checkpointer.save(AgentState(), "t", metadata=bad)
            with pytest.raises(InvalidInput, match="here"):
                await checkpointer.save(AgentState().with_metadata(bad), "t")
            with pytest.raises(InvalidInput, match="here"):
                await checkpointer.save(AgentState().with_message(Message.user("a", metadata=bad)), "t")
            not_states: list[Any] = [None, {}, "state", AgentState]
            for wrong in not_states:
                with pytest.raises(InvalidInput, match="state"):
                    await checkpointer.save(wrong, "t")
            for keys in ([("a", 1)], "text", {1: "one"}):
                with pytest.raises(InvalidInput, match="metadata"):
                    await checkpointer.save(AgentState(), "t", metadata=cast(Any, keys))
            await check_thread(checkpointer, "t", {})

    # ── edited histories and long threads ─────────────────────────────────────────────────────────

    async def test_every_version_of_an_edited_history_loads_exactly(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 6)
            first = states["c6"]
            new = Message.assistant("new")
            edits = {
                "replaced": [*first.messages[:2], new, *first.messages[3:]],
                "continued": [*first.messages[:2], new, *first.messages[3:], Message.user("on")],
                "truncated": first.messages[:3],
                "regrown": [*first.messages[:3], Message.user("other")],
                "inserted": [new, *first.messages],
                "summarised": [Message.system("they talked"), *first.messages[-2:]],
                "emptied": [],
                "restored": first.messages,
                "doubled": [*first.messages, *first.messages],
                "reversed": first.messages[::-1],
            }
            for name, messages in edits.items():
                states[name] = with_texts(first, messages).with_error(name).with_confidence(0.5)
                await checkpointer.save(states[name], "t", name)
            await check_thread(checkpointer, "t", states)

    async def test_other_lists_of_the_state_may_be_edited_too(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            states: dict[str, AgentState] = {}
            state = AgentState()
            for number in range(4):
                ran = ToolExecution(tool_call_id=f"t{number}", name="tool", success=True)
                state = state.with_error(f"e{number}").with_confidence(number / 4).with_tool_execution(ran)
                states[f"c{number}"] = state
            states["edited"] = state.model_copy(
                update={
                    "errors": state.errors[1:],
                    "confidence_history": (1.0, *state.confidence_history[1:]),
                    "tool_executions": state.tool_executions[:2],
                }
            )
            states["cleared"] = state.model_copy(update={"errors": (), "tool_executions": ()})
            states["again"] = state
            for checkpoint_id, saved in states.items():
                await checkpointer.save(saved, "t", checkpoint_id)
            await check_thread(checkpointer, "t", states)

    async def test_a_thread_of_1500_checkpoints_is_whole(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 1500)
            ids = list(states)[::-1]
            assert await checkpointer.list_checkpoints("t") == ids[:10]
            assert await checkpointer.list_checkpoints("t", 5000) == ids
            paged: list[str] = []
            page = await checkpointer.history("t", 400)
            for _ in bounded():
                paged += [info.checkpoint_id for info in page]
                assert [info.metadata["n"] for info in page] == [int(info.checkpoint_id[1:]) for info in page]
                if page.next is None:
                    break
                page = await checkpointer.history("t", 400, after=page.next)
            assert paged == ids
            for number in (1, 2, 749, 750, 1499, 1500):
                assert await checkpointer.load("t", f"c{number}") == states[f"c{number}"]
            assert await checkpointer.load("t") == states["c1500"]

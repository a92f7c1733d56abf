"""What an object's life promises: what is not declared raises, closed is closed, nothing is half done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields

import pytest

from holdfast.core.errors import Closed, Unavailable, Unsupported
from holdfast.core.state import AgentState
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    chat,
    check_thread,
    export,
    grow,
    hits,
    requires,
    say,
)

Call = Callable[[BaseCheckpointer], Awaitable[object]]


async def _scoped(checkpointer: BaseCheckpointer) -> object:
    return checkpointer.scoped("scope")


async def _admin(checkpointer: BaseCheckpointer) -> object:
    return await checkpointer.admin().scopes()


# What needs no declaration.
ALWAYS: list[Call] = [
    lambda c: c.save(AgentState(), "t"),
    lambda c: c.load("t"),
    lambda c: c.get("t"),
    lambda c: c.head("t"),
    lambda c: c.exists("t"),
    lambda c: c.list_checkpoints("t"),
    lambda c: c.history("t"),
    lambda c: c.delete("t"),
    lambda c: c.diff("t", "c1"),
    lambda c: c.stats(),
]
# What a capability stands for. The others (ttl, shared_forks, ids) are no calls of their own.
NEEDS: dict[str, list[Call]] = {
    "compare_and_set": [
        lambda c: c.save(AgentState(), "t", parent="c1"),
        lambda c: c.save(AgentState(), "new", parent=None),
    ],
    "pending_writes": [lambda c: c.put_writes("t", "c1", "task", []), lambda c: c.get_writes("t")],
    "search": [lambda c: c.search("word")],
    "metadata_query": [lambda c: c.query_by_metadata("key", 1), lambda c: c.get_metadata("t")],
    "list_with_metadata": [lambda c: c.list_with_metadata()],
    "list_threads": [lambda c: c.list_threads()],
    "branching": [lambda c: c.copy_thread("t", "copy"), lambda c: c.fork("t", None, "fork")],
    "vacuum": [lambda c: c.vacuum()],
    "retention": [lambda c: c.prune(keep_last=1)],
    "export": [export, lambda c: c.import_threads([])],
    "scopes": [_scoped, lambda c: c.delete_scope("scope"), _admin],
}


class LifeCases(CheckpointerCases):
    async def test_it_declares_what_it_must(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            declared = checkpointer.capabilities
            assert isinstance(declared, CheckpointerCapabilities)
            assert {
                field.name for field in fields(declared) if getattr(declared, field.name)
            } >= self.required

    async def test_what_is_not_declared_raises(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            states = await grow(checkpointer, "t", 1)
            for capability, calls in NEEDS.items():
                if getattr(checkpointer.capabilities, capability):
                    continue
                for call in calls:
                    with pytest.raises(Unsupported) as caught:
                        await call(checkpointer)
                    assert isinstance(caught.value, NotImplementedError)
                    assert type(checkpointer).__name__ in str(caught.value)
                    assert capability in str(caught.value)
            await check_thread(checkpointer, "t", states)

    async def test_closing_twice_is_closing_once(self, open_checkpointer: OpenCheckpointer) -> None:
        checkpointer = open_checkpointer()
        await grow(checkpointer, "t", 1)
        await checkpointer.close()
        await checkpointer.close()
        async with open_checkpointer() as unused:
            assert await unused.load("missing") is None
        await unused.close()
        never_used = open_checkpointer()
        await never_used.close()
        await never_used.close()

    async def test_after_closing_every_call_raises(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            await grow(checkpointer, "t", 1)
            objects = [checkpointer]
            if checkpointer.capabilities.scopes:
                objects.append(checkpointer.scoped("scope"))
        calls = list(ALWAYS)
        for capability, more in NEEDS.items():
            if getattr(checkpointer.capabilities, capability):
                calls += more
        for closed in objects:
            for call in calls:
                with pytest.raises(Closed) as caught:
                    await call(closed)
                assert isinstance(caught.value, Unavailable)

    async def test_closing_a_view_closes_nothing(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "scopes")
            async with checkpointer.scoped("scope") as view:
                states = await grow(view, "t", 1)
            await check_thread(view, "t", states)
            await grow(checkpointer, "t", 1)

    async def test_a_failing_block_closes_too(self, open_checkpointer: OpenCheckpointer) -> None:
        checkpointer = open_checkpointer()
        with pytest.raises(ZeroDivisionError):
            async with checkpointer:
                raise ZeroDivisionError
        with pytest.raises(Closed):
            await checkpointer.load("t")

    # ── cancellation ──────────────────────────────────────────────────────────────────────────────

    async def test_a_cancelled_save_is_whole_or_not_there(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "compare_and_set")
            states = await grow(checkpointer, "t", 1)
            for delay in range(12):
                parent, state = list(states.items())[-1]
                state, checkpoint_id = say(state, f"cancelled {delay}"), f"cancelled {delay}"
                if checkpointer.capabilities.pending_writes:
                    await checkpointer.put_writes("t", parent, "task", [("x", delay)])
                await _cancelled(checkpointer.save(state, "t", checkpoint_id, parent=parent), delay)
                there = await checkpointer.exists("t", checkpoint_id)
                if there:
                    states[checkpoint_id] = state
                await check_thread(checkpointer, "t", states)
                if checkpointer.capabilities.pending_writes:
                    assert len(await checkpointer.get_writes("t", parent)) == (0 if there else 1)
                if checkpointer.capabilities.search:
                    found = {hit for hit in await hits(checkpointer, "cancelled") if hit[1] == checkpoint_id}
                    assert bool(found) == there

    async def test_other_cancelled_calls_are_whole_or_not_there(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "branching", "pending_writes")
            states = await grow(checkpointer, "t", 3)
            for delay in range(8):
                await _cancelled(checkpointer.fork("t", "c2", f"fork {delay}"), delay)
                fork = {"c1": states["c1"], "c2": states["c2"]}
                there = await checkpointer.exists(f"fork {delay}")
                await check_thread(checkpointer, f"fork {delay}", fork if there else {})
                writes = [("x", number) for number in range(5)]
                await _cancelled(checkpointer.put_writes("t", "c3", f"task {delay}", writes), delay)
                assert len(await checkpointer.get_writes("t", "c3", f"task {delay}")) in (0, 5)
                await _cancelled(checkpointer.delete(f"fork {delay}"), delay)
                there = await checkpointer.exists(f"fork {delay}")
                await check_thread(checkpointer, f"fork {delay}", fork if there else {})
                await _cancelled(checkpointer.load("t"), delay)
                await check_thread(checkpointer, "t", states)

    async def test_many_cancelled_calls_at_once_leave_it_usable(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            tasks = [asyncio.ensure_future(checkpointer.save(chat(str(n)), f"t{n}", "c1")) for n in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for number in range(20):
                state = await checkpointer.load(f"t{number}")
                if number % 2:
                    assert state is not None
                assert state is None or [message.content for message in state.messages] == [str(number)]
            await grow(checkpointer, "after", 2)

    async def test_a_listing_may_be_left_early(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "export", "list_threads")
            states = await grow(checkpointer, "t", 2)
            lines = checkpointer.export_threads()
            assert isinstance(lines, AsyncIterator)
            async for _ in lines:
                break
            await check_thread(checkpointer, "t", states)


async def _cancelled(call: Awaitable[object], delay: int) -> None:
    """Start the call, let the loop run ``delay`` times, cancel it, and wait for its end."""
    task = asyncio.ensure_future(call)
    for _ in range(delay):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        assert task.cancelled()

"""The side-by-side comparison itself: the reference equals the reference, and a broken one is told apart."""

import asyncio
from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.memory_threads import Storage
from holdfast.memory.checkpointer import BaseCheckpointer
from holdfast.testing.checkpointer_suite import OpenCheckpointer
from holdfast.testing.model import Step, compare_backends, model_steps


def opener(storage: Storage | None = None) -> OpenCheckpointer:
    """Opens references: each on its own storage, or all on the given one."""

    def open_memory(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        checkpointer = MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)
        if storage is not None:
            checkpointer._storage = storage
        return checkpointer

    return open_memory


@settings(max_examples=40)  # a smoke test: the reference against itself
@given(steps=model_steps(), ttl_seconds=st.sampled_from([None, 300.0]))
def test_the_reference_does_what_the_reference_does(steps: list[Step], ttl_seconds: float | None) -> None:
    asyncio.run(compare_backends(opener(), opener(), steps, ttl_seconds=ttl_seconds))


@settings(max_examples=10)  # a smoke test: the reference against itself
@given(steps=model_steps())
def test_opening_again_changes_nothing(steps: list[Step]) -> None:
    asyncio.run(compare_backends(opener(), opener(Storage()), steps, reopen=True, every=5))


class FirstMessageForgotten(MemoryCheckpointer):
    """Wrong only in a fork of a fork."""

    async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
        forked = await super()._fork(thread_id, checkpoint_id, new_thread_id)
        thread = self._threads_here().get(new_thread_id)
        if forked is not None and thread is not None and len(thread.ancestors) > 1 and len(thread.rows) > 1:
            thread.drop(next(iter(thread.rows)))
        return forked


def test_a_rare_mistake_is_found_and_told_as_calls() -> None:
    def open_broken(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return FirstMessageForgotten(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

    @settings(max_examples=300, database=None, derandomize=True, phases=[Phase.generate])
    @given(steps=model_steps())
    def run(steps: list[Step]) -> None:
        asyncio.run(compare_backends(opener(), open_broken, steps))

    with pytest.raises(AssertionError, match="differs after") as caught:
        run()
    calls = str(caught.value).split("reference:", maxsplit=1)[0].splitlines()[1:]
    assert sum("fork(" in call or "copy_thread(" in call for call in calls) >= 2


def test_the_steps_reach_what_matters() -> None:
    """Saves, edits, forks, deletions and vacuums that do something: else the comparison proves little."""
    done: Counter[str] = Counter()

    class Counting(MemoryCheckpointer):
        async def _fork(self, thread_id: str, checkpoint_id: str | None, new_thread_id: str) -> str | None:
            forked = await super()._fork(thread_id, checkpoint_id, new_thread_id)
            depth = 0 if forked is None else len(self._threads_here()[new_thread_id].ancestors)
            done["fork"] += depth > 0
            done["fork of a fork"] += depth > 1
            return forked

        async def _delete(self, thread_id: str, checkpoint_id: str | None) -> bool:
            head = await self._info(thread_id, None)
            deleted = await super()._delete(thread_id, checkpoint_id)
            done["deleted head"] += bool(deleted and head and head.checkpoint_id == checkpoint_id)
            done["deleted thread"] += deleted and checkpoint_id is None
            return deleted

    def open_counting(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
        return Counting(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)

    @settings(max_examples=30, database=None, derandomize=True)  # enough to count
    @given(steps=model_steps())
    def run(steps: list[Step]) -> None:
        done["sequences"] += 1
        assert len(steps) >= 30
        asyncio.run(compare_backends(opener(), open_counting, steps, every=100))

    run()
    assert min(done[what] for what in ("fork", "fork of a fork", "deleted head", "deleted thread")) >= 20, (
        done
    )

"""The conformance suite on the in-memory reference, and on one that declares nothing."""

import asyncio
from dataclasses import fields

import pytest

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import Closed, InvalidInput
from holdfast.core.state import AgentState
from holdfast.memory.backends.memory import MemoryCheckpointer
from holdfast.memory.backends.memory_threads import Storage
from holdfast.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from holdfast.testing.checkpointer_suite import CheckpointerSuite, OpenCheckpointer
from holdfast.testing.running import run_suite

ALL = frozenset(field.name for field in fields(CheckpointerCapabilities))


class Undeclared(MemoryCheckpointer):
    """Can do everything and declares nothing: the suite must believe the declaration."""

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities()


def open_memory(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


def open_undeclared(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
    return Undeclared(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)


class TestMemoryCheckpointer(CheckpointerSuite):
    shared_storage = False
    required = ALL

    @pytest.fixture
    def open_checkpointer(self) -> OpenCheckpointer:
        return open_memory


class TestTwoObjectsOnOneStorage(CheckpointerSuite):
    required = ALL

    @pytest.fixture
    def open_checkpointer(self) -> OpenCheckpointer:
        storage = Storage()

        def open_shared(*, clock: Clock | None = None, ttl_seconds: float | None = None) -> BaseCheckpointer:
            checkpointer = MemoryCheckpointer(clock=clock or SYSTEM_CLOCK, ttl_seconds=ttl_seconds)
            checkpointer._storage = storage
            return checkpointer

        return open_shared


class WithoutSharing(CheckpointerSuite):
    shared_storage = False


def test_the_suite_runs_fewer_tests_where_less_is_declared_and_they_pass() -> None:
    full = run_suite(WithoutSharing, lambda: open_memory)
    less = run_suite(WithoutSharing, lambda: open_undeclared)
    assert {name: error for name, error in less.items() if error is not None} == {}
    assert less.keys() < full.keys()
    assert "test_what_is_not_declared_raises" in less
    assert not {name for name in less if "scope" in name or "fork" in name or "vacuum" in name}


def test_a_backend_that_declares_less_than_required_fails() -> None:
    class Required(WithoutSharing):
        required = ALL

    outcomes = run_suite(Required, lambda: open_undeclared)
    assert isinstance(outcomes["test_it_declares_what_it_must"], AssertionError)


async def _fill(checkpointer: MemoryCheckpointer) -> None:
    await checkpointer.save(AgentState(), "a")
    await checkpointer.save(AgentState(), "b")
    await checkpointer.save(AgentState(), "a")


def test_thread_ids_and_counts_are_told_without_waiting() -> None:
    checkpointer = MemoryCheckpointer()
    asyncio.run(_fill(checkpointer))
    assert checkpointer.get_thread_ids() == ["a", "b"]
    assert checkpointer.get_checkpoint_count() == 3
    assert checkpointer.get_checkpoint_count("a") == 2
    assert checkpointer.get_checkpoint_count("missing") == 0
    assert checkpointer.scoped("other").get_thread_ids() == []
    with pytest.raises(InvalidInput, match="thread_id"):
        checkpointer.get_checkpoint_count("")


def test_clear_forgets_the_threads_of_its_scope() -> None:
    checkpointer = MemoryCheckpointer()
    other = checkpointer.scoped("other")
    asyncio.run(_fill(checkpointer))
    asyncio.run(_fill(other))
    checkpointer.clear()
    assert (checkpointer.get_thread_ids(), other.get_thread_ids()) == ([], ["a", "b"])
    asyncio.run(_fill(checkpointer))
    assert checkpointer.get_checkpoint_count() == 3
    asyncio.run(checkpointer.close())
    with pytest.raises(Closed):
        checkpointer.clear()

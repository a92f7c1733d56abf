"""Blocking tools run in threads of their own: many, bounded, ending when idle, never in the way."""

import asyncio
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast.tools.threads import Job, ThreadPool, tool_threads


async def value_of(pool: ThreadPool, work: Callable[[], object]) -> object:
    outcome = await pool.run(Job(work))
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def test_a_burst_is_bounded_and_the_rest_waits_its_turn() -> None:
    async def main() -> None:
        pool = ThreadPool(max_threads=2)
        gate = threading.Event()
        running: list[int] = []

        def work(n: int) -> int:
            running.append(n)
            gate.wait()
            return n

        tasks = [asyncio.ensure_future(pool.run(Job(functools.partial(work, n)))) for n in range(5)]
        while len(running) < 2:
            await asyncio.sleep(0)
        assert pool.threads == 2
        gate.set()
        assert [(await task).value for task in tasks] == [0, 1, 2, 3, 4]
        assert pool.threads == 2

    asyncio.run(main())


def test_a_thread_is_used_again_and_ends_when_idle() -> None:
    async def main() -> None:
        pool = ThreadPool(idle_seconds=0.01)
        first = await value_of(pool, threading.current_thread)
        assert isinstance(first, threading.Thread)
        assert first.daemon
        await asyncio.to_thread(first.join, 30)
        assert not first.is_alive()
        assert pool.threads == 0
        assert await value_of(pool, threading.get_ident)  # and a new one is started

    asyncio.run(main())

    async def again() -> None:
        pool = ThreadPool()
        assert await value_of(pool, threading.get_ident) == await value_of(pool, threading.get_ident)

    asyncio.run(again())


def test_a_job_given_up_while_it_waits_is_never_done() -> None:
    async def main() -> None:
        pool = ThreadPool(max_threads=1)
        gate, begun = threading.Event(), threading.Event()
        done: list[str] = []

        def hold() -> None:
            begun.set()
            gate.wait()

        holder = asyncio.ensure_future(value_of(pool, hold))
        waiting = asyncio.ensure_future(value_of(pool, lambda: done.append("waiting")))
        await asyncio.to_thread(begun.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        await holder
        await value_of(pool, lambda: done.append("next"))
        assert done == ["next"]

    asyncio.run(main())


def test_a_late_result_is_dropped_even_after_its_loop_is_closed() -> None:
    gate, over = threading.Event(), threading.Event()
    pool = ThreadPool(idle_seconds=0.01)

    def late() -> str:
        gate.wait()
        over.set()
        return "late"

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(value_of(pool, late), 0.01)

    asyncio.run(main())
    (thread,) = [t for t in threading.enumerate() if t.name == "holdfast tool" and not over.is_set()][-1:]
    gate.set()
    thread.join(30)
    assert over.is_set()  # pytest fails on an exception in a thread


def test_a_late_result_is_dropped_without_a_word_while_its_loop_goes_on() -> None:
    async def main() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        pool = ThreadPool(max_threads=1)
        gate = threading.Event()
        job = Job(gate.wait)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.run(job), 0.01)
        gate.set()
        await value_of(pool, int)  # by the same thread, so that the late result has been delivered before
        assert job.started
        assert complaints == []

    asyncio.run(main())


def test_context_variables_are_copied_into_the_thread() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")

    async def main() -> None:
        user.set("alice")

        def work() -> str:
            before = user.get()
            user.set("bob")
            return before

        assert await value_of(ThreadPool(), work) == "alice"
        assert user.get() == "alice"

    asyncio.run(main())


def test_exceptions_that_a_future_refuses_come_through() -> None:
    def stop() -> None:
        raise StopIteration(3)

    async def main() -> None:
        outcome = await ThreadPool().run(Job(stop))
        assert isinstance(outcome.error, StopIteration)

    asyncio.run(main())


def test_the_system_without_threads_is_an_error_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        pool = ThreadPool()
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await value_of(pool, int)
        monkeypatch.undo()
        assert await value_of(pool, int) == 0

    asyncio.run(main())


def test_a_hung_tool_does_not_keep_the_process_from_ending() -> None:
    code = (
        "import asyncio, threading\n"
        "from holdfast.core.messages import ToolCall\n"
        "from holdfast.tools import tool\n"
        "@tool(timeout=0.01)\n"
        "def hang() -> None:\n"
        "    threading.Event().wait()\n"
        "print(asyncio.run(hang.run(ToolCall(name='hang'))).error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "timed out after 0.01 s; its effect is unknown\n"
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork: the system has none")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = (
        "import asyncio, os\n"
        "from holdfast.core.messages import ToolCall\n"
        "from holdfast.tools import tool\n"
        "@tool\n"
        "def pid() -> int:\n"
        "    return os.getpid()\n"
        "def check():\n"
        "    assert asyncio.run(pid.run(ToolCall(name='pid'))).content == str(os.getpid())\n"
        "check()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    check()\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "7\n", done.stderr


def test_the_process_has_one_pool() -> None:
    assert tool_threads() is tool_threads()

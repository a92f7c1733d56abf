"""`run_blocking` runs a coroutine from anywhere, nested at any depth, and can't deadlock."""

import asyncio
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest

from holdfast.agent import portal
from holdfast.agent.portal import MAX_IDLE, run_blocking

user: ContextVar[str] = ContextVar("user", default="nobody")


async def name_of_thread() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def loop_of_call() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast portal"]


def test_it_runs_with_and_without_a_loop_in_the_calling_thread() -> None:
    async def within() -> str:
        return run_blocking(name_of_thread)

    assert run_blocking(name_of_thread) == "holdfast portal"
    assert asyncio.run(within()) == "holdfast portal"


def test_calls_one_after_the_other_use_the_same_loop() -> None:
    assert run_blocking(loop_of_call) is run_blocking(loop_of_call)


def test_calls_nest_at_any_depth_through_loops_threads_and_executors() -> None:
    depth = 12

    async def down(level: int) -> int:
        if level == depth:
            return level
        if level % 3 == 0:  # blocks its own loop
            return run_blocking(lambda: down(level + 1))
        if level % 3 == 1:
            return await asyncio.to_thread(run_blocking, lambda: down(level + 1))
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(run_blocking(lambda: down(level + 1))))
        thread.start()
        thread.join()
        return found[0]

    assert run_blocking(lambda: down(0)) == depth


def test_calls_side_by_side_have_loops_of_their_own() -> None:
    together = threading.Barrier(8)
    loops: list[asyncio.AbstractEventLoop] = []

    async def meet() -> None:
        loops.append(asyncio.get_running_loop())
        together.wait(60)  # blocks: passes only if all of them run at the same time

    threads = [threading.Thread(target=run_blocking, args=(meet,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(loops)) == 8


def test_few_idle_loops_are_kept_and_the_others_closed() -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    ended: list[str] = []

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append("generator")

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def down(level: int) -> None:
        loop = asyncio.get_running_loop()
        loops.append(loop)
        threads.append(threading.current_thread())
        keep[loop] = (generator := generate(), asyncio.ensure_future(background()))
        await anext(generator)
        await asyncio.sleep(0)
        if level:
            run_blocking(lambda: down(level - 1))

    keep: dict[asyncio.AbstractEventLoop, Any] = {}
    threads: list[threading.Thread] = []
    run_blocking(lambda: down(MAX_IDLE + 2))
    for thread in threads[:3]:  # the outer calls end last, and find the pool full
        thread.join(60)
    closed = [loop for loop in loops if loop.is_closed()]
    assert len(loops) == MAX_IDLE + 3
    assert len(portals()) == MAX_IDLE
    assert len(closed) == 3
    assert sorted(ended) == ["generator"] * 3 + ["task"] * 3
    for loop in loops:
        if loop not in closed:
            loop.call_soon_threadsafe(keep[loop][1].cancel)


def test_background_tasks_go_on_between_calls() -> None:
    gate, passed = threading.Event(), threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def background() -> None:
        while not gate.is_set():
            await asyncio.sleep(0.001)
        passed.set()

    async def begin() -> None:
        tasks.append(asyncio.create_task(background()))

    run_blocking(begin)
    gate.set()
    assert passed.wait(60)


def test_the_callers_context_variables_are_seen_and_not_changed() -> None:
    async def change() -> str:
        before = user.get()
        user.set("bob")
        return before

    def make() -> Coroutine[Any, Any, str]:
        assert user.get() == "alice"
        return change()

    token = user.set("alice")
    try:
        assert run_blocking(make) == "alice"
        assert user.get() == "alice"
    finally:
        user.reset(token)
    assert run_blocking(change) == "nobody"


class Special(Exception):
    pass


@pytest.mark.parametrize(
    "kind", [Special, StopAsyncIteration, asyncio.CancelledError, KeyboardInterrupt, SystemExit, TimeoutError]
)
def test_exceptions_come_through_with_their_type(kind: type[BaseException]) -> None:
    async def fail() -> NoReturn:
        await asyncio.sleep(0)
        raise kind("why")

    with pytest.raises(kind, match="why"):
        run_blocking(fail)
    assert run_blocking(name_of_thread) == "holdfast portal"


def test_what_ends_a_process_in_a_task_of_the_loop_comes_through_and_does_not_end_the_loop() -> None:
    async def end() -> NoReturn:
        raise SystemExit(3)

    async def parent() -> None:
        await asyncio.create_task(end())

    loop = run_blocking(loop_of_call)
    with pytest.raises(SystemExit):
        run_blocking(parent)
    assert run_blocking(loop_of_call) is loop


def test_a_make_that_fails_is_like_a_coroutine_that_fails() -> None:
    def make() -> Coroutine[Any, Any, None]:
        raise Special("at once")

    with pytest.raises(Special, match="at once"):
        run_blocking(make)


def test_nothing_is_kept_of_a_call() -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)

    async def give(thing: Thing) -> Thing:
        return thing

    async def fail(thing: Thing) -> NoReturn:
        raise Special(thing)

    assert run_blocking(functools.partial(give, thing)) is thing
    with pytest.raises(Special):
        run_blocking(functools.partial(fail, thing))
    run_blocking(name_of_thread)
    del thing
    gc.collect()
    assert gone() is None


def test_an_interrupt_cancels_the_coroutine_and_waits_for_its_end() -> None:
    steps: list[str] = []

    async def wait() -> None:
        # Sent once the main thread can only be waiting for this coroutine; again, if it was just about to begin that.
        try:
            while True:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(1)
        finally:
            for _ in range(5_000):  # long enough for a caller that does not wait to be seen
                await asyncio.sleep(0)
            steps.append("cleaned up")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_blocking(wait)
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["cleaned up"]
    assert run_blocking(name_of_thread) == "holdfast portal"


def test_an_interrupt_before_the_coroutine_begins_leaves_it_unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make() -> Coroutine[Any, Any, str]:
        made.append("coroutine")
        return name_of_thread()

    start = portal._Portal.start

    def interrupt_before(self: portal._Portal, call: portal._Call[Any]) -> NoReturn:
        raise KeyboardInterrupt

    def interrupt_after(self: portal._Portal, call: portal._Call[Any]) -> NoReturn:
        def both() -> None:  # in one step of the loop: the task is cancelled before it takes its first
            call.begin()
            call.cancel()

        self._loop.call_soon_threadsafe(both)
        raise KeyboardInterrupt

    for interrupted in (interrupt_before, interrupt_after):
        monkeypatch.setattr(portal._Portal, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_blocking(make)
    monkeypatch.setattr(portal._Portal, "start", start)
    gc.collect()  # pytest fails on a coroutine that was never awaited
    assert made == []
    assert run_blocking(make) == "holdfast portal"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork: the system has none")
def test_a_forked_child_has_portals_of_its_own_and_leaves_the_parents_alone() -> None:
    code = (
        "import asyncio, gc, os\n"
        "from holdfast.agent.portal import run_blocking\n"
        "async def sleep():\n"
        "    await asyncio.sleep(0.01)\n"
        "    return os.getpid()\n"
        "def check():\n"
        "    assert run_blocking(sleep) == os.getpid()\n"
        "check()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    check(); gc.collect(); check()\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "check()\n"
        "print('parent goes on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "7\nparent goes on\n", done.stderr


def test_a_process_ends_at_once_with_idle_portals_and_says_nothing() -> None:
    code = (
        "import asyncio\n"
        "from holdfast.agent.portal import run_blocking\n"
        "async def leave():\n"
        "    asyncio.get_running_loop().keep = asyncio.create_task(asyncio.Event().wait())\n"
        "run_blocking(leave)\n"
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")

"""Whatever a tool does becomes a result that a model can act on."""

import asyncio
import dataclasses
import datetime as dt
import json
import logging
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel, field_validator

from holdfast.core.messages import INVALID_ARGUMENTS, ToolCall, ToolResult
from holdfast.tools import Tool, running, tool
from holdfast.tools.running import describe, write
from holdfast.tools.threads import ThreadPool


def run(made: Tool[..., Any], /, **arguments: Any) -> ToolResult:
    return asyncio.run(made.run(ToolCall(id="c1", name=made.name, arguments=arguments)))


def test_a_result_names_its_call_and_how_long_it_took() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    result = run(add, a=1, b="2")
    assert (result.tool_call_id, result.name, result.content, result.error) == ("c1", "add", "3", None)
    assert result.duration_ms is not None
    assert result.duration_ms > 0


def test_bad_arguments_are_told_and_the_tool_is_not_run() -> None:
    ran: list[int] = []

    @tool(idempotent=True, retries=5)
    def add(a: int) -> None:
        ran.append(a)

    error = run(add, a="many", c=1).error
    assert error is not None
    assert error.startswith("invalid arguments: a: Input should be a valid integer")
    assert "c: there is no such argument" in error
    assert "attempts" not in error
    assert ran == []


def test_a_validator_of_the_users_own_that_breaks_is_told() -> None:
    class Odd(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def check(cls, value: int) -> int:
            raise KeyError("odd")

    @tool
    def take(odd: Odd) -> None: ...

    assert run(take, odd={"a": 1}).error == "invalid arguments: KeyError: 'odd'"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"a": 1,', "Expecting property name enclosed in double quotes: line 1 column 9 (char 8)"),
        ("[1]", "they are an array"),
        ("null", "they are null"),
        ("", "Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_arguments_that_are_no_json_object_are_shown_to_the_model(raw: str, reason: str) -> None:
    @tool
    def take(**anything: Any) -> None: ...

    assert run(take, **{INVALID_ARGUMENTS: raw}).error == (
        f"the arguments are not a JSON object ({reason}): {raw}\nCall the tool again with a JSON object."
    )


def test_an_exception_is_told_by_type_and_message_and_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def fail(kind: str) -> NoReturn:
        raise {"value": ValueError("no such city"), "bare": KeyError(), "stop": StopIteration(3)}[kind]

    @tool
    async def fail_async() -> NoReturn:
        raise TimeoutError("the tool's own")

    with caplog.at_level(logging.DEBUG, logger="holdfast.tools"):
        assert run(fail, kind="value").error == "ValueError: no such city"
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.exc_info is not None
    assert record.exc_info[2] is not None
    assert run(fail, kind="bare").error == "KeyError"
    assert run(fail, kind="stop").error == "StopIteration: 3"
    assert run(fail_async).error == "TimeoutError: the tool's own"


def test_a_group_of_exceptions_tells_its_leaves() -> None:
    group = ExceptionGroup("many", [ValueError("a"), ExceptionGroup("more", [KeyError("b")])])
    assert describe(group) == "ExceptionGroup: many: ValueError: a; ExceptionGroup: more: KeyError: 'b'"


def test_an_exception_that_can_not_be_printed_is_told_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Mute()) == "Mute"


def test_a_time_out_says_that_the_effect_is_unknown() -> None:
    gate = threading.Event()

    @tool(timeout=0.01)
    def block() -> None:
        gate.wait()

    @tool(timeout=0.01)
    async def wait() -> None:
        await asyncio.Event().wait()

    try:
        for stuck in (block, wait):
            assert run(stuck).error == "timed out after 0.01 s; its effect is unknown"
    finally:
        gate.set()


def test_a_time_out_before_a_thread_was_free_says_that_the_tool_did_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ThreadPool(max_threads=1)
    monkeypatch.setattr(running, "tool_threads", lambda: pool)
    gate = threading.Event()

    @tool
    def hold() -> None:
        gate.wait()

    @tool(timeout=0.01)
    def starve() -> None:
        raise AssertionError("never run")

    async def main() -> None:
        holding = asyncio.ensure_future(hold.run(ToolCall(name="hold")))
        await asyncio.sleep(0)
        result = await starve.run(ToolCall(name="starve"))
        assert result.error == "timed out after 0.01 s, before it began: too many tools are running"
        gate.set()
        assert (await holding).success

    asyncio.run(main())


def test_an_idempotent_tool_is_tried_again_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    tries: list[int] = []

    @tool(idempotent=True, retries=3)
    def flaky(good: int) -> str:
        tries.append(1)
        if len(tries) < good:
            raise ConnectionError("down")
        return "up"

    assert run(flaky, good=3).content == "up"
    assert len(tries) == 3
    assert pauses == [0.1, 0.2]
    tries.clear()
    assert run(flaky, good=9).error == "ConnectionError: down (after 4 attempts)"
    assert len(tries) == 4


def test_a_blocking_tool_does_not_block_the_loop_and_sees_context_variables() -> None:
    user: ContextVar[str] = ContextVar("user")
    gate = threading.Event()

    @tool
    def who() -> str:
        gate.wait()
        return user.get()

    async def main() -> None:
        user.set("alice")
        task = asyncio.ensure_future(who.run(ToolCall(name="who")))
        await asyncio.sleep(0)
        gate.set()  # only a loop that goes on gets here
        assert (await task).content == "alice"

    asyncio.run(main())


def test_two_hundred_stuck_tools_leave_room_for_others() -> None:
    gate = threading.Event()

    @tool
    def hold() -> None:
        gate.wait()

    @tool
    def quick() -> str:
        return "done"

    async def main() -> None:
        stuck = [asyncio.ensure_future(hold.run(ToolCall(name="hold"))) for _ in range(200)]
        assert (await quick.run(ToolCall(name="quick"))).content == "done"
        gate.set()
        await asyncio.gather(*stuck)

    asyncio.run(main())


def test_a_cancellation_that_a_tool_raises_itself_is_an_error() -> None:
    @tool
    async def cancel_async() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    @tool
    def cancel_sync() -> NoReturn:
        raise asyncio.CancelledError("mine")

    assert run(cancel_async).error == "CancelledError"
    assert run(cancel_sync).error == "CancelledError: mine"


@pytest.mark.parametrize("polite", [True, False], ids=["passes it on", "swallows it"])
def test_cancelling_the_caller_propagates(polite: bool) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        @tool(timeout=60)
        async def wait() -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if polite:
                    raise
            return "swallowed"

        task = asyncio.ensure_future(wait.run(ToolCall(name="wait")))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_cancelling_the_caller_of_a_blocking_tool_does_not_wait_for_it() -> None:
    gate, begun = threading.Event(), threading.Event()

    @tool
    def block() -> None:
        begun.set()
        gate.wait()

    async def main() -> None:
        task = asyncio.ensure_future(block.run(ToolCall(name="block")))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not gate.is_set()

    try:
        asyncio.run(main())
    finally:
        gate.set()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_must_end_the_process_propagates(kind: type[BaseException]) -> None:
    @tool
    def end_sync() -> NoReturn:
        raise kind

    @tool
    async def end_async() -> NoReturn:
        raise kind

    for ending in (end_sync, end_async):
        with pytest.raises(kind):
            run(ending)


def test_a_plain_function_may_return_a_coroutine() -> None:
    async def inner(a: int) -> int:
        await asyncio.sleep(0)
        if a < 0:
            raise ValueError("negative")
        return a + 1

    @tool
    def outer(a: int) -> Coroutine[Any, Any, int]:
        return inner(a)

    assert run(outer, a=1).content == "2"
    assert run(outer, a=-1).error == "ValueError: negative"


# --- output ---


@dataclasses.dataclass
class Point:
    x: int
    when: dt.date


class Place(BaseModel):
    name: str
    points: list[Point]


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


def test_output_becomes_text_that_a_model_can_read() -> None:
    point = Point(1, dt.date(2024, 5, 6))
    assert write("as is\ud800") == "as is\ud800"
    assert write(None) == ""
    assert write(True) == "true"
    assert json.loads(write(Place(name="Zürich", points=[point]))) == {
        "name": "Zürich",
        "points": [{"x": 1, "when": "2024-05-06"}],
    }
    assert "Zürich" in write({"city": "Zürich"})
    assert json.loads(write([point, {1, 2}, b"bytes"]))[0] == {"x": 1, "when": "2024-05-06"}


def test_output_without_a_json_form_is_shown_somehow() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert write(endless)
    assert write({"text": "\ud800"}) == '{"text":"\\ud800"}'
    assert "object" in write(object())
    assert "Broken" in write(Broken())
    assert write({"a": Broken()}).startswith("<dict, whose repr raises RuntimeError>")

    @tool
    def give() -> object:
        return Broken()

    assert "Broken" in run(give).content

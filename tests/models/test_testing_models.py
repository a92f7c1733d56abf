"""The models for tests: they say what they are told to, and remember what they were asked."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import holdfast.testing
from holdfast.core.errors import InvalidInput, ModelUnavailable
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import Model, ModelChunk, ModelResponse, ToolSpec, Usage
from holdfast.testing import FunctionModel, ModelCall, ScriptedModel

ASK = [Message.user("hello")]
TOOL = ToolSpec("now", "The time.", {"type": "object", "properties": {}})


def complete(
    model: Model, messages: Sequence[Message] = ASK, *arguments: Any, **options: Any
) -> ModelResponse:
    async def ask() -> ModelResponse:
        return await model.complete(messages, *arguments, **options)

    return asyncio.run(ask())


def chunks(model: Model) -> list[ModelChunk]:
    async def gather(stream: AsyncIterator[ModelChunk]) -> list[ModelChunk]:
        return [chunk async for chunk in stream]

    return asyncio.run(gather(model.stream(ASK)))


def test_a_script_is_said_in_its_order() -> None:
    call = Message.assistant(None, [ToolCall(id="c1", name="now")])
    whole = ModelResponse(Message.assistant("whole"), Usage(3, 1), "length")
    model = ScriptedModel(["text", call, whole])
    assert complete(model) == ModelResponse(Message.assistant("text"))
    assert complete(model) == ModelResponse(call, finish_reason="tool_calls")
    assert model.remaining == 1
    assert complete(model) is whole
    assert repr(model) == "ScriptedModel(3 replies, 0 left)"


def test_an_exception_in_the_script_is_raised_and_the_next_reply_follows() -> None:
    model = ScriptedModel([ModelUnavailable("busy"), "better"])
    with pytest.raises(ModelUnavailable, match="busy"):
        complete(model)
    assert complete(model).message.content == "better"


def test_a_call_beyond_the_script_says_how_long_it_was() -> None:
    model = ScriptedModel(["only"])
    complete(model)
    for number in (2, 3):
        with pytest.raises(InvalidInput, match=f"it has 1 replies, and this is call {number}"):
            complete(model)
    assert model.remaining == 0


def test_what_was_asked_is_kept() -> None:
    model = ScriptedModel(["a", "b"])
    complete(model, ASK, [TOOL], temperature=0)
    complete(model)
    assert model.calls == [ModelCall(tuple(ASK), (TOOL,), {"temperature": 0}), ModelCall(tuple(ASK))]
    model.calls.clear()
    assert len(model.calls) == 2, "it is a copy"


@pytest.mark.parametrize(
    ("replies", "told"),
    [
        ("text", "got one str; put it into"),
        ([3], r"replies\[0\] must be .* got int"),
        (["a", Message.user("b")], r"replies\[1\] must be .* got Message"),
        ([ValueError], r"replies\[0\] is the class ValueError; give an instance"),
    ],
)
def test_a_script_that_can_not_be_said_is_refused_at_once(replies: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        ScriptedModel(replies)


def test_usage_is_nothing_unless_it_is_given() -> None:
    own = ModelResponse(Message.assistant("own"), Usage(9, 9))
    assert complete(ScriptedModel(["a"])).usage == Usage()
    model = ScriptedModel(["a", own], usage=Usage(2, 1))
    assert [complete(model).usage, complete(model).usage] == [Usage(2, 1), Usage(9, 9)]
    assert complete(FunctionModel(lambda *_, **__: "a", usage=Usage(2, 1))).usage == Usage(2, 1)
    with pytest.raises(InvalidInput, match="usage must be a Usage or None, got int"):
        ScriptedModel(["a"], usage=3)  # type: ignore[arg-type]  # the mistake under test


def test_a_stream_gives_the_words_and_then_the_whole() -> None:
    found = chunks(ScriptedModel([" two  words\nand more "]))
    assert [chunk.text for chunk in found] == [" two", "  words", "\nand", " more ", ""]
    assert found[-1].response is not None
    assert found[-1].response.message.content == " two  words\nand more "
    call = Message.assistant(None, [ToolCall(id="c1", name="now")])
    assert chunks(ScriptedModel([call])) == [
        ModelChunk(response=ModelResponse(call, finish_reason="tool_calls"))
    ]
    with pytest.raises(ModelUnavailable):
        chunks(ScriptedModel([ModelUnavailable("busy")]))


def test_threads_that_share_a_script_get_each_reply_once() -> None:
    model = ScriptedModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: complete(model).message.content, range(200)))
    assert sorted(said, key=int) == [str(number) for number in range(200)]  # type: ignore[arg-type]  # all are strings
    assert len(model.calls) == 200


def test_a_function_is_asked_with_everything_and_may_be_a_coroutine() -> None:
    def last(messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any) -> str:
        return f"{messages[-1].content} {[tool.name for tool in tools or ()]} {options}"

    async def later(messages: Sequence[Message], tools: Any = None, **options: Any) -> Message:
        await asyncio.sleep(0)
        return Message.assistant(f"later: {messages[-1].content}")

    assert complete(FunctionModel(last), ASK, [TOOL], seed=1).message.content == "hello ['now'] {'seed': 1}"
    assert complete(FunctionModel(last)).message.content == "hello [] {}"
    model = FunctionModel(later)
    assert complete(model).message.content == "later: hello"
    assert [chunk.text for chunk in chunks(model)] == ["later:", " hello", ""]
    assert len(model.calls) == 2
    assert repr(model) == "FunctionModel(later)"


def test_what_a_function_raises_or_wrongly_returns_is_told() -> None:
    def broken(messages: Sequence[Message], tools: Any = None, **options: Any) -> str:
        raise ModelUnavailable("busy")

    with pytest.raises(ModelUnavailable, match="busy"):
        complete(FunctionModel(broken))
    wrong = ToolResult(tool_call_id="1", name="x")
    with pytest.raises(InvalidInput, match="got ToolResult"):
        complete(FunctionModel(lambda *_, **__: wrong))
    with pytest.raises(InvalidInput, match="function must be callable, got str"):
        FunctionModel("answer")  # type: ignore[arg-type]  # the mistake under test


def test_both_are_models_and_close() -> None:
    for model in (ScriptedModel([]), FunctionModel(print)):
        assert isinstance(model, Model)
        assert model.provider == "testing"
        asyncio.run(model.aclose())


def test_the_models_need_neither_pytest_nor_hypothesis() -> None:
    code = """
import sys
sys.modules["pytest"] = sys.modules["hypothesis"] = None
from holdfast.testing import FrozenClock, FunctionModel, ScriptedModel
print(sorted({"asyncio", "numpy", "openai", "sqlite3"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_door_of_the_package_opens() -> None:
    for name in holdfast.testing.__all__:
        assert getattr(holdfast.testing, name).__name__ == name
    assert dir(holdfast.testing) == sorted(holdfast.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        holdfast.testing.Nothing  # noqa: B018 - reading it is the point

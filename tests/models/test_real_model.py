"""The OpenAI provider with a real, very small model. It knows little, so only what must always hold is looked at."""

import asyncio
from collections.abc import Iterator
from typing import Literal

import pytest
from pydantic import BaseModel

from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.models.base import ModelChunk, ToolSpec
from holdfast.models.openai import OpenAIModel
from holdfast.models.structured import complete_as
from tests.models.llm_server import missing, running_server

pytestmark = [
    pytest.mark.requires("xllamacpp"),
    pytest.mark.skipif(bool(missing()), reason=missing() or "needs xllamacpp"),
]

ASK = [Message.system("You are a helpful assistant."), Message.user("Say hello.")]


class Opinion(BaseModel):
    city: Literal["Paris", "Rome"]
    large: bool


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server() as url:
        yield f"{url}/v1"


@pytest.fixture
def model(address: str) -> OpenAIModel:
    return OpenAIModel("smollm2", base_url=address, max_tokens=12, temperature=0, seed=1)


def test_an_answer_has_words_a_cost_and_an_end(model: OpenAIModel) -> None:
    async def ask() -> None:
        found = await model.complete(ASK)
        assert (found.message.content or "").strip()
        assert found.usage.prompt_tokens > len(ASK)
        assert 0 < found.usage.completion_tokens <= 12
        assert found.finish_reason in {"stop", "length"}

    asyncio.run(ask())


def test_the_pieces_of_a_stream_are_the_whole_answer(model: OpenAIModel) -> None:
    async def ask() -> list[ModelChunk]:
        return [chunk async for chunk in model.stream(ASK)]

    *pieces, last = asyncio.run(ask())
    assert last.response is not None
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == last.response.message.content
    assert last.response.usage.prompt_tokens > len(ASK)
    assert last.response.usage.completion_tokens > 0


def test_an_answer_of_a_given_shape_has_it(model: OpenAIModel) -> None:
    found = asyncio.run(
        complete_as(model, [Message.user("Which city do you like: Paris or Rome?")], Opinion, max_tokens=80)
    )
    assert found.city in {"Paris", "Rome"}


def test_a_conversation_with_tools_is_understood(model: OpenAIModel) -> None:
    tool = ToolSpec("now", "The time.", {"type": "object", "properties": {}})
    messages = [
        *ASK,
        Message.assistant(None, [ToolCall(id="call_1", name="now")]),
        Message.tool(ToolResult(tool_call_id="call_1", name="now", content="12:00")),
        Message.user("What time is it?"),
    ]

    async def ask() -> None:
        found = await model.complete(messages, [tool])
        assert found.message.content or found.message.tool_calls
        assert found.usage.total_tokens > 0

    asyncio.run(ask())


def test_an_answer_can_be_cancelled_and_the_next_one_comes(model: OpenAIModel) -> None:
    async def ask() -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in model.stream([Message.user("Tell a long story.")], max_tokens=500):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await model.complete(ASK)).message.content

    asyncio.run(ask())

"""Ask the model for its next message."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from holdfast.agent.events import ModelChunkEvent, ModelRetryEvent
from holdfast.agent.remembering import with_recalled
from holdfast.agent.session import Session
from holdfast.core.errors import InvalidInput, ModelUnavailable
from holdfast.core.messages import Message
from holdfast.core.sequences import joined
from holdfast.models.base import ModelChunk, ModelResponse, as_response

__all__ = ["ask"]

T = TypeVar("T")


class _OutOfTime(Exception):
    """The turn's time budget ended while the model was at work."""


async def ask(session: Session) -> ModelResponse | None:
    """The model's answer, or ``None`` if the turn's time ran out before it was there."""
    kit, attempt = session.kit, 0
    messages = await _view(session)
    while True:
        attempt += 1
        try:
            with kit.telemetry.model_call(kit.model, session.span, messages=messages) as span:
                response = await _answer(session, messages)
                span.finish(response)
                return response
        except ModelUnavailable as error:
            # The provider has already repeated what it may; but an answer that broke off is new to it.
            if attempt > kit.model_retries:
                raise
            await session.emit(ModelRetryEvent(str(error), attempt))
        except _OutOfTime:
            return None


async def _view(session: Session) -> Sequence[Message]:
    """What the model sees: the instructions, the conversation or what is left of it, and a hint for this step."""
    kit, messages = session.kit, session.state.messages
    before = (Message.system(kit.system_prompt),) if kit.system_prompt else ()
    after = (Message.system(session.hint),) if session.hint is not None else ()
    if session.recalled is not None:  # before the view, which may change the very message that carries it
        messages = with_recalled(session)
    if kit.conversation is not None:
        messages = await kit.conversation.view(messages, model=kit.model)
    shown = joined(before, messages, after)
    return list(shown) if isinstance(shown, tuple) else shown  # a long thread is decoded by whoever reads it


async def _answer(session: Session, messages: Sequence[Message]) -> ModelResponse:
    kit = session.kit
    if not session.channel.listening:
        answer: Any = await _within(session, kit.model.complete(messages, kit.specs, **kit.model_options))
        return as_response(answer)
    chunks: object = kit.model.stream(messages, kit.specs, **kit.model_options)
    if not isinstance(chunks, AsyncIterator):
        if isinstance(chunks, Coroutine):
            chunks.close()
        raise InvalidInput(
            f"the model's stream() must give an async iterator, got {type(chunks).__name__};"
            " write it as `async def stream(...)` with `yield`"
        )
    if not isinstance(
        chunks, AsyncGenerator
    ):  # any async iterator will do, but only a generator can be closed
        return await _listen(session, chunks)
    async with aclosing(chunks):
        return await _listen(session, chunks)


async def _listen(session: Session, chunks: AsyncIterator[ModelChunk]) -> ModelResponse:
    """Pass the pieces on until the whole answer is there."""
    iteration = session.iteration + 1
    while True:
        try:
            chunk = await _within(session, anext(chunks))
        except StopAsyncIteration:
            raise ModelUnavailable("the model's stream ended before its answer was whole") from None
        if chunk.text:
            await session.emit(ModelChunkEvent(chunk.text, iteration))
        if chunk.response is not None:
            return as_response(chunk.response)


async def _within(session: Session, work: Awaitable[T]) -> T:
    """`work`, for as long as the turn's time lasts."""
    if session.limits.time_budget is None:
        return await work
    try:
        async with asyncio.timeout(max(session.limits.remaining(), 0)) as scope:
            return await work
    except TimeoutError:
        if scope.expired():
            raise _OutOfTime from None
        raise

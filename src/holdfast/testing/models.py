"""Models for tests of agents: one that follows a script, one that is a function."""

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import Message
from holdfast.models.base import ModelChunk, ModelResponse, ToolSpec, Usage, as_response
from holdfast.models.mock import in_words

__all__ = ["FunctionModel", "ModelCall", "Reply", "ScriptedModel"]

Reply = str | Message | ModelResponse | BaseException
"""What a script is made of: an answer, or an exception to raise instead of one."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What a model was asked."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class _Recording:
    """The shared part: keeps what was asked, and streams a whole answer word by word."""

    provider = "testing"

    def __init__(self, name: str, usage: Usage | None) -> None:
        if usage is not None and not isinstance(usage, Usage):
            raise InvalidInput(f"usage must be a Usage or None, got {type(usage).__name__}")
        self.name = name
        self._usage = usage
        self._calls: list[ModelCall] = []
        self._lock = threading.Lock()

    @property
    def calls(self) -> list[ModelCall]:
        """What was asked so far, oldest first. A copy."""
        with self._lock:
            return list(self._calls)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        with self._lock:
            self._calls.append(ModelCall(tuple(messages), tuple(tools or ()), options))
            number = len(self._calls)
        answer = await self._answer(number, list(messages), tools, options)
        response = as_response(answer)
        if self._usage is not None and not isinstance(answer, ModelResponse):
            response = replace(response, usage=self._usage)
        return response

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        for chunk in in_words(await self.complete(messages, tools, **options)):
            yield chunk

    async def aclose(self) -> None:
        """Nothing to close."""

    async def _answer(
        self,
        number: int,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
    ) -> object:
        raise NotImplementedError


class ScriptedModel(_Recording):
    """Replies with the items of a script, one a call, whatever it is asked.

    An item is a string, an assistant `Message`, a `ModelResponse`, or an exception to raise. A call beyond the last
    one is `InvalidInput`. ``usage`` is what each reply costs that doesn't say so itself; unset, that is nothing.
    ``calls`` has what the model was asked. Threads may share one: each item is given out once.
    """

    def __init__(
        self, replies: Iterable[Reply], *, usage: Usage | None = None, name: str = "scripted"
    ) -> None:
        super().__init__(name, usage)
        if isinstance(replies, str | Message | ModelResponse | BaseException):
            raise InvalidInput(
                f"replies must be a list of them, got one {type(replies).__name__}; put it into []"
            )
        self._replies = tuple(replies)
        for index, reply in enumerate(self._replies):
            _check(reply, index)

    @property
    def remaining(self) -> int:
        """How many replies have not been given yet."""
        with self._lock:
            return max(0, len(self._replies) - len(self._calls))

    async def _answer(
        self,
        number: int,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
    ) -> object:
        if number > len(self._replies):
            raise InvalidInput(
                f"the script of this ScriptedModel is over: it has {len(self._replies)} replies, and this is"
                f" call {number}; add replies, or see .calls for what was asked"
            )
        reply = self._replies[number - 1]
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self._replies)} replies, {self.remaining} left)"


class FunctionModel(_Recording):
    """Replies with what ``function(messages, tools=None, **options)`` returns, which may be a coroutine function.

    It returns a string, an assistant `Message` or a `ModelResponse`; what it raises is raised.
    """

    def __init__(
        self, function: Callable[..., Any], *, usage: Usage | None = None, name: str | None = None
    ) -> None:
        if not callable(function):
            raise InvalidInput(f"function must be callable, got {type(function).__name__}")
        super().__init__(name or str(getattr(function, "__name__", "function")), usage)
        self._function = function

    async def _answer(
        self,
        number: int,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] | None,
        options: Mapping[str, Any],
    ) -> object:
        answer = self._function(messages, tools=tools, **options)
        return await answer if inspect.isawaitable(answer) else answer

    def __repr__(self) -> str:
        return f"FunctionModel({self.name})"


def _check(reply: object, index: int) -> None:
    if isinstance(reply, BaseException):
        return
    try:
        as_response(reply)
    except InvalidInput as error:
        if isinstance(reply, type) and issubclass(reply, BaseException):
            raise InvalidInput(f"replies[{index}] is the class {reply.__name__}; give an instance") from error
        raise InvalidInput(
            f"replies[{index}] must be a string, an assistant Message, a ModelResponse or an exception,"
            f" got {type(reply).__name__}"
        ) from error

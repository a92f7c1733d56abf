"""What an agent needs of a language model: a protocol with two methods, and the values that they exchange."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import INVALID_ARGUMENTS, Message, Role

__all__ = [
    "INVALID_ARGUMENTS",
    "FinishReason",
    "Model",
    "ModelChunk",
    "ModelResponse",
    "ToolSpec",
    "Usage",
    "as_response",
]

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]
_FINISH_REASONS: Final[tuple[FinishReason, ...]] = get_args(FinishReason)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it. ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, as the provider counted them. ``cached_tokens`` are part of ``prompt_tokens``."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """A model's whole answer: an assistant message, what it cost, and why it ended."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "stop"
    model: str | None = None
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModelChunk:
    """A piece of a streamed answer. The last one has no text, but the whole ``response``."""

    text: str = ""
    response: ModelResponse | None = None


@runtime_checkable
class Model(Protocol):
    """A language model. Any object with these two methods can be given to an agent.

    Options that every provider knows: ``temperature``, ``max_tokens``, ``stop``, ``tool_choice`` (``"auto"``,
    ``"none"``, ``"required"`` or a tool's name), ``response_schema`` (a pydantic class or a JSON schema: the answer's
    text is JSON of that shape) and ``timeout`` (seconds). Others are passed on to the vendor's SDK.
    """

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        """The answer to a conversation."""
        ...

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        """The same in pieces. The last chunk has the ``response``; a stream that ends without one broke off."""
        ...


def as_response(answer: object) -> ModelResponse:
    """A model's answer in full form: a plain string or an assistant `Message` stands for itself."""
    if isinstance(answer, ModelResponse):
        return _checked(answer)
    if isinstance(answer, str):
        answer = Message.assistant(answer)
    if isinstance(answer, Message) and answer.role is Role.ASSISTANT:
        return ModelResponse(answer, finish_reason="tool_calls" if answer.tool_calls else "stop")
    raise InvalidInput(
        "a model must answer with a ModelResponse, an assistant Message or a string,"
        f" got {answer.role.value + ' message' if isinstance(answer, Message) else type(answer).__name__}"
    )


def _checked(response: ModelResponse) -> ModelResponse:
    """The response, or `InvalidInput` that names the field which is not as a model must give it."""
    message: object = response.message
    if not isinstance(message, Message) or message.role is not Role.ASSISTANT:
        got = f"a {message.role.value} message" if isinstance(message, Message) else type(message).__name__
        raise InvalidInput(f"ModelResponse.message must be an assistant Message, got {got}")
    if response.finish_reason not in _FINISH_REASONS:
        raise InvalidInput(
            f"ModelResponse.finish_reason must be one of {', '.join(_FINISH_REASONS)},"
            f" got {response.finish_reason!r} ({type(response.finish_reason).__name__})"
        )
    return response

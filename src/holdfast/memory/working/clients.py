"""Who rewrites the memory: a Holdfast model, or anything with ``async chat(input) -> {"llm_response": ...}``."""

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.core.errors import InvalidInput, ModelError
from holdfast.core.messages import Message
from holdfast.memory import validate
from holdfast.models.base import Model, as_response
from holdfast.models.registry import get_model

__all__ = ["TEMPERATURE", "ILLMConfig", "ILLMInput", "OpenRouterClient", "ask", "check_client"]

TEMPERATURE: Final = 0.7


@dataclass(frozen=True, slots=True)
class ILLMConfig:
    """Which model, and how freely it writes."""

    model: str
    temperature: float = TEMPERATURE

    def __post_init__(self) -> None:
        validate.identifier(self.model, "model")
        if isinstance(self.temperature, bool) or not isinstance(self.temperature, int | float):
            raise InvalidInput(f"temperature must be a number, got {type(self.temperature).__name__}")


@dataclass(frozen=True, slots=True)
class ILLMInput:
    """What `chat` is given."""

    system_prompt: str
    user_message: str


class OpenRouterClient:
    """A client with `chat`, over OpenRouter. Its options are those of `OpenRouterModel` (``api_key``, ``base_url``).

    The model is made by the first `chat`: until then neither key nor package is needed. With ``HOLDFAST_MODEL`` or
    ``HOLDFAST_MODEL_PROVIDER`` set to ``mock`` the mock answers, offline.
    """

    def __init__(self, config: ILLMConfig, **options: Any) -> None:
        if not isinstance(config, ILLMConfig):
            raise InvalidInput(f"config must be an ILLMConfig, got {type(config).__name__}")
        self.config = config
        self._options = options
        self._model: Model | None = None

    async def chat(self, input: ILLMInput) -> dict[str, Any]:
        """``llm_response``, the text, and ``usage``, the tokens."""
        if self._model is None:
            self._model = self._make()
        response = as_response(await self._model.complete(_messages(input)))
        usage = {
            "prompt_tokens": response.usage.prompt_tokens,
            "completion_tokens": response.usage.completion_tokens,
            "total_tokens": response.usage.total_tokens,
        }
        return {"llm_response": response.message.content or "", "usage": usage}

    def _make(self) -> Model:
        chosen = os.environ.get("HOLDFAST_MODEL") or os.environ.get("HOLDFAST_MODEL_PROVIDER") or ""
        if chosen.partition(":")[0].strip().lower() == "mock":
            return get_model("mock:")
        return get_model(
            f"openrouter:{self.config.model}", temperature=self.config.temperature, **self._options
        )

    def __repr__(self) -> str:
        return f"OpenRouterClient({self.config.model!r})"


def check_client(client: object) -> None:
    """`InvalidInput` unless it can be asked."""
    if not callable(getattr(client, "chat", None)) and not callable(getattr(client, "complete", None)):
        raise InvalidInput(
            "llm_client must be a Holdfast model or have async chat(input) -> {'llm_response': ...}, got"
            f" {type(client).__name__}: a model by name is holdfast.models.get_model('openai:gpt-4.1-mini')"
        )


async def ask(client: Any, input: ILLMInput) -> str:
    """The text that the client answers with; empty if it says nothing."""
    # A mock of a client looks like every protocol, so `chat` decides.
    if callable(getattr(client, "chat", None)):
        answer = client.chat(input)
        return _text(await answer if inspect.isawaitable(answer) else answer)
    return as_response(await client.complete(_messages(input))).message.content or ""


def _messages(input: ILLMInput) -> list[Message]:
    return [Message.system(input.system_prompt), Message.user(input.user_message)]


def _text(answer: object) -> str:
    found = answer.get("llm_response") if isinstance(answer, Mapping) else answer
    if found is None:
        return ""
    if not isinstance(found, str):
        kind = f"a dict with {type(found).__name__}" if isinstance(answer, Mapping) else type(found).__name__
        raise ModelError(f"chat() must return {{'llm_response': text}}, got {kind}")
    return found

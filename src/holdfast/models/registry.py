"""Models by name: ``"openai:gpt-4.1-mini"``, or the one that the environment names."""

import os
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

from holdfast.core.errors import InvalidInput
from holdfast.models.base import Model

__all__ = ["default_model", "get_model", "register_provider"]

Factory = Callable[..., Model]

# Where each provider lives: its module is imported when its first model is made.
_HOMES: Final = {
    "anthropic": "holdfast.models.anthropic:AnthropicModel",
    "litellm": "holdfast.models.litellm:LiteLLMModel",
    "mock": "holdfast.models.mock:MockModel",
    "oci": "holdfast.models.oci:OCIModel",
    "ollama": "holdfast.models.ollama:OllamaModel",
    "openai": "holdfast.models.openai:OpenAIModel",
    "openrouter": "holdfast.models.openrouter:OpenRouterModel",
}
_registered: Final[dict[str, Factory]] = {}

# In this order, the provider whose key is set is the default.
_KEYS: Final = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENROUTER_API_KEY": "openrouter",
}


def get_model(spec: str, **options: Any) -> Model:
    """The model that ``provider:name`` names; without a name, the provider's default model.

    Only the first colon counts: ``ollama:llama3.2:3b``. The options go to the model's class: ``api_key``,
    ``base_url``, ``timeout``, ``max_retries``, and whatever shall be sent with every call, as ``max_tokens``.
    """
    provider, name = _split(spec)
    factory = _registered.get(provider)
    if factory is None:
        module, _, kind = _HOMES[provider].partition(":")
        factory = getattr(import_module(module), kind)
    return factory(name, **options) if name else factory(**options)


def default_model(**options: Any) -> Model:
    """The model that the environment names.

    That is ``HOLDFAST_MODEL`` (``provider:name``), else the default model of ``HOLDFAST_MODEL_PROVIDER``, else that of
    the first provider whose key is set: OpenAI, Anthropic, OpenRouter. With none, `InvalidInput` says how to choose.
    """
    spec = os.environ.get("HOLDFAST_MODEL") or os.environ.get("HOLDFAST_MODEL_PROVIDER")
    if not spec:
        spec = next((provider for key, provider in _KEYS.items() if os.environ.get(key)), None)
    if not spec:
        raise InvalidInput(
            "no model was chosen: pass model='openai:gpt-4.1-mini' or the like, set HOLDFAST_MODEL to such a name or"
            f" HOLDFAST_MODEL_PROVIDER to a provider, or set one of {', '.join(_KEYS)};"
            " 'mock:' needs no key and works offline"
        )
    return get_model(spec, **options)


def register_provider(name: str, factory: Factory) -> None:
    """Let `get_model` make models of a provider of your own, or others of a known one.

    `factory` is called with the model's name, or without one for its default, and with the options of `get_model`.
    """
    if not name or ":" in name or name != name.strip().lower():
        raise InvalidInput(f"a provider's name is a word in lower case without a colon, got {name!r}")
    if not callable(factory):
        raise InvalidInput(f"factory must be callable, got {type(factory).__name__}")
    _registered[name] = factory


def _split(spec: object) -> tuple[str, str]:
    """Provider and name, else `InvalidInput`."""
    if not isinstance(spec, str):
        raise InvalidInput(f"a model's name must be a string 'provider:model', got {type(spec).__name__}")
    provider, colon, name = (part.strip() for part in spec.partition(":"))
    known = sorted({*_HOMES, *_registered})
    found = provider.lower()
    if found in known:
        return found, name
    close = get_close_matches(found, known, n=1)
    hint = f"did you mean {close[0] + colon + name!r}" if close else "write 'provider:model'"
    raise InvalidInput(
        f"there is no provider {provider!r}, in {spec!r}; {hint}; known are {', '.join(known)}"
    )

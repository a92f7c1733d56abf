"""Language models: a small protocol, and providers over their vendors' own SDKs. Names are imported when used."""

from typing import TYPE_CHECKING

from holdfast.core.lazy import doors

if TYPE_CHECKING:
    from holdfast.models.anthropic import AnthropicModel
    from holdfast.models.base import INVALID_ARGUMENTS, Model, ModelChunk, ModelResponse, ToolSpec, Usage
    from holdfast.models.litellm import LiteLLMModel
    from holdfast.models.mock import MockModel
    from holdfast.models.oci import OCIModel
    from holdfast.models.ollama import OllamaModel
    from holdfast.models.openai import OpenAIModel
    from holdfast.models.openrouter import OpenRouterModel
    from holdfast.models.registry import default_model, get_model, register_provider
    from holdfast.models.structured import complete_as

__all__ = [
    "INVALID_ARGUMENTS",
    "AnthropicModel",
    "LiteLLMModel",
    "MockModel",
    "Model",
    "ModelChunk",
    "ModelResponse",
    "OCIModel",
    "OllamaModel",
    "OpenAIModel",
    "OpenRouterModel",
    "ToolSpec",
    "Usage",
    "complete_as",
    "default_model",
    "get_model",
    "register_provider",
]

__getattr__, __dir__ = doors(
    __name__,
    {
        "INVALID_ARGUMENTS": "holdfast.models.base",
        "AnthropicModel": "holdfast.models.anthropic",
        "MockModel": "holdfast.models.mock",
        "Model": "holdfast.models.base",
        "ModelChunk": "holdfast.models.base",
        "ModelResponse": "holdfast.models.base",
        "LiteLLMModel": "holdfast.models.litellm",
        "OCIModel": "holdfast.models.oci",
        "OllamaModel": "holdfast.models.ollama",
        "OpenAIModel": "holdfast.models.openai",
        "OpenRouterModel": "holdfast.models.openrouter",
        "ToolSpec": "holdfast.models.base",
        "Usage": "holdfast.models.base",
        "complete_as": "holdfast.models.structured",
        "default_model": "holdfast.models.registry",
        "get_model": "holdfast.models.registry",
        "register_provider": "holdfast.models.registry",
    },
)

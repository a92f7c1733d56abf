"""A working memory agent from a configuration."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from holdfast.core.errors import InvalidInput
from holdfast.memory.working.agent import WorkingMemoryAgent
from holdfast.memory.working.clients import TEMPERATURE, ILLMConfig, OpenRouterClient
from holdfast.memory.working.database import DatabaseMemoryManager
from holdfast.memory.working.managers import InMemoryManager, MemoryManager
from holdfast.memory.working.redis import RedisMemoryManager
from holdfast.models.registry import get_model

__all__ = ["create_memory_agent"]

_KEYS: Final = ("model", "temperature", "memory_type", "redis_url", "db_connection", "system_prompt")
_TYPES: Final = ("memory", "redis", "database")


def create_memory_agent(config: Mapping[str, Any]) -> WorkingMemoryAgent:
    """The agent that a configuration describes:

    - ``model``: a model of OpenRouter (``openai/gpt-4.1-mini``), or of any provider, as `get_model` takes it
      (``ollama:llama3.2``, ``mock:``); ``temperature``: 0.7 by default
    - ``memory_type``: ``memory`` (the default), ``redis`` with ``redis_url``, or ``database`` with ``db_connection``
      (see `DatabaseMemoryManager`)
    - ``system_prompt``: instructions of your own for the model
    """
    if not isinstance(config, Mapping):
        raise InvalidInput(f"config must be a dict, got {type(config).__name__}")
    for key in config:
        if key not in _KEYS:
            raise InvalidInput(f"config has an unknown key {key!r}{_nearest(key, _KEYS)}")
    llm = ILLMConfig(_needed(config, "model"), config.get("temperature", TEMPERATURE))
    return WorkingMemoryAgent(_client(llm), _manager(config), system_prompt=config.get("system_prompt"))


def _client(llm: ILLMConfig) -> Any:
    # OpenRouter's own names may have a colon too, but after a slash: "deepseek/deepseek-r1:free".
    provider, colon, _ = llm.model.partition(":")
    if colon and "/" not in provider:
        return get_model(llm.model, temperature=llm.temperature)
    return OpenRouterClient(llm)


def _manager(config: Mapping[str, Any]) -> MemoryManager:
    kind = config.get("memory_type", "memory")
    if kind == "redis":
        return RedisMemoryManager(_needed(config, "redis_url"))
    if kind == "database":
        return DatabaseMemoryManager(_needed(config, "db_connection"))
    if kind == "memory":
        return InMemoryManager()
    raise InvalidInput(
        f"memory_type must be one of {', '.join(_TYPES)}, got {kind!r}{_nearest(kind, _TYPES)}"
    )


def _needed(config: Mapping[str, Any], key: str) -> Any:
    if config.get(key) is None:
        raise InvalidInput(f"config must have the key {key!r}")
    return config[key]


def _nearest(name: object, known: tuple[str, ...]) -> str:
    close = get_close_matches(str(name), known, 1)
    return f": did you mean {close[0]!r}?" if close else f": known are {', '.join(known)}"

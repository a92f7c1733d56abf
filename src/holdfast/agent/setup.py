"""From what an agent is given to what it works with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import InvalidInput
from holdfast.models.base import Model, ToolSpec
from holdfast.tools import Tool

if TYPE_CHECKING:
    from holdfast.agent.conversation import ConversationManager
    from holdfast.connection import Connection
    from holdfast.memory.checkpointer import BaseCheckpointer

__all__ = ["open_checkpointer", "resolve_conversation", "resolve_model", "resolve_tools", "tool_specs"]


def resolve_model(spec: object) -> Model:
    """A model object as it is, one by its name, or the one that the environment names."""
    if spec is None or isinstance(spec, str):
        from holdfast.models.registry import default_model, get_model

        return default_model() if spec is None else get_model(spec)
    if not isinstance(spec, Model):
        raise InvalidInput(
            "model must be a name such as 'openai:gpt-4.1-mini' or an object with complete() and stream(),"
            f" got {type(spec).__name__}"
        )
    return spec


def resolve_conversation(given: object) -> "ConversationManager | None":
    """A conversation manager is any object with an async ``view``."""
    from holdfast.agent.conversation import ConversationManager

    if given is None or isinstance(given, ConversationManager):
        return given
    raise InvalidInput(
        "conversation_manager must be a WindowConversation, a SummarizingConversation or an object with an async"
        f" view(messages, *, model), got {type(given).__name__}"
    )


def resolve_tools(given: Iterable[Tool[..., Any] | Callable[..., Any]]) -> Mapping[str, Tool[..., Any]]:
    """Tools by name; a plain function becomes one."""
    tools: dict[str, Tool[..., Any]] = {}
    for index, item in enumerate(given):
        if not isinstance(item, Tool) and not callable(item):
            raise InvalidInput(f"tools[{index}] must be a function or a tool, got {type(item).__name__}")
        made = item if isinstance(item, Tool) else Tool(item)
        if made.name in tools:
            raise InvalidInput(
                f"tools[{index}]: there already is a tool {made.name!r}; give one another name="
            )
        tools[made.name] = made
    return tools


def tool_specs(tools: Mapping[str, Tool[..., Any]]) -> Sequence[ToolSpec] | None:
    """What a model is told of the tools."""
    specs = [ToolSpec(made.name, made.description, made.parameters) for made in tools.values()]
    return specs or None


def open_checkpointer(
    given: object, beside_memory: "BaseCheckpointer | None"
) -> "tuple[BaseCheckpointer, Connection | None, bool]":
    """The checkpointer, the connection if it was opened here, and whether threads without a name are kept."""
    from holdfast.memory.backends.documents import DocumentBackend
    from holdfast.memory.checkpointer import BaseCheckpointer

    if isinstance(given, DocumentBackend):
        return given.checkpointer, None, True
    if given is None and beside_memory is not None:
        return beside_memory, None, True
    if given is None:
        from holdfast.memory.backends.memory import MemoryCheckpointer

        return MemoryCheckpointer(), None, False
    if isinstance(given, str):
        from holdfast.connection import connect

        connection = connect(given)
        return connection.checkpointer, connection, True
    if isinstance(given, BaseCheckpointer):
        return given, None, True
    raise InvalidInput(
        "checkpointer must be a URL such as 'sqlite:agent.db' or a BaseCheckpointer,"
        f" got {type(given).__name__}; the blocking twins are for code without an agent"
    )

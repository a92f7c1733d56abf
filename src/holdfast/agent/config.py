"""Everything that an agent can be told, checked before anything is done."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.core.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.agent.conversation import ConversationManager
    from holdfast.agent.reflexion import Reflexion
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.memory.backends.documents import DocumentBackend
    from holdfast.memory.checkpointer import BaseCheckpointer
    from holdfast.memory.manager import BaseMemoryManager
    from holdfast.models.base import Model
    from holdfast.tools import Tool

__all__ = ["AgentConfig", "AgentOptions", "configure"]

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]


class AgentOptions(TypedDict, total=False):
    """The keyword arguments of `Agent`: the fields of `AgentConfig`."""

    system_prompt: str | None
    model: "Model | str | None"
    tools: "Sequence[Tool[..., Any] | Callable[..., Any]] | None"
    agent_id: str | None
    checkpointer: "BaseCheckpointer | DocumentBackend | str | None"
    checkpoint_every_n_iterations: int
    reflexion: "bool | Reflexion | None"
    conversation_manager: "ConversationManager | None"
    memory: "AgentMemory | str | Mapping[str, Any] | None"
    memory_tools: bool
    memory_follows_thread: bool
    extract_facts: bool | None
    memory_manager: "BaseMemoryManager | None"
    memory_tokens: int
    on_memory_error: Literal["degrade", "raise"]
    max_iterations: int
    token_budget: int | None
    time_budget: float | None
    max_repeats: int
    on_conflict: Literal["raise", "retry", "fork"]
    conflict_patience: float
    model_options: Mapping[str, Any]
    model_retries: int
    telemetry: Any


class AgentConfig(BaseModel):
    """All arguments of `Agent`, as data: ``Agent(config=config, **changes)``."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    instructions: str | None = None
    system_prompt: str | None = None
    model: Any = None
    tools: tuple[Any, ...] = ()
    agent_id: Annotated[str, Field(min_length=1)] = "agent"
    checkpointer: Any = None
    checkpoint_every_n_iterations: Positive = 1
    reflexion: Any = None
    conversation_manager: Any = None
    memory: Any = None
    memory_tools: bool = True
    memory_follows_thread: bool = False
    extract_facts: bool | None = None
    memory_manager: Any = None
    memory_tokens: Positive = 1_000
    on_memory_error: Literal["degrade", "raise"] = "degrade"
    max_iterations: Positive = 20
    token_budget: Positive | None = None
    time_budget: Seconds | None = None
    max_repeats: Annotated[int, Field(ge=0)] = 5
    on_conflict: Literal["raise", "retry", "fork"] = "raise"
    conflict_patience: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    model_options: Mapping[str, Any] = Field(default_factory=dict)
    model_retries: Annotated[int, Field(ge=0)] = 1
    telemetry: Any = None

    @model_validator(mode="before")
    @classmethod
    def _none_is_default(cls, data: Any) -> Any:
        """``tools=None`` and ``agent_id=None`` mean that nothing was said."""
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None}

    @field_validator("tools", mode="before")
    @classmethod
    def _are_many(cls, tools: Any) -> Any:
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise InvalidInput("give a list of functions or tools, also for one")
        return tools

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.instructions is not None and self.system_prompt is not None:
            raise ValueError("instructions and system_prompt are two names of the same thing: give one")
        if self.memory is not None and self.memory_manager is not None:
            raise ValueError("memory and memory_manager are two kinds of memory: give one")
        return self

    @property
    def prompt(self) -> str | None:
        """What the model is told first."""
        return self.instructions if self.system_prompt is None else self.system_prompt


def configure(base: AgentConfig | None, changes: Mapping[str, Any]) -> AgentConfig:
    """The configuration with these changes, or `InvalidInput` that names what is wrong with them."""
    if base is not None and not isinstance(base, AgentConfig):
        raise InvalidInput(f"config must be an AgentConfig, got {type(base).__name__}: pass AgentConfig(...)")
    known = AgentConfig.model_fields.keys()
    for name in changes:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise InvalidInput(f"Agent has no argument {name!r}: {hint}")
    values: dict[str, Any] = (
        {} if base is None else {name: getattr(base, name) for name in base.model_fields_set}
    )
    given = {name: value for name, value in changes.items() if value is not None}
    if "instructions" in given or "system_prompt" in given:  # a new prompt takes the old one's place
        values = {
            name: value for name, value in values.items() if name not in ("instructions", "system_prompt")
        }
    try:
        return AgentConfig(**{**values, **given})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "Agent"
        value = first.get("input")
        kind = "" if not first["loc"] else f", got {value!r} ({type(value).__name__})"
        raise InvalidInput(f"{field}: {first['msg'].removeprefix('Value error, ')}{kind}") from None

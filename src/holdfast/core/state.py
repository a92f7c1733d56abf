"""The state of a conversation: one immutable value. Every change gives a new one that shares the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import Field, ModelWrapValidatorHandler, computed_field, field_validator, model_validator

from holdfast.core import codec
from holdfast.core.errors import Corrupt, InvalidInput, SchemaMismatch
from holdfast.core.frozen import EMPTY, FrozenDict, freeze_mapping
from holdfast.core.ids import new_id
from holdfast.core.messages import (
    Message,
    ToolCall,
    ToolResult,
    decode_messages,
    encode_message,
    load_many,
    quote,
)
from holdfast.core.model import FrozenMap, FrozenModel, FrozenSequence, UtcDatetime, build
from holdfast.core.sequences import BLOCK, LazySequence, joined

__all__ = [
    "LOGGED_FIELDS",
    "SCHEMA_VERSION",
    "UPGRADES",
    "AgentState",
    "ToolExecution",
    "decode_state",
    "encode_element",
    "encode_head",
]

SCHEMA_VERSION = 1
"""The version of the stored form. Raise it together with an entry in `UPGRADES` and a new fixture."""

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""`UPGRADES[n]` turns a checkpoint document of version n, as `to_checkpoint` gave it, into one of n + 1."""

LOGGED_FIELDS: Final = ("messages", "tool_executions", "confidence_history", "errors")
"""The fields that only grow from turn to turn: stored element by element, apart from the head."""

_LAZY: Final = ("messages", "tool_executions")  # elements that can't be taken for their texts
_COMPUTED: Final = ("tool_history", "total_tokens")
_MICROSECOND: Final = timedelta(microseconds=1)

M = TypeVar("M", bound=FrozenModel)
Count = Annotated[int, Field(ge=0)]
Confidence = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


def _now() -> datetime:
    return datetime.now(UTC)


class ToolExecution(FrozenModel):
    """That a tool ran. Its result is the message with the same `tool_call_id`, not kept twice."""

    tool_call_id: str
    name: str
    arguments: FrozenMap = Field(default_factory=lambda: EMPTY)
    success: bool
    error: str | None = None
    duration_ms: float | None = None
    started_at: UtcDatetime | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolExecution) or type(self) is not type(other):
            return False
        if self is other:
            return True
        try:
            return codec.same(self.__dict__, other.__dict__)
        except InvalidInput:  # not storable, so only == is left
            return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.tool_call_id, self.name))


class AgentState(FrozenModel):
    """Everything that a conversation carries from turn to turn.

    The `with_...` methods return a new state and cost as much as what they add. Two states are equal when
    they are stored exactly alike.
    """

    agent_id: str = "agent"
    run_id: str = Field(default_factory=new_id)
    messages: FrozenSequence[Message] = ()
    iteration: Count = 0
    tool_executions: FrozenSequence[ToolExecution] = ()
    confidence: Confidence = 0.0
    confidence_history: tuple[Confidence, ...] = ()
    metadata: FrozenMap = Field(default_factory=lambda: EMPTY)
    errors: tuple[str, ...] = ()
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    created_at: UtcDatetime = Field(default_factory=_now)
    updated_at: UtcDatetime = Field(default_factory=_now)
    schema_version: int = Field(default_factory=lambda: SCHEMA_VERSION)

    @computed_field  # type: ignore[prop-decorator]  # mypy can't see that this decorator takes a property
    @property
    def tool_history(self) -> tuple[str, ...]:
        """The names of the tools that ran, in order."""
        return tuple([execution.name for execution in self.tool_executions])

    @computed_field  # type: ignore[prop-decorator]  # mypy can't see that this decorator takes a property
    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @field_validator("schema_version")
    @classmethod
    def _check_version(cls, value: int) -> int:
        if value != SCHEMA_VERSION:
            raise ValueError(
                f"schema_version is {SCHEMA_VERSION} here, got {value}; read stored data with from_checkpoint"
            )
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _take_computed(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """`model_dump` includes computed fields: take them back if they are right."""
        if not isinstance(data, Mapping) or not any(key in data for key in _COMPUTED):
            return handler(data)
        state = handler({key: item for key, item in data.items() if key not in _COMPUTED})
        if "tool_history" in data and tuple(data["tool_history"]) != state.tool_history:
            raise ValueError("tool_history must be the names of tool_executions; leave it out")
        if "total_tokens" in data and data["total_tokens"] != state.total_tokens:
            raise ValueError("total_tokens must be prompt_tokens + completion_tokens; leave it out")
        return state

    def with_message(self, message: Message) -> Self:
        return self.with_messages((message,))

    def with_messages(self, messages: Iterable[Message]) -> Self:
        """With `messages` appended."""
        added = tuple(messages)
        if not all(map(_is_message, added)):
            for index, message in enumerate(added):
                _expect(f"messages[{index}]", message, Message)
        return self._with(messages=joined(self.messages, added))

    def with_iteration(self, n: int | None = None) -> Self:
        """With `n` iterations, by default one more."""
        return self._with(iteration=self.iteration + 1 if n is None else _count("iteration", n))

    def with_tool_execution(
        self, execution: ToolExecution | ToolResult, call: ToolCall | None = None
    ) -> Self:
        """With one more tool execution: as given, or made of a result and the call that it answers."""
        if isinstance(execution, ToolResult):
            execution = _execution(execution, call)
        elif call is not None:
            raise InvalidInput(
                "with_tool_execution() takes a ToolExecution, or a ToolResult and its ToolCall"
            )
        _expect("execution", execution, ToolExecution)
        return self._with(tool_executions=joined(self.tool_executions, (execution,)))

    def with_confidence(self, value: float) -> Self:
        """With that confidence, which is also added to the history."""
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise InvalidInput(f"confidence must be a number from 0 to 1, got {value!r}")
        confidence = float(value)
        return self._with(confidence=confidence, confidence_history=(*self.confidence_history, confidence))

    def with_error(self, error: str) -> Self:
        _expect("error", error, str)
        return self._with(errors=(*self.errors, error))

    def with_metadata(self, metadata: Mapping[str, Any] | None = None, /, **items: Any) -> Self:
        """With these items added to the metadata; an item of the same name is replaced."""
        added = EMPTY if metadata is None else freeze_mapping(metadata)
        return self._with(metadata=FrozenDict({**self.metadata, **added, **freeze_mapping(items)}))

    def with_tokens(self, *, prompt: int = 0, completion: int = 0) -> Self:
        """With that many tokens added to the totals."""
        return self._with(
            prompt_tokens=self.prompt_tokens + _count("prompt", prompt),
            completion_tokens=self.completion_tokens + _count("completion", completion),
        )

    def with_run_id(self, run_id: str) -> Self:
        _expect("run_id", run_id, str)
        return self._with(run_id=run_id)

    def _with(self, **changes: Any) -> Self:
        # Strictly later, also when the clock stands still or runs backwards.
        now, before = _now(), self.updated_at
        changes["updated_at"] = now if now > before else before + _MICROSECOND
        known = self.__pydantic_fields_set__
        fields_set = known if known >= changes.keys() else known | changes.keys()
        return build(type(self), {**self.__dict__, **changes}, fields_set)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AgentState) or type(self) is not type(other):
            return False
        if self is other:
            return True
        if any(self.__dict__[field] != other.__dict__[field] for field in LOGGED_FIELDS):
            return False
        try:
            return encode_head(self) == encode_head(other)
        except InvalidInput:  # not storable, so only == is left
            return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.run_id, self.iteration, len(self.messages), self.updated_at))

    def to_checkpoint(self) -> dict[str, Any]:
        """The state as a plain dict that any JSON library writes; `from_checkpoint` reads it back."""
        document: dict[str, Any] = _parse(encode_head(self))
        for field in ("iteration", "confidence", "prompt_tokens", "completion_tokens"):
            document.setdefault(field, self.__dict__[field])
        for field in LOGGED_FIELDS:
            document[field] = [_parse(encode_element(field, item)) for item in self.__dict__[field]]
        return document

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any]) -> AgentState:
        """The state of a `to_checkpoint` dict of this or any older version of Holdfast."""
        _expect("checkpoint", checkpoint, Mapping)
        for field in LOGGED_FIELDS:
            if not isinstance(checkpoint.get(field, []), list | tuple):
                raise Corrupt(f"{field} is not a list", place=field)
        head = {key: item for key, item in checkpoint.items() if key not in (*LOGGED_FIELDS, *_COMPUTED)}
        return decode_state(
            _print(head),
            {field: [_print(item) for item in checkpoint.get(field, ())] for field in LOGGED_FIELDS},
        )


codec.register(ToolExecution, "holdfast.ToolExecution")
codec.register(AgentState, "holdfast.AgentState")


def _expect(field: str, value: Any, kind: type[Any]) -> None:
    if not isinstance(value, kind):
        raise InvalidInput(f"{field} must be a {kind.__name__}, got {type(value).__name__}")


def _is_message(value: Any) -> bool:
    return isinstance(value, Message)


def _expect_exactly(value: Any, kind: type[Any]) -> None:
    if type(value) is not kind:
        raise InvalidInput(
            f"expected {kind.__name__}, got {type(value).__name__}; fields of your own belong in metadata"
        )


def _count(field: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInput(
            f"{field} must be an integer of at least 0, got {value!r} ({type(value).__name__})"
        )
    return value


def _execution(result: ToolResult, call: ToolCall | None) -> ToolExecution:
    if not isinstance(call, ToolCall):
        raise InvalidInput(f"a ToolResult needs the ToolCall that it answers, got {type(call).__name__}")
    if call.id != result.tool_call_id:
        raise InvalidInput(f"the result answers {result.tool_call_id!r}, not the call {call.id!r}")
    return ToolExecution(
        tool_call_id=call.id,
        name=result.name,
        arguments=call.arguments,
        success=result.success,
        error=result.error,
        duration_ms=result.duration_ms,
    )


# --- the stored form: a small head, and the logged fields element by element ---


def encode_head(state: AgentState) -> str:
    """JSON text of the state without its logged fields. Bad metadata is `InvalidInput` naming its path."""
    if type(state) is not AgentState:
        _expect_exactly(state, AgentState)
    values = state.__dict__
    metadata, iteration, confidence = values["metadata"], values["iteration"], values["confidence"]
    prompt, completion = values["prompt_tokens"], values["completion_tokens"]
    stored = f',"metadata":{codec.dumps(metadata, path="state.metadata")}' if metadata else ""
    if (
        iteration or confidence or prompt or completion
    ):  # else they are left out: a head is stored on every save
        stored = (
            f',"iteration":{iteration},"confidence":{confidence!r},"prompt_tokens":{prompt},'
            f'"completion_tokens":{completion}{stored}'
        )
    begin = _begin_head(values["schema_version"], values["agent_id"], values["run_id"], values["created_at"])
    # As `isoformat` writes a moment in UTC, in half the time: most saves are made in the minute of the one before.
    at = values["updated_at"]
    minute = _iso_minute(at.year, at.month, at.day, at.hour, at.minute)
    return f'{begin},"updated_at":"{minute}{at.second:02}.{at.microsecond:06}+00:00"{stored}}}'


@lru_cache(maxsize=1024)
def _begin_head(schema_version: int, agent_id: str, run_id: str, created_at: datetime) -> str:
    """What doesn't change during a run, and is written again with each of its states."""
    return (
        f'{{"schema_version":{schema_version},"agent_id":{quote(agent_id)},"run_id":{quote(run_id)},'
        f'"created_at":"{created_at.isoformat()}"'
    )


@lru_cache(maxsize=64)
def _iso_minute(*minute: int) -> str:
    return "{:04}-{:02}-{:02}T{:02}:{:02}:".format(*minute)


def encode_element(field: str, element: Any) -> str:
    """JSON text of one element of a logged field."""
    if field == "messages":
        return encode_message(element)
    if field == "tool_executions":
        return _encode_execution(element)
    if field == "confidence_history":
        return repr(float(element))
    if field == "errors":
        return quote(element)
    raise InvalidInput(f"{field!r} is not a logged field; those are {', '.join(LOGGED_FIELDS)}")


def _encode_execution(execution: ToolExecution) -> str:
    _expect_exactly(execution, ToolExecution)
    values = {
        key: value
        for key, value in execution.__dict__.items()
        if value is not None and (key != "arguments" or value)
    }
    if execution.started_at is not None:
        values["started_at"] = execution.started_at.isoformat()
    return codec.dumps(values, path="execution")


def decode_state(
    head_text: str, lists: Mapping[str, Sequence[str]], *, lazily_at: str | None = None
) -> AgentState:
    """The state of a head and its logged elements' texts, upgraded if an older version wrote them.

    Damaged text raises `Corrupt` naming its place; a newer version's text raises `SchemaMismatch`.

    ``lazily_at``: the texts are known to be what was stored there, so long lists are decoded where somebody looks.
    """
    head = codec.loads(head_text, place="state")
    if type(head) is not dict:
        raise Corrupt(f"state is not an object but {type(head).__name__}", place="state")
    version = head.get("schema_version", 1)
    if type(version) is int and version != SCHEMA_VERSION:
        return _decode_upgraded(version, head_text, lists)
    unknown = lists.keys() - set(LOGGED_FIELDS)
    if unknown:
        raise Corrupt(f"state has unknown lists {sorted(unknown)}", place="state")
    logged = {
        field: _decode_list(field, texts, lazily_at) for field in LOGGED_FIELDS if (texts := lists.get(field))
    }
    state = _validated(AgentState, head, "state")
    return build(AgentState, {**state.__dict__, **logged}, set(AgentState.model_fields))


def _decode_list(field: str, texts: Sequence[str], lazily_at: str | None) -> Sequence[Any]:
    if lazily_at is None or field not in _LAZY or len(texts) <= 2 * BLOCK:
        return tuple(_decode_elements(field, texts))

    def decode(some: Sequence[str], start: int) -> Sequence[Any]:
        try:
            return _decode_elements(field, some, start)
        except Corrupt as error:
            place = f"{lazily_at}, {error.place}"
            raise Corrupt(f"{lazily_at}: {error}", place=place) from error

    return LazySequence(texts, decode)


def _decode_elements(field: str, texts: Sequence[str], start: int = 0) -> Sequence[Any]:
    if field == "messages":
        return decode_messages(texts, start=start)
    reader = _READERS[field]
    return [reader(item, field, index) for index, item in enumerate(load_many(texts, field, start), start)]


def _decode_upgraded(version: int, head_text: str, lists: Mapping[str, Sequence[str]]) -> AgentState:
    """The state of another version's texts, as whole documents: an upgrade may move data between fields."""
    if version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"this state has schema version {version}, and this Holdfast reads up to {SCHEMA_VERSION}; "
            "use the newer Holdfast that wrote it"
        )
    document = _parse(head_text)
    for field in LOGGED_FIELDS:
        document[field] = [_parse(text, f"{field}[{i}]") for i, text in enumerate(lists.get(field, ()))]
    while version < SCHEMA_VERSION:
        upgrade = UPGRADES.get(version)
        if upgrade is None:
            raise SchemaMismatch(f"this Holdfast can't upgrade a state of schema version {version}")
        version += 1
        document = {**upgrade(document), "schema_version": version}
    return AgentState.from_checkpoint(document)


def _parse(text: str, place: str = "state") -> Any:
    """JSON as it is written, with the codec's marks left in."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Corrupt(f"{place} can't be read: {error}", place=place) from error


def _print(document: Any) -> str:
    try:
        return json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the checkpoint must be a dict made by to_checkpoint(): {error}") from error


def _validated(cls: type[M], document: Any, place: str) -> M:
    try:
        values = dict(document)
        for key in _MOMENTS & values.keys():
            values[key] = None if values[key] is None else datetime.fromisoformat(values[key])
        return cls.model_validate(values, strict=True)
    except (TypeError, ValueError) as error:
        raise Corrupt(f"{place} is not a stored {cls.__name__}: {error}", place=place) from error


def _read_execution(document: Any, field: str, index: int) -> ToolExecution:
    return _validated(ToolExecution, document, f"{field}[{index}]")


def _read_confidence(value: Any, field: str, index: int) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise Corrupt(f"{field}[{index}] is not a number from 0 to 1: {value!r}", place=f"{field}[{index}]")
    return float(value)


def _read_error(value: Any, field: str, index: int) -> str:
    if type(value) is not str:
        raise Corrupt(f"{field}[{index}] is not text: {value!r}", place=f"{field}[{index}]")
    return value


_MOMENTS: Final = {"created_at", "updated_at", "started_at"}
_READERS: Final[dict[str, Callable[[Any, str, int], Any]]] = {
    "tool_executions": _read_execution,
    "confidence_history": _read_confidence,
    "errors": _read_error,
}

"""What a conversation is made of: messages, tool calls and tool results. All of them are immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic_core import to_json

from holdfast.core import codec
from holdfast.core.errors import Corrupt, InvalidInput
from holdfast.core.frozen import EMPTY, freeze_mapping
from holdfast.core.ids import new_id
from holdfast.core.model import FrozenMap, FrozenModel, build

__all__ = [
    "INVALID_ARGUMENTS",
    "Message",
    "Role",
    "ToolCall",
    "ToolResult",
    "decode_message",
    "decode_messages",
    "encode_message",
]

INVALID_ARGUMENTS: Final = "$invalid_json"
"""The one argument of a tool call whose arguments were not a JSON object: their text, as the model wrote it.

Such a call is stored like any other, and is answered with an error that the model can act on.
"""


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def as_text(content: Any) -> str:
    """`content` as text for a model to read: a string as it is, anything else as JSON. Never fails."""
    if isinstance(content, str):
        return content
    try:
        return codec.dumps(content)
    except InvalidInput:
        return f"{_safe_repr(content)} (repr of a {type(content).__name__}, which has no JSON form)"


def _safe_repr(content: Any) -> str:
    try:
        return repr(content)
    except Exception as error:  # a broken __repr__ must not lose the result of a tool that ran
        return f"<{type(content).__name__}, whose repr raises {type(error).__name__}>"


class ToolCall(FrozenModel):
    """A model's request to run a tool."""

    id: str = Field(default_factory=new_id)
    name: str
    arguments: FrozenMap = Field(default_factory=lambda: EMPTY)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolCall) or type(self) is not type(other):
            return False
        mine, theirs = self.__dict__, other.__dict__
        if type(self) is not ToolCall:  # a subclass's own fields count too
            return _alike(mine, theirs)
        return (
            mine["id"] == theirs["id"]
            and mine["name"] == theirs["name"]
            and _alike(mine["arguments"], theirs["arguments"])
        )

    def __hash__(self) -> int:
        return hash((self.id, self.name))


class ToolResult(FrozenModel):
    """What a tool gave back. Content that is not a string is turned into JSON text."""

    tool_call_id: str
    name: str
    content: Annotated[str, BeforeValidator(as_text)] = ""
    error: str | None = None
    duration_ms: float | None = None

    @property
    def success(self) -> bool:
        return self.error is None


class Message(FrozenModel):
    """One message of a conversation. Equal only to a message that is stored exactly alike."""

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    metadata: FrozenMap = Field(default_factory=lambda: EMPTY)

    @classmethod
    def system(cls, text: str, *, name: str | None = None, metadata: Mapping[str, Any] | None = None) -> Self:
        if name is None and metadata is None and type(text) is str:
            return cls(role=Role.SYSTEM, content=text)
        return cls._make(name, metadata, role=Role.SYSTEM, content=_text(text))

    @classmethod
    def user(cls, text: str, *, name: str | None = None, metadata: Mapping[str, Any] | None = None) -> Self:
        if name is None and metadata is None and type(text) is str:
            return cls(role=Role.USER, content=text)
        return cls._make(name, metadata, role=Role.USER, content=_text(text))

    @classmethod
    def assistant(
        cls,
        text: str | None = None,
        tool_calls: Iterable[ToolCall] | None = None,
        *,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        values: dict[str, Any] = {} if text is None else {"content": _text(text)}
        if tool_calls is not None:
            values["tool_calls"] = _calls(tool_calls)
        return cls._make(name, metadata, role=Role.ASSISTANT, **values)

    @classmethod
    def tool(
        cls, result: ToolResult, *, name: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Self:
        """The message that answers a tool call. An error leads the content and is kept in the metadata."""
        if not isinstance(result, ToolResult):
            raise InvalidInput(f"Message.tool() takes a ToolResult, got {type(result).__name__}")
        content = result.content
        notes = {} if metadata is None else dict(freeze_mapping(metadata))
        if result.error is not None:
            content = f"Error: {result.error}\n\n{content}" if content else f"Error: {result.error}"
            notes["error"] = result.error
        if result.duration_ms is not None:
            notes["duration_ms"] = result.duration_ms
        return cls._make(
            name or result.name,
            notes or None,
            role=Role.TOOL,
            content=content,
            tool_call_id=result.tool_call_id,
        )

    @classmethod
    def _make(cls, name: str | None, metadata: Mapping[str, Any] | None, **values: Any) -> Self:
        if name is not None:
            if not isinstance(name, str):
                raise InvalidInput(f"name must be a string or None, got {type(name).__name__}")
            values["name"] = name
        if metadata is not None:
            values["metadata"] = freeze_mapping(metadata)
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Message) or type(self) is not type(other):
            return False
        mine, theirs = self.__dict__, other.__dict__
        if type(self) is not Message:  # a subclass's own fields count too
            return _alike(mine, theirs)
        return (
            mine["content"] == theirs["content"]
            and mine["role"] is theirs["role"]
            and mine["tool_call_id"] == theirs["tool_call_id"]
            and mine["name"] == theirs["name"]
            and mine["tool_calls"] == theirs["tool_calls"]
            and _alike(mine["metadata"], theirs["metadata"])
        )

    def __hash__(self) -> int:
        return hash((self.role, self.content, self.tool_call_id))


_LIST: Final = TypeAdapter(list[Message])
_ROLES: Final = {role.value: role for role in Role}
_PLAIN_SET: Final = {"role", "content"}

codec.register(Role, "holdfast.Role")
codec.register(ToolCall, "holdfast.ToolCall")
codec.register(ToolResult, "holdfast.ToolResult")
codec.register(Message, "holdfast.Message")


def _alike(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Equal with their types: == alone would take 1 for True."""
    if not a or not b:
        return not a and not b
    try:
        return codec.same(a, b)
    except InvalidInput:  # not storable, so only == is left
        return a == b


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"a message's text must be a string, got {type(text).__name__}; use str(...)")
    return text


def _calls(tool_calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    calls = tuple(tool_calls)
    for index, call in enumerate(calls):
        if not isinstance(call, ToolCall):
            raise InvalidInput(f"tool_calls[{index}] must be a ToolCall, got {type(call).__name__}")
    return calls


# --- the stored form: one compact JSON object a message, only with the fields that say something ---


def encode_message(message: Message) -> str:
    """The message as JSON text. Values that can't be stored raise `InvalidInput` naming their path."""
    if type(message) is not Message:
        raise InvalidInput(
            f"expected a Message, got {type(message).__name__}; a subclass's own fields belong in metadata"
        )
    values = message.__dict__
    content = values["content"]
    text = f'{{"role":"{values["role"]._value_}"'
    if content is not None:
        text += ',"content":' + (to_json(content).decode() if content.isascii() else quote(content))
    if values["tool_calls"]:
        calls = ",".join([_encode_call(call, i) for i, call in enumerate(values["tool_calls"])])
        text += f',"tool_calls":[{calls}]'
    if values["tool_call_id"] is not None:
        text += ',"tool_call_id":' + quote(values["tool_call_id"])
    if values["name"] is not None:
        text += ',"name":' + quote(values["name"])
    if values["metadata"]:
        text += ',"metadata":' + codec.dumps(values["metadata"], path="message.metadata")
    return text + "}"


def _encode_call(call: ToolCall, index: int) -> str:
    text = f'{{"id":{quote(call.id)},"name":{quote(call.name)}'
    if call.arguments:
        text += ',"arguments":' + codec.dumps(call.arguments, path=f"message.tool_calls[{index}].arguments")
    return text + "}"


def quote(text: str) -> str:
    """`text` as the codec writes it, only faster: a JSON string, readable unless it has lone surrogates."""
    if text.isascii() or codec.is_unicode(text):
        return to_json(text).decode()
    return codec.dumps(str(text))


def decode_message(text: str) -> Message:
    """The message that `encode_message` made `text` from, else `Corrupt`."""
    return read_message(codec.loads(text, place="message"), "message")


def decode_messages(texts: Sequence[str], *, place: str = "messages", start: int = 0) -> list[Message]:
    """The messages of many texts, at little more than the cost of parsing them. `Corrupt` names the index, counted
    from ``start``."""
    try:
        messages = _parse_plain("[" + ",".join(texts) + "]") if texts else []
        if len(messages) == len(texts):  # see load_many
            return messages
    except (ValueError, TypeError):
        pass  # typed values, lone surrogates, deep nesting or damage: the careful way tells which
    return [read_message(doc, place, i) for i, doc in enumerate(load_many(texts, place, start), start)]


def _parse_plain(text: str) -> list[Message]:
    """Messages without typed values, parsed and built by pydantic in one pass, else `ValueError`."""
    if codec.has_mark(text):
        raise ValueError("typed values are the codec's to read")
    messages = _LIST.validate_json(text)
    for message in messages:
        for call in message.tool_calls:
            if "id" not in call.model_fields_set:  # it has just been made up
                raise ValueError("a stored tool call has an id")
    return messages


def load_many(texts: Sequence[str], place: str, start: int = 0) -> list[Any]:
    """The values of many codec texts, parsed in one go. `Corrupt` names the index of the bad one, counted from
    ``start``."""
    if not texts:
        return []
    try:
        values = codec.loads("[" + ",".join(texts) + "]")
        # One bad text can't keep the count and parse: it would have to be a valid value by itself.
        if len(values) == len(texts):
            return list(values)
    except (Corrupt, TypeError):
        pass
    return [codec.loads(text, place=f"{place}[{index}]") for index, text in enumerate(texts, start)]


def read_message(document: Any, place: str, index: int | None = None) -> Message:
    """The message of a parsed document, else `Corrupt`. Unknown fields and wrong types are damage."""
    try:
        values: dict[str, Any] = {
            "role": _ROLES[document["role"]],
            "content": document.get("content"),
            "tool_calls": (),
            "tool_call_id": None,
            "name": None,
            "metadata": EMPTY,
        }
        if len(document) == 2 and type(values["content"]) is str:
            return build(Message, values, _PLAIN_SET)
        return _read_rich_message(document, values)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        where = place if index is None else f"{place}[{index}]"
        raise Corrupt(f"{where} is not a message: {error!r}", place=where) from error


def _read_rich_message(document: dict[str, Any], values: dict[str, Any]) -> Message:
    for key, value in document.items():
        if key == "metadata":
            values[key] = freeze_mapping(value)
        elif key == "tool_calls":
            values[key] = tuple([_read_call(call) for call in value])
        elif key not in values:
            raise ValueError(f"unknown field {key!r}")
        elif value is not None and type(value) is not str:
            raise ValueError(f"{key} must be text, not {type(value).__name__}")
        elif key != "role":
            values[key] = value
    return build(Message, values, set(document))


def _read_call(document: Any) -> ToolCall:
    values: dict[str, Any] = {"id": document["id"], "name": document["name"], "arguments": EMPTY}
    texts = type(values["id"]) is str and type(values["name"]) is str
    if not texts or not values.keys() >= document.keys():
        raise ValueError("a tool call has an id, a name and arguments")
    if "arguments" in document:
        values["arguments"] = freeze_mapping(document["arguments"])
    return build(ToolCall, values, {"id", "name", "arguments"})

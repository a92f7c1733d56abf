"""A model without a model: offline, free, always the same answer, and it calls tools when a prompt asks for it."""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.core.errors import InvalidInput
from holdfast.core.frozen import thaw
from holdfast.core.messages import Message, Role, ToolCall
from holdfast.models.base import FinishReason, ModelChunk, ModelResponse, ToolSpec, Usage

__all__ = ["MockModel", "in_words"]

DEFAULT_MODEL: Final = "mock"

# What an agent recalled stands before the prompt, between marks (see holdfast.memory.fence, which is above this layer).
_RECALLED: Final = re.compile(r"<remembered>\n.*\n(?P<lines>(?:- .*\n)*)</remembered>\s*")


class MockModel:
    """A stand-in for a language model: it needs no network, no key and no package.

    The same messages and tools give the same answer. A request or a question that fits a tool calls it, with arguments
    taken from the words of the prompt ("Save a note: Buy milk"); a tool's own name in the prompt always calls it ("call
    add with a=2 and b=3, then lookup with city=Paris"); a standing order of the system prompt ("Whenever the user
    shares a fact, call record_fact") is followed. After the results it says what they were. Anything else is answered
    from what was said before. Usage counts words. It is no judge of anything: use it to run and to test, not to think.
    """

    provider = "mock"

    def __init__(self, model: str = DEFAULT_MODEL, **default_options: Any) -> None:
        self.name = model or DEFAULT_MODEL
        self._defaults = default_options

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> ModelResponse:
        chosen = {**self._defaults, **options}
        digest = _digest(messages, tools or ())
        message = _reply(list(messages), list(tools or ()), chosen, digest)
        finish: FinishReason = "tool_calls" if message.tool_calls else "stop"
        message, cut = _shortened(message, chosen)
        usage = Usage(sum(_count(one) for one in messages), _count(message))
        return ModelResponse(message, usage, "length" if cut else finish, self.name, f"mock_{digest}")

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        for chunk in in_words(await self.complete(messages, tools, **options)):
            yield chunk

    async def aclose(self) -> None:
        """Nothing to close."""

    def __repr__(self) -> str:
        return f"MockModel({self.name!r})"


def in_words(response: ModelResponse) -> Iterator[ModelChunk]:
    """A whole answer as a stream gives it: its text word by word, then the response."""
    for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", response.message.content or ""):
        yield ModelChunk(word)
    yield ModelChunk(response=response)


def _reply(
    messages: list[Message], tools: list[ToolSpec], options: Mapping[str, Any], digest: str
) -> Message:
    from holdfast.models.mock_rules import unfilled, wanted_steps

    asked = max((place for place, one in enumerate(messages) if one.role is Role.USER), default=None)
    turn = messages[asked + 1 :] if asked is not None else messages
    earlier = messages[:asked] if asked is not None else []
    prompt = (messages[asked].content or "") if asked is not None else ""
    if recalled := _RECALLED.match(prompt):  # it tells something and asks for nothing
        prompt = prompt[recalled.end() :]
        from holdfast.models.mock_recall import as_told

        earlier = [*as_told(line.removeprefix("- ") for line in recalled["lines"].splitlines()), *earlier]
    system = "\n".join(one.content or "" for one in messages if one.role is Role.SYSTEM)
    results = [one for one in turn if one.role is Role.TOOL]

    choice = options.get("tool_choice") or "auto"
    offered = [] if choice == "none" else tools
    done = sum(1 for one in turn if one.tool_calls)
    if choice not in {"auto", "none"} and not done:
        return _forced(choice, tools, prompt, system, digest)
    steps = wanted_steps(prompt, offered, system) if prompt and offered else []
    if done < len(steps):
        previous = results[-1].content if results else None
        return _calls([(one.tool, one.text) for one in steps[done]], prompt, previous, digest)

    if (schema := options.get("response_schema")) is not None:
        return Message.assistant(_minimal_json(schema))
    if results:
        return Message.assistant(_report(prompt, results))
    if offered and (short := unfilled(prompt, offered)):
        tool, missing = short
        return Message.assistant(f"To call {tool.name} I need: {', '.join(missing)}.")

    from holdfast.models.mock_recall import converse

    return Message.assistant(converse(prompt, earlier))


def _calls(wanted: Sequence[tuple[ToolSpec, str]], prompt: str, previous: str | None, digest: str) -> Message:
    from holdfast.models.mock_arguments import fill

    made = [
        ToolCall(
            id=f"call_{digest}_{place}",
            name=tool.name,
            arguments=fill(tool, text, prompt=prompt, previous=previous).arguments,
        )
        for place, (tool, text) in enumerate(wanted)
    ]
    return Message.assistant(None, made)


def _forced(choice: str, tools: list[ToolSpec], prompt: str, system: str, digest: str) -> Message:
    """A call that the caller insists on: of one tool by its name, or of any ("required")."""
    from holdfast.models.mock_arguments import fill
    from holdfast.models.mock_rules import wanted_steps
    from holdfast.models.mock_schema import minimal, properties

    among = tools if choice == "required" else [tool for tool in tools if tool.name == choice]
    if not among:
        names = ", ".join(tool.name for tool in tools) or "none"
        raise InvalidInput(f"tool_choice is {choice!r}, but the tools are: {names}")
    steps = wanted_steps(prompt, among, system)
    if steps:
        return _calls([(one.tool, one.text) for one in steps[0]], prompt, None, digest)
    tool = among[0]
    filled = fill(tool, prompt, prompt=prompt)
    known = properties(tool.parameters)
    rest = {name: minimal(known.get(name, {}), tool.parameters) for name in filled.missing}
    return Message.assistant(
        None, [ToolCall(id=f"call_{digest}_0", name=tool.name, arguments={**filled.arguments, **rest})]
    )


def _report(prompt: str, results: Sequence[Message]) -> str:
    """What the tools gave, as an answer. A fact that the user shared is acknowledged first."""
    from holdfast.models.mock_recall import acknowledge
    from holdfast.models.mock_rules import about_user

    said = [acknowledge(prompt)] if about_user(prompt) else []
    return " ".join([*said, *(_result(one) for one in results)])


def _result(message: Message) -> str:
    name, text = message.name or "The tool", (message.content or "").strip()
    error = message.metadata.get("error") or (
        text.removeprefix("Error:") if text.startswith("Error:") else None
    )
    if error:
        return f"{name} failed: {str(error).strip().rstrip('.')}."
    if not text or text == "null":
        return f"{name} is done."
    if " " in text and text[0].isalpha():
        return text if text.endswith((".", "!", "?")) or "\n" in text else f"{text}."
    return f"The result of {name} is {text.rstrip('.')}."


def _minimal_json(schema: Any) -> str:
    from holdfast.models.mock_schema import minimal

    if isinstance(schema, type) and callable(make := getattr(schema, "model_json_schema", None)):
        schema = make()
    if not isinstance(schema, Mapping):
        raise InvalidInput(
            f"response_schema must be a pydantic class or a JSON schema, got {type(schema).__name__}"
        )
    return json.dumps(minimal(schema, schema), ensure_ascii=False)


def _shortened(message: Message, options: Mapping[str, Any]) -> tuple[Message, bool]:
    """The message as ``stop`` and ``max_tokens`` allow, and whether the latter cut it. A word is a token."""
    text = message.content
    if text is None:
        return message, False
    stop = options.get("stop") or ()
    for mark in [stop] if isinstance(stop, str) else stop:
        text = text.partition(mark)[0]
    most = options.get("max_tokens")
    pieces = re.findall(r"\s*\S+", text)
    cut = most is not None and len(pieces) > most
    text = "".join(pieces[:most]) if cut else text
    return (message if text == message.content else Message.assistant(text)), cut


def _count(message: Message) -> int:
    calls = sum(1 + len(json.dumps(thaw(call.arguments)).split()) for call in message.tool_calls)
    return len((message.content or "").split()) + calls


def _digest(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
    """Names the question: the ids of its answer are made of it."""
    seen = hashlib.sha256()
    for message in messages:
        calls = ",".join(call.id for call in message.tool_calls)
        seen.update(
            f"{message.role.value}\0{message.content}\0{message.tool_call_id}\0{calls}\1".encode(
                errors="surrogatepass"
            )
        )
    seen.update("\0".join(tool.name for tool in tools).encode())
    return seen.hexdigest()[:12]

"""Messages as people read them: who speaks, what is said, which tools are called."""

from collections.abc import Sequence
from typing import Any

from holdfast.cli import text
from holdfast.cli.output import Output, Span
from holdfast.core.messages import Message, Role, ToolCall

ROLE_STYLES = {
    Role.SYSTEM: "bold magenta",
    Role.USER: "bold cyan",
    Role.ASSISTANT: "bold green",
    Role.TOOL: "bold yellow",
}


def print_messages(out: Output, messages: Sequence[Message]) -> None:
    """A heading for each message at the margin, its text indented: no text can pass for a heading."""
    for message in messages:
        out.line()
        out.paragraph(heading(message))
        if message.content:
            out.paragraph([(text.escape_lines(message.content).rstrip("\n"), "")], 2)
        for call in message.tool_calls:
            out.paragraph(call_spans(call), 2)
        if message.metadata:
            out.paragraph([(text.pairs(message.metadata), "dim")], 2)


def heading(message: Message) -> list[Span]:
    spans: list[Span] = [(message.role.value, ROLE_STYLES[message.role])]
    if message.name:
        spans.append((f" {text.escape(message.name)}", ""))
    if message.tool_call_id:
        spans.append((f"  answers {text.escape(message.tool_call_id)}", "dim"))
    return spans


def call_spans(call: ToolCall) -> list[Span]:
    return [
        ("→ ", "yellow"),
        (text.escape(call.name), "bold"),
        (f"({_arguments(dict(call.arguments))})", ""),
        (f"  {text.escape(call.id)}", "dim"),
    ]


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{text.escape(name)}={text.to_json(value)}" for name, value in arguments.items())


def short(element: Any) -> str:
    """An element of a growing list on one line: a message, a tool run, a number, an error."""
    if isinstance(element, Message):
        parts = [text.escape(element.content)] if element.content else []
        parts += [
            f"→ {text.escape(call.name)}({_arguments(dict(call.arguments))})" for call in element.tool_calls
        ]
        return f"{element.role.value}: {' '.join(parts)}"
    return text.escape(element) if isinstance(element, str) else text.to_json(element)

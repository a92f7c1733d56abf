"""What a docstring says for a model to read: its summary, and a description of each parameter."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Docs:
    summary: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docs:
    """The docs in a docstring of any common style (Google, NumPy, reST, epydoc). Never fails."""
    text = inspect.cleandoc(text or "")
    if "\n" not in text:  # the usual one-liner needs no parser
        return Docs(text)
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return Docs(_first_paragraph(text))
    parts = [parsed.short_description or ""]
    if not parsed.blank_after_short_description:  # the summary is longer than its first line
        parts.append(_first_paragraph(parsed.long_description or ""))
    return Docs(
        " ".join(part for part in parts if part),
        {param.arg_name: _one_line(param.description) for param in parsed.params if param.description},
    )


def _first_paragraph(text: str) -> str:
    return _one_line(text.partition("\n\n")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())

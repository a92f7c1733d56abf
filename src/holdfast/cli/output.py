"""Where a command's answer goes: a terminal (tables, colour), a pipe (plain lines) or a program (JSON)."""

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.cli import text

if TYPE_CHECKING:
    from holdfast.cli.terminal import Terminal

Span = tuple[str, str]
"""Text that is already safe to print, and its style."""


@dataclass(frozen=True)
class Column:
    """One field of each record. ``title=None``: only for pipes, a terminal has no room for it.

    In a terminal, ``cut`` shows only as much of the text as there is room for, and ``show`` says how to write a value.
    """

    key: str
    title: str | None
    style: str = ""
    right: bool = False
    cut: bool = False
    show: Callable[[Any], str] | None = None


class Output:
    """Prints answers on stdout, and remarks on stderr.

    A pipe gets no header, no box, no colour and nothing cut off: one record a line, fields separated by tabs.
    """

    def __init__(self, *, as_json: bool = False, no_color: bool = False) -> None:
        self.as_json = as_json
        self._terminal: Terminal | None = None
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        if sys.stdout.isatty() and not as_json:
            from holdfast.cli import terminal  # rich is loaded only when it draws something

            dull = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
            self._terminal = terminal.Terminal(color=not dull)

    @property
    def in_terminal(self) -> bool:
        return self._terminal is not None

    def records(self, records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
        """A list: a JSON array, a table, or lines."""
        if self.as_json:
            self.json(list(records))
        elif self._terminal is not None:
            shown = [column for column in columns if column.title is not None]
            rows = [[_shown(column, record[column.key]) for column in shown] for record in records]
            self._terminal.table(rows, shown)
        else:
            for record in records:
                self.line("\t".join(text.cell(record[column.key]) for column in columns))

    def done(self, record: Mapping[str, Any], sentence: str) -> None:
        """What a command did: the record as JSON or as one line, for people the sentence."""
        if self.as_json:
            self.json(record)
        elif self._terminal is not None:
            self._terminal.paragraph([("✓ ", "green"), (text.escape(sentence), "")], 0)
        else:
            self.line("\t".join(text.cell(value) for value in record.values()))

    def json(self, value: Any) -> None:
        encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
        self.line(text.to_json(value, indent=2, ascii_only=encoding != "utf8"))

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Names with values, one a line. Values are safe text."""
        width = max((len(name) for name, _ in facts), default=0)
        for name, value in facts:
            if self._terminal is not None:
                self._terminal.paragraph([(f"{name:<{width}}  ", "dim"), (value, "")], 0, hang=width + 2)
            else:
                self.line(f"{name}\t{value}")

    def paragraph(self, spans: Sequence[Span], indent: int = 0, *, highlight: Sequence[str] = ()) -> None:
        """Running text; words that begin with one of ``highlight`` stand out. In a pipe it is not wrapped."""
        if self._terminal is not None:
            self._terminal.paragraph(spans, indent, highlight=highlight)
            return
        margin = " " * indent
        for line in "".join(part for part, _ in spans).split("\n"):
            self.line(margin + line if line else "")

    def line(self, line: str = "") -> None:
        sys.stdout.write(line + "\n")

    def remark(self, remark: str) -> None:
        """Something beside the answer, on stderr."""
        sys.stderr.write(text.escape(remark) + "\n")


def _shown(column: Column, value: Any) -> Any:
    return value if column.show is None or value is None else column.show(value)

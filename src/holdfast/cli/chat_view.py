"""What a chat shows: answers word by word as they come, tool calls, and what happens beside them."""

import re
import shutil
import sys

from rich.cells import cell_len

from holdfast.agent.events import (
    Event,
    ModelChunkEvent,
    ModelRetryEvent,
    ResumeEvent,
    TerminateEvent,
    ThinkEvent,
    ToolCompleteEvent,
    ToolStartEvent,
)
from holdfast.cli import text
from holdfast.cli.conversation import call_spans
from holdfast.cli.output import Output
from holdfast.core.messages import Message, Role, ToolCall, ToolResult

__all__ = ["Flow", "View", "call_text"]

INDENT = 2
MAX_RESULT = 160
STOPPED = {
    "length": "the answer was cut at the model's token limit",
    "content_filter": "the provider withheld the answer",
    "max_iterations": "stopped: this turn took as many steps as it may",
    "token_budget": "stopped: this turn's tokens are used up",
    "time_budget": "stopped: this turn's time is used up",
    "tool_loop": "stopped: the model kept making the same calls",
}


class Flow:
    """A text that comes in pieces.

    With a width, it is indented and broken between words; a word is held back until it is whole. Without one (in a
    pipe) it goes out as it comes. What a terminal would obey is shown instead.
    """

    def __init__(self, width: int | None = None, indent: int = INDENT) -> None:
        self._width = width
        self._indent = " " * indent
        self._held = ""
        self._spaces = self._word = ""
        self._column = 0
        self._is_too_long = False
        self.is_open = False
        """Whether something was written since the last `end`."""

    def write(self, piece: str) -> None:
        self.is_open = self.is_open or bool(piece)
        piece = self._held + piece
        self._held = "\r" if piece.endswith("\r") else ""  # perhaps the first half of a line's end
        safe = text.escape_lines(piece.removesuffix("\r") if self._held else piece)
        if self._width is None:
            sys.stdout.write(safe)
            self._column = 0 if safe.endswith("\n") else self._column + len(safe)
        else:
            for part in re.findall(r"\n|[^\S\n]+|\S+", safe):
                self._take(part)
        sys.stdout.flush()

    def end(self) -> None:
        """The text is whole: what was held back is written, and its last line ended."""
        if not self.is_open:
            return
        held, self._held = text.escape(self._held), ""
        if self._width is None:
            sys.stdout.write(held)
        else:
            self._take(held)
            self._put_word()
        if self._column:
            sys.stdout.write("\n")
        sys.stdout.flush()
        self._spaces, self._column, self.is_open = "", 0, False

    def _take(self, part: str) -> None:
        if part == "\n":
            self._put_word()
            sys.stdout.write("\n")
            self._spaces, self._column = "", 0
        elif part.isspace():
            self._put_word()
            self._spaces += part.expandtabs(4)
        elif self._is_too_long:
            sys.stdout.write(part)
        else:
            self._word += part
            if cell_len(self._word) > (self._width or 0):  # it fits into no line, so it need not wait
                self._put_word()
                self._is_too_long = True

    def _put_word(self) -> None:
        self._is_too_long = False
        word, self._word = self._word, ""
        if not word:
            return
        assert self._width is not None
        if self._column and self._column + len(self._spaces) + cell_len(word) > self._width:
            sys.stdout.write("\n")
            self._spaces, self._column = "", 0
        lead = self._spaces if self._column else self._indent + self._spaces
        sys.stdout.write(lead + word)
        self._spaces = ""
        self._column += len(lead) + cell_len(word)


class View:
    """Prints a chat: in a terminal for a person; in a pipe answers and tools on stdout, remarks on stderr."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self.flow = Flow()
        self._streamed = self._is_continued = False

    def begin(self, *, is_continued: bool = False) -> None:
        """An answer is about to come; or the rest of it, of which need not be said that it goes on."""
        self.flow = Flow(self._width() if self.out.in_terminal else None)
        self._streamed = False
        self._is_continued = is_continued

    def event(self, event: Event) -> None:
        if isinstance(event, ModelChunkEvent):
            self.flow.write(event.text)
            self._streamed = True
        elif isinstance(event, ThinkEvent):
            if not self._streamed:  # the model gave its answer in one piece
                self.flow.write(event.text)
            self._streamed = False
            self.flow.end()
        elif isinstance(event, ToolStartEvent):
            self.out.paragraph(call_spans(event.call)[:3], self._margin)
        elif isinstance(event, ToolCompleteEvent):
            self._result(event.result, recovered=event.recovered)
        elif isinstance(event, ModelRetryEvent):
            self._streamed = False
            self.note(f"the model broke off and is asked again: {event.error}")
        elif isinstance(event, ResumeEvent) and not self._is_continued:
            self.note(_resumed(event))
        elif isinstance(event, TerminateEvent) and event.reason in STOPPED:
            self.note(STOPPED[event.reason])
        sys.stdout.flush()

    def message(self, message: Message) -> None:
        """A message of before, as it would have been shown."""
        if message.role is Role.USER:
            said = text.escape_lines(message.content or "").rstrip("\n")
            self.out.paragraph([("you  ", "bold cyan"), (said, "dim")], self._margin)
        elif message.role is Role.ASSISTANT and message.content:
            self.out.paragraph([(text.escape_lines(message.content).rstrip("\n"), "dim")], self._margin)

    def note(self, remark: str) -> None:
        """Something beside the conversation."""
        self.flow.end()
        sys.stdout.flush()
        if self.out.in_terminal:
            self.out.paragraph([(text.escape(remark), "dim italic")], self._margin)
        else:
            self.out.remark(remark)

    def error(self, message: str) -> None:
        self.flow.end()
        sys.stdout.flush()
        if self.out.in_terminal:
            self.out.paragraph([("error: ", "bold red"), (text.escape(message), "red")], self._margin)
        else:
            self.out.remark(f"error: {message}")

    def gap(self) -> None:
        """Room between question and answer, where a person reads."""
        if self.out.in_terminal:
            self.out.line()

    @property
    def _margin(self) -> int:
        return INDENT if self.out.in_terminal else 0

    def _width(self) -> int:
        return max(20, shutil.get_terminal_size().columns)

    def _result(self, result: ToolResult, *, recovered: bool) -> None:
        shown = text.escape(result.content if result.success else result.error or "")
        if len(shown) > MAX_RESULT:
            shown = shown[:MAX_RESULT] + " ..."
        mark = ("✓ ", "green") if result.success else ("✗ ", "red")
        before = "  (ran before)" if recovered and result.success else ""
        name = (f"{text.escape(result.name)}: ", "dim")
        self.out.paragraph([mark, name, (shown, ""), (before, "dim")], self._margin)


def call_text(call: ToolCall) -> str:
    """``pay(euros=250)``."""
    return "".join(part for part, _ in call_spans(call)[1:3])


def _resumed(event: ResumeEvent) -> str:
    parts = []
    if event.finished:
        parts.append(f"{text.number(len(event.finished), 'tool call')} had finished")
    if event.repeated:
        parts.append(f"{text.number(len(event.repeated), 'tool call')} may safely run again")
    if event.unknown:
        parts.append(f"the outcome of {text.number(len(event.unknown), 'tool call')} is unknown")
    return "; ".join(["going on with the unfinished turn", *parts])

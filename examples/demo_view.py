"""How the demo looks: colour and word by word in a terminal, plain whole lines in a pipe."""

import asyncio
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from holdfast.agent import (
    Event,
    ModelChunkEvent,
    ResumeEvent,
    Run,
    ThinkEvent,
    ToolCompleteEvent,
    ToolStartEvent,
)
from holdfast.core.messages import Message, Role, ToolCall

STYLES = {Role.USER: "cyan", Role.ASSISTANT: "green", Role.TOOL: "yellow", Role.SYSTEM: "magenta"}
WIDTH, PACE = 100, 0.02
console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


async def play(
    run: Run, prompt: str | None = None, *, then: Callable[[Event], None] = lambda event: None
) -> None:
    """Print a run as it happens; ``then`` is told of each event after it was printed."""
    if prompt:
        speech = Speech(Role.USER)
        for word in re.findall(r"\s*\S+", prompt):
            speech.go_on(word)
        speech.end()
    speech = Speech(Role.ASSISTANT)
    async for event in run:
        if isinstance(event, ModelChunkEvent):
            speech.go_on(event.text)
            await asyncio.sleep(PACE if console.is_terminal else 0)
        elif isinstance(event, ThinkEvent):
            speech.end()
        else:
            show_tool(event)
        then(event)


class Speech:
    """What somebody says. In a terminal, further lines begin under the first word; in a pipe it is one line."""

    def __init__(self, role: Role) -> None:
        self._speaker = Text(f"  {role.value:>9}  ", STYLES[role])
        self._column = 0

    def go_on(self, word: str) -> None:
        if not self._column:
            console.print(self._speaker, end="")
            self._column = len(self._speaker)
        elif console.is_terminal and self._column + len(word) > console.width:
            self._column, word = len(self._speaker), word.lstrip()
            console.print("\n" + " " * self._column, end="")
        self._column += len(word)
        console.print(Text(word), end="", soft_wrap=True)

    def end(self) -> None:
        if self._column:
            console.print()
        self._column = 0


def show_tool(event: Event) -> None:
    if isinstance(event, ToolStartEvent):
        one_line(Text.assemble(("            → ", "dim"), shown(event.call)))
    elif isinstance(event, ToolCompleteEvent):
        result, name = event.result, (f"{event.tool_name}: ", "dim")
        if event.recovered and not result.success:
            told = Text.assemble(name, (f"the model is told: {result.error}", "red"))
            hanging(Text("            ? ", "red"), told)
        else:
            kept = ("  (kept, not run again)", "dim") if event.recovered else ""
            one_line(
                Text.assemble(("            ✓ ", "yellow"), name, (result.content or "", "yellow"), kept)
            )
    elif isinstance(event, ResumeEvent):
        finished, repeated, unknown = len(event.finished), len(event.repeated), len(event.unknown)
        effect(f"{finished} call had finished, {repeated} may run again, {unknown} has an unknown outcome")


def section(title: str, line: str) -> None:
    console.print()
    hanging(Text(f"{title}  ", "bold magenta"), Text(line))


def code(*functions: Callable[..., Any]) -> None:
    """What is about to run: the bodies of these functions; of a tool, all of it."""
    source = "\n".join(map(shown_source, functions))
    if console.is_terminal:
        syntax = Syntax(source, "python", theme="ansi_dark", background_color="default", word_wrap=True)
        console.print(Padding(syntax, (1, 0, 1, 4)))
    else:
        console.print("\n" + textwrap.indent(source, "    ") + "\n", markup=False, soft_wrap=True)


GIVEN_TO = {"build": "agent = ", "work": "run = ", "resume": "run = "}


def shown_source(function: Callable[..., Any]) -> str:
    source = textwrap.dedent(inspect.getsource(function)).strip()
    if source.startswith("@"):
        return source
    body = textwrap.dedent(source.partition(":\n")[2]).strip()
    return GIVEN_TO.get(function.__name__, "") + body.removeprefix("return ")


def shown(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def said(message: Message) -> str:
    return " ".join([message.content or "", *map(shown, message.tool_calls)]).strip()


def one_line(text: Text) -> None:
    console.print(text, overflow="ellipsis", no_wrap=True)


def effect(line: str, style: str = "bold") -> None:
    hanging(Text("    ⇒ ", "dim"), Text(line, style))


def hanging(lead: Text, body: Text) -> None:
    """In a terminal, further lines of the body begin under its first; in a pipe it is one line."""
    if not console.is_terminal:
        console.print(lead + body, soft_wrap=True)
        return
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_row(lead, body)
    console.print(grid)

"""Tools and models as a user's own module would have them: ``--tools tests.cli.chat_tools:TOOLS``.

What must wait, waits for a test: it opens a pipe in the folder ``CHAT_FOLDER``, and goes on when the test does too.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.messages import Message
from holdfast.errors import ModelError
from holdfast.models import ModelChunk, ModelResponse, register_provider
from holdfast.tools import tool


def folder() -> Path:
    return Path(os.environ["CHAT_FOLDER"])


def log(line: str) -> int:
    """Add a line to the log; how often it stands there now."""
    path = folder() / "log"
    with path.open("a") as file:
        file.write(line + "\n")
    return path.read_text().splitlines().count(line)


@tool
def save_note(content: str) -> str:
    """Save a note for later reference."""
    log("save_note")
    return f"Note saved: {content}"


@tool
def brew_tea(cups: int) -> str:
    """Brew cups of tea. Takes its time."""
    log("brew_tea")
    (folder() / "started").write_text("!")  # until somebody reads it
    (folder() / "pipe").read_text()  # until somebody writes into it
    return f"{cups} cups of tea are ready"


@tool(requires_approval=True)
def pay(euros: int, to: str) -> str:
    """Pay somebody."""
    log("pay")
    return f"Paid {euros} euros to {to}"


TOOLS = [save_note, brew_tea, pay]
NOTHING = 42


class Speaker:
    """A model that only streams."""

    provider = "tests"
    name = "speaker"

    async def complete(self, messages: Sequence[Message], tools: Any = None, **options: Any) -> ModelResponse:
        raise AssertionError("a chat streams")


class Storyteller(Speaker):
    """Stops for ever in the middle of its first story; tells the second one to its end."""

    async def stream(
        self, messages: Sequence[Message], tools: Any = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        times = log("story")
        yield ModelChunk("Once upon ")
        if times == 1:
            await asyncio.Event().wait()
        yield ModelChunk("a time.")
        yield ModelChunk(response=ModelResponse(Message.assistant("Once upon a time.")))


class Flaky(Speaker):
    """Fails the first time, then answers in one piece."""

    async def stream(
        self, messages: Sequence[Message], tools: Any = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        if log("asked") == 1:
            raise ModelError("the service is on fire", provider="tests", status=500)
        yield ModelChunk(response=ModelResponse(Message.assistant(f"I heard {len(messages)} messages.")))


class Rude(Speaker):
    """Sends what a terminal would obey."""

    async def stream(
        self, messages: Sequence[Message], tools: Any = None, **options: Any
    ) -> AsyncIterator[ModelChunk]:
        pieces = ["\x1b]0;title\x07", "first\r", "\nsecond\x1b[2J"]
        for piece in pieces:
            yield ModelChunk(piece)
        yield ModelChunk(response=ModelResponse(Message.assistant("".join(pieces))))


def _factory(kind: Callable[[], Any]) -> Callable[..., Any]:
    return lambda name="", **options: kind()


for _kind in (Storyteller, Flaky, Rude):
    register_provider(f"tests-{_kind.__name__.lower()}", _factory(_kind))

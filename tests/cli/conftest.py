"""A small database, and two ways to run the command on it: in this process, and as a process of its own."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.commands import app
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer
from holdfast.models import registry
from holdfast.testing.clock import FrozenClock

COMMAND = [sys.executable, "-m", "holdfast.cli"]


@pytest.fixture(scope="package", autouse=True)
def providers_of_these_tests_alone() -> Iterator[None]:
    """`tests.cli.chat_tools` registers some when a chat imports it; other tests list all that are known."""
    yield
    for name in [name for name in registry._registered if name.startswith("tests-")]:
        del registry._registered[name]


@dataclass
class Database:
    """A file with threads, and the command to look at it."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:{self.path}"

    def run(self, *args: str, input: str | bytes | None = None) -> Result:
        """The command in this process, its output piped."""
        return CliRunner().invoke(app, list(args), input=input, env={"HOLDFAST_DB": self.url})

    def json(self, *args: str) -> Any:
        result = self.run(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def lines(self, *args: str) -> list[list[str]]:
        """The fields of each line of a successful command."""
        result = self.run(*args)
        assert result.exit_code == 0, result.output
        return [line.split("\t") for line in result.stdout.splitlines()]

    def process(self, *args: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """The command as a process of its own."""
        return subprocess.run(
            [*COMMAND, *args], capture_output=True, check=False, env=environment(self.url), **options
        )

    def terminal(self, *args: str, answer: str = "", **variables: str) -> tuple[int, str]:
        """Exit code and output of the command in a terminal, 100 columns wide."""
        main, side = pty.openpty()
        env = environment(self.url, **{"COLUMNS": "100", "TERM": "xterm-256color", **variables})
        child = subprocess.Popen([*COMMAND, *args], stdin=side, stdout=side, stderr=side, env=env)
        os.close(side)
        if answer:
            os.write(main, answer.encode())
        seen = read_all(main)
        os.close(main)
        return child.wait(), seen.replace("\r\n", "\n")


def environment(url: str, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return {**kept, "HOLDFAST_DB": url, **variables}


def read_all(descriptor: int) -> str:
    """Until the other side closes, which Linux reports as an error."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


CALL = ToolCall(id="call-1", name="look_up", arguments={"order": "A-17"})
TURNS = [
    [Message.system("Be helpful."), Message.user("Where is my parcel?")],
    [
        Message.assistant("Let me see.", [CALL]),
        Message.tool(ToolResult(tool_call_id="call-1", name="look_up", content="shipped")),
    ],
    [Message.assistant("It was shipped on Monday.")],
    [Message.user("Thanks!\nAnd the invoice?")],
]


async def fill(path: Path) -> None:
    """`parcel` with four checkpoints c1000 to c4000 a day apart, its fork `other`, and a thread of one user's."""
    clock = FrozenClock()
    async with SQLiteCheckpointer(path, clock=clock) as checkpointer:
        state = AgentState(agent_id="helper", run_id="run-1")
        for number, messages in enumerate(TURNS, 1):
            state = state.with_messages(messages).with_iteration()
            metadata = {"turn": number, "at": clock.now}
            await checkpointer.save(state, "parcel", f"c{number}000", metadata)
            clock.advance(days=1)
        await checkpointer.fork("parcel", "c3000", "other")
        other = await checkpointer.load("other")
        assert other is not None
        answer = (
            other.with_message(Message.assistant("It is lost.")).with_confidence(0.4).with_error("no parcel")
        )
        await checkpointer.save(answer, "other", "d4000")
        await checkpointer.put_writes("other", "d4000", "task", [("messages", {"text": "half done"})])
        await checkpointer.scoped("user-1").save(AgentState(), "parcel", "u1000")


@pytest.fixture
def database(tmp_path: Path) -> Database:
    path = tmp_path / "threads.db"
    asyncio.run(fill(path))
    return Database(path)


async def save_one(path: Path, thread_id: str, message: Message, checkpoint_id: str = "x1000") -> None:
    async with SQLiteCheckpointer(path) as checkpointer:
        await checkpointer.save(
            AgentState().with_message(message), thread_id, checkpoint_id, {"note": thread_id}
        )


@pytest.fixture
def nowhere(tmp_path: Path) -> Database:
    """A database whose file does not exist."""
    return Database(tmp_path / "nowhere.db")

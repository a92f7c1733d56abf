"""`holdfast chat` in a real terminal: a pseudo-terminal that is the process's own, so that Ctrl-C is a key."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Database, environment

ROOT = Path(__file__).resolve().parent.parent.parent
SAFE = "the turn is unfinished, at a safe point"

# The terminal becomes the controlling one of the process that is started in it.
START = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A chat that is typed into. What was read is forgotten once it was waited for."""

    def __init__(self, url: str, folder: Path, *options: str, columns: int = 100) -> None:
        self._main, side = pty.openpty()
        env = environment(url, COLUMNS=str(columns), TERM="xterm", NO_COLOR="1", CHAT_FOLDER=str(folder))
        command = [sys.executable, "-c", START, *COMMAND, "chat", *options]
        self.process = subprocess.Popen(
            [*command, "--tools", "tests.cli.chat_tools:TOOLS"],
            stdin=side,
            stdout=side,
            stderr=side,
            env=env,
            cwd=ROOT,
            start_new_session=True,
        )
        os.close(side)
        self._seen = ""

    def wait_for(self, words: str) -> str:
        """Everything up to these words."""
        assert self._read_until(words, 60), f"no {words!r} within a minute in {self._seen!r}"
        before, _, self._seen = self._seen.partition(words)
        return before + words

    def _read_until(self, words: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while words not in self._seen:
            ready, _, _ = select.select([self._main], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return False
            self._seen += os.read(self._main, 65536).decode(errors="replace").replace("\r\n", "\n")
        return True

    def type(self, line: str, after: str = "chat> ") -> None:
        """A line and Enter, once the prompt is there."""
        self.wait_for(after)
        self.write(f"{line}\r")

    def press(self, key: str) -> None:
        """Ctrl and this key."""
        self.write(chr(ord(key) - 64))

    def press_until(self, key: str, words: str) -> None:
        """Again and again, as a person would: a line editor may miss a signal between two keys of one that types
        faster than any person."""
        for _ in range(60):
            self.press(key)
            if self._read_until(words, 1):
                break
        self.wait_for(words)

    def end(self) -> int:
        """Ctrl-D at the prompt; the exit code."""
        self.wait_for("chat> ")
        self.press("D")
        return self.process.wait(timeout=60)

    def write(self, text: str) -> None:
        os.write(self._main, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(nowhere: Database, tmp_path: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*options: str, columns: int = 100) -> Terminal:
        opened.append(Terminal(nowhere.url, tmp_path, *options, columns=columns))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """What the tool `brew_tea` waits for, after it has told by `started` that it runs."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    os.mkfifo(tmp_path / "started")
    return path


def logged(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_an_answer_is_shown_while_it_is_given_and_ctrl_c_leaves_it(terminal: Open, tmp_path: Path) -> None:
    chat = terminal("--model", "tests-storyteller:")
    chat.type("Tell me a story.")
    chat.wait_for("Once upon")  # the model has stopped here, and will never go on
    chat.press("C")
    chat.wait_for(SAFE)
    chat.type("")
    assert "going on with the unfinished turn" in chat.wait_for("a time.")
    assert chat.end() == 0
    assert logged(tmp_path) == ["story", "story"]


def test_a_chat_that_was_left_in_an_answer_is_resumed_by_the_next_one(terminal: Open) -> None:
    first = terminal("--model", "tests-storyteller:")
    first.type("Tell me a story.")
    first.wait_for("Once upon")
    first.process.kill()
    second = terminal("--model", "tests-storyteller:")
    shown = second.wait_for("a time.")
    assert "Tell me a story." in shown
    assert "going on with the unfinished turn" in shown
    assert second.end() == 0


def test_ctrl_c_waits_for_a_running_tool_and_its_result_is_kept(
    terminal: Open, tmp_path: Path, pipe: Path
) -> None:
    chat = terminal("--model", "mock:")
    chat.type("Brew 3 cups of tea.")
    chat.wait_for("→ brew_tea(cups=3)")
    (tmp_path / "started").read_text()
    chat.press("C")
    chat.wait_for("waiting for the running tool to end")
    pipe.write_text("the water boils")
    shown = chat.wait_for(SAFE)
    assert "✓ brew_tea: 3 cups of tea are ready" in shown
    chat.type("")
    shown = chat.wait_for("chat> ")
    assert "1 tool call had finished" in shown
    assert "3 cups of tea are ready  (ran before)" in shown
    chat.press("D")
    assert chat.process.wait(timeout=60) == 0
    assert logged(tmp_path) == ["brew_tea"]


def test_a_second_ctrl_c_does_not_wait_for_the_tool(terminal: Open, tmp_path: Path, pipe: Path) -> None:
    chat = terminal("--model", "mock:")
    chat.type("Brew 3 cups of tea.")
    chat.wait_for("→ brew_tea(cups=3)")
    (tmp_path / "started").read_text()
    chat.press("C")
    chat.wait_for("Ctrl-C again does not wait")
    chat.press("C")
    chat.wait_for(SAFE)
    chat.type("")
    assert "the outcome of 1 tool call is unknown" in chat.wait_for("✗ brew_tea: the outcome")
    chat.wait_for("chat> ")
    pipe.write_text("for whom?")  # the tool's thread may end
    assert logged(tmp_path) == ["brew_tea"]


def test_ctrl_c_at_the_prompt_drops_the_line_and_keeps_the_chat(terminal: Open) -> None:
    chat = terminal("--model", "mock:")
    chat.wait_for("chat> ")
    chat.write("My name is")
    chat.wait_for("My name is")
    chat.press_until("C", "Ctrl-D or /quit ends the chat")
    chat.type("Hello!")
    chat.wait_for("Hello! How can I help?")
    chat.type("/quit")
    assert chat.process.wait(timeout=60) == 0


def test_a_long_answer_breaks_between_words(terminal: Open) -> None:
    words = "Lisbon is a city of hills and trams and light that people like to remember"
    chat = terminal("--model", "mock:", columns=40)
    chat.type(f"Remember: {words}.")
    chat.wait_for("I'll remember:")
    shown = "I'll remember:" + chat.wait_for("chat> ").removesuffix("chat> ")
    lines = shown.strip().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 40 for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])
    assert " ".join(shown.split()) == f"I'll remember: {words}."


def test_where_the_thread_stands_is_shown_when_it_is_opened(terminal: Open, nowhere: Database) -> None:
    nowhere.run("chat", "--model", "mock:", input="My name is Alice.\n")
    chat = terminal("--model", "mock:")
    shown = chat.wait_for("chat> ")
    assert "mock:mock" in shown
    assert "thread chat: 2 messages" in shown
    assert "My name is Alice." in shown
    assert "Nice to meet you, Alice." in shown

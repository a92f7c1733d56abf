"""Runs the blocks of one page in a folder, in order, as a reader would."""

import contextlib
import doctest
import io
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.cli import main
from tests.docs.markdown import ROOT, Block, name_of

_EXIT = re.compile(r"#\s*exit (\d+)\s*$")
_DATABASE = re.compile(r"-- in (\S+)\n")
_FLAGS = doctest.ELLIPSIS


class Page:
    """One namespace for all its Python. Failures name the page and the line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.kind == "python":
                self._python(block)
            elif block.kind in ("sh", "console"):
                self._shell(block)
            elif block.kind == "sql":
                self._sql(block)
        if block.output is not None:
            self._compare(block, printed.getvalue())

    def _place(self, line: int) -> str:
        return f"{name_of(self._path)}:{line}"

    def _python(self, block: Block) -> None:
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif "no-run" in block.options:
            reason = block.text.partition("\n")[0]
            assert re.match(r"# .*\w+ \w+", reason), (
                f"{self._place(block.line)}: say in a comment why it is not run"
            )
        else:
            # Lines are counted from the top of the page, so that a traceback points there.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(self._path), "exec"), self._names)

    def _shell(self, block: Block) -> None:
        for number, line in enumerate(block.text.splitlines(), start=block.line):
            command = line if block.kind == "sh" else line.removeprefix("$ ") if line.startswith("$ ") else ""
            words = shlex.split(command, comments=True)
            if not words:
                continue
            found = _EXIT.search(line)
            expected = int(found[1]) if found else 0
            code = self._command(words, expected)
            assert code == expected, f"{self._place(number)}: {line!r} exits with {code}, not {expected}"

    def _command(self, words: list[str], expected: int) -> int:
        if words[0] == "printf" and words[2:3] == ["|"]:
            with typed(words[1].replace("\\n", "\n")):
                return self._command(words[3:], expected)
        program, *arguments = words
        if program == "holdfast":
            return holdfast([os.path.expandvars(argument) for argument in arguments])
        if program == "python" and arguments[0].endswith(".py"):
            return python(arguments)
        if program == "make":
            assert arguments[0] in make_targets(), f"make {arguments[0]}: there is no such target"
        elif words[:2] == ["pip", "install"]:
            check_requirement(arguments[1])
        elif program == "export":
            check_variable(arguments[0].partition("=")[0])
        elif words[1:2] == ["-m"]:
            assert find_spec(words[2]), f"{program} -m {words[2]}: there is no such module"
        else:
            raise AssertionError(f"{' '.join(words)}: nobody runs or checks this command")
        return expected

    def _sql(self, block: Block) -> None:
        named = _DATABASE.match(block.text)
        assert named, f"{self._place(block.line)}: the first line says '-- in DATABASE'"
        with contextlib.closing(sqlite3.connect(f"file:{named[1]}?mode=ro", uri=True)) as connection:
            for statement in block.text.split(";\n"):
                for row in connection.execute(statement):
                    print(*["" if value is None else value for value in row], sep="|")

    def _compare(self, block: Block, printed: str) -> None:
        expected = block.output or ""
        if not doctest.OutputChecker().check_output(expected, printed, _FLAGS):
            raise AssertionError(f"{self._place(block.line)} should print\n{expected}\nand prints\n{printed}")


def holdfast(arguments: list[str]) -> int:
    """The command line in this process; its remarks are not part of the output."""
    remarks = io.StringIO()
    try:
        with contextlib.redirect_stderr(remarks):
            main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


@contextlib.contextmanager
def typed(text: str) -> Iterator[None]:
    """What is on stdin meanwhile."""
    before, sys.stdin = sys.stdin, io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before


def python(arguments: list[str]) -> int:
    """A script in a process of its own; a signal's number as a shell tells it."""
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def check_variable(name: str) -> None:
    """What a page says to set is read somewhere."""
    files = (path for place in ("src", "examples") for path in (ROOT / place).rglob("*.py"))
    sources = (path.read_text(encoding="utf-8") for path in files)
    assert any(name in source for source in sources), f"export {name}: nothing reads it"


def check_requirement(requirement: str) -> None:
    """What a page says to install is this project, with extras that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = re.fullmatch(r"holdfast(?:\[([\w,]+)\])?", requirement)
    assert found, f"pip install {requirement}: not this project"
    unknown = set(filter(None, (found[1] or "").split(","))) - set(project["optional-dependencies"])
    assert not unknown, f"pip install {requirement}: no extra {sorted(unknown)}"

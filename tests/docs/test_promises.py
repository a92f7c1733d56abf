"""Every promise names tests that exist, or says that it is open."""

import re
from dataclasses import dataclass
from importlib import import_module
from inspect import isfunction

import pytest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "promises.md"

_PLACE = re.compile(r"Place: `([^`]+)`")
_SPAN = re.compile(r"`([^`]*\btest_\w+)`")
_HEADER = ("promise", "proof")


@dataclass(frozen=True)
class Promise:
    text: str
    proof: str
    tests: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        return self.proof.startswith("*open*")


def promises(page: str) -> list[Promise]:
    """The rows of all tables. A bare name is a test at the place of its section."""
    found: list[Promise] = []
    place = ""
    for line in page.splitlines():
        if line.startswith("## "):
            place = ""
        elif named := _PLACE.fullmatch(line):
            place = named[1]
        elif line.startswith("| ") and not line.startswith("|---"):
            text, proof = (cell.strip() for cell in line.strip("|").rsplit(" | ", 1))
            if (text, proof) != _HEADER:
                tests = [name if "::" in name else f"{place}::{name}" for name in _SPAN.findall(proof)]
                found.append(Promise(text, proof, tuple(tests)))
    return found


def exists(name: str) -> bool:
    """Whether pytest would run a test of that name."""
    file, *path = name.split("::")
    if not (ROOT / file).is_file():
        return False
    found: object = import_module(file.removesuffix(".py").replace("/", "."))
    for part, prefix in zip(path, [*["Test"] * (len(path) - 1), "test_"], strict=True):
        if not part.startswith(prefix):
            return False
        found = getattr(found, part, None)
    return isfunction(found)


def missing(promise: Promise) -> list[str]:
    return [name for name in promise.tests if not exists(name)]


def test_every_named_test_exists() -> None:
    listed = promises(PAGE.read_text("utf-8"))
    assert len(listed) > 80
    assert {promise.text: missing(promise) for promise in listed if missing(promise)} == {}


def test_every_promise_has_a_test_or_is_open() -> None:
    listed = promises(PAGE.read_text("utf-8"))
    assert [promise.text for promise in listed if not promise.tests and not promise.is_open] == []
    assert [promise.text for promise in listed if promise.tests and promise.is_open] == []


@pytest.mark.parametrize(
    ("row", "tests", "is_open"),
    [
        ("| a | `test_x`, `tests/b.py::test_y` |", ("tests/a.py::test_x", "tests/b.py::test_y"), False),
        ("| a `code` b | `test_x` |", ("tests/a.py::test_x",), False),
        ("| a | *open*: why |", (), True),
    ],
)
def test_rows_are_understood(row: str, tests: tuple[str, ...], is_open: bool) -> None:
    page = f"## Section\n\nPlace: `tests/a.py`\n\n| promise | proof |\n|---|---|\n{row}\n"
    (found,) = promises(page)
    assert (found.tests, found.is_open) == (tests, is_open)


@pytest.mark.parametrize(
    "name",
    [
        "tests/docs/test_promises.py::test_of_nothing",
        "tests/docs/test_nothing.py::test_every_named_test_exists",
        "tests/docs/test_promises.py::TestNothing::test_every_named_test_exists",
        "tests/docs/test_promises.py::Promise::test_is_open",
    ],
)
def test_a_test_that_does_not_exist_is_told(name: str) -> None:
    (found,) = promises(f"| a | `{name}` |")
    assert missing(found) == [name]

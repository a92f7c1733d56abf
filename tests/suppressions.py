"""Finds where the code asks a tool to look away: `type: ignore`, `noqa`, skip, xfail, fewer examples.

The test run prints the list and fails on an entry without a reason on its line. Comments are read as tokens
and calls as syntax, so that text which only mentions one of them is not an entry.
"""

import ast
import contextlib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("src", "tests", "benchmarks", "examples")

# Hypothesis runs this many examples when nothing is said; asking for fewer needs a reason.
DEFAULT_EXAMPLES = 100

_CODES = r"[A-Za-z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*"
_COMMENTS = {
    "type: ignore": re.compile(r"#\s*type:\s*ignore(?:\[[^\]]*\])?"),
    "noqa": re.compile(rf"#\s*(?:ruff:\s*|flake8:\s*)?noqa(?::\s*{_CODES})?", re.IGNORECASE),
}
# A file without any of these words has no entry, and need not be parsed.
_WORDS = re.compile(r"ignore|noqa|skip|xfail|max_examples", re.IGNORECASE)
_SKIPS = frozenset({"skip", "skipif", "skipIf", "skipUnless", "skipTest", "xfail", "importorskip"})
_OWNERS = frozenset({"pytest", "mark", "unittest", "self"})


@dataclass(frozen=True, order=True)
class Suppression:
    """One place; `reason` is empty when none is given."""

    path: str
    line: int
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.reason or '(no reason)'}"


def find_suppressions(root: Path = ROOT, places: Iterable[str] = PLACES) -> list[Suppression]:
    """Every suppression in the Python files below the places, in order of path and line.

    A file that does not parse is left to the checks that say so better.
    """
    found: set[Suppression] = set()
    for place in places:
        for file in (root / place).rglob("*.py"):
            source = file.read_text(encoding="utf-8")
            if _WORDS.search(source):
                with contextlib.suppress(SyntaxError, tokenize.TokenError):
                    found.update(scan(source, file.relative_to(root).as_posix()))
    return sorted(found)


def scan(source: str, path: str = "<source>") -> Iterator[Suppression]:
    """The suppressions in one file's text. Raises SyntaxError for text that is not Python."""
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for line, comment in comments.items():
        for kind, pattern in _COMMENTS.items():
            if pattern.search(comment):
                yield Suppression(path, line, kind, _reason_beside(comment))
    tree = ast.parse(source, path)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    # In `pytest.skip.Exception` nothing is skipped: the inner attribute only leads to another.
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and _is_skip(node):
            reason = _reason_of_call(node.attr, called.get(id(node)))
            yield Suppression(path, node.lineno, node.attr, reason or _comment_text(comments, node.lineno))
        elif isinstance(node, ast.keyword) and _lowers_examples(node):
            kind = f"max_examples={ast.unparse(node.value)}"
            yield Suppression(path, node.lineno, kind, _comment_text(comments, node.lineno))


def _reason_beside(comment: str) -> str:
    """What a comment says once its directives are taken out."""
    for pattern in _COMMENTS.values():
        comment = pattern.sub(" ", comment)
    return _words(comment)


def _comment_text(comments: dict[int, str], line: int) -> str:
    return _reason_beside(comments.get(line, ""))


def _words(text: str) -> str:
    """The text without decoration; empty if it holds no word."""
    text = " ".join(text.strip(" #-:;,.\t\u2013\u2014").split())
    return text if re.search(r"[^\W\d_]{2}", text) else ""


def _is_skip(node: ast.Attribute) -> bool:
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return node.attr in _SKIPS and name in _OWNERS


def _reason_of_call(name: str, call: ast.Call | None) -> str:
    """The reason that a skip is called with: its keyword, or its text argument where it has one."""
    if call is None:
        return ""
    stated = [keyword.value for keyword in call.keywords if keyword.arg in {"reason", "msg"}]
    if not stated and name in {"skip", "skipTest"}:
        stated = call.args[:1]
    if not stated and name in {"skipIf", "skipUnless"}:
        stated = call.args[1:2]
    if not stated and name == "xfail" and not _is_mark(call):
        stated = call.args[:1]
    if not stated:
        return ""
    value = stated[0]
    if isinstance(value, ast.Constant):
        return _words(value.value) if isinstance(value.value, str) else ""
    return ast.unparse(value)


def _is_mark(call: ast.Call) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Attribute) and owner.attr == "mark"


def _lowers_examples(node: ast.keyword) -> bool:
    value = node.value
    return (
        node.arg == "max_examples"
        and isinstance(value, ast.Constant)
        and isinstance(value.value, int)
        and value.value < DEFAULT_EXAMPLES
    )

"""Our Markdown, read closely enough to run it: fenced blocks, headings and links.

A block's first word says what it is:

======================  ===================================================================================
``python``              is run, after the blocks before it in the same file
``python file=NAME``    is written to that file
``python no-run``       is not run; its first line is a comment that says why
``sh``                  one command a line; ``# exit N`` after one says how it ends. ``holdfast``, scripts and
                        ``printf ... | holdfast`` are run; of ``make``, ``pip install``, ``export`` and ``-m`` it
                        is checked that what they name exists
``console``             lines after ``$`` are commands as in ``sh``; what they print is not compared
``sql``                 is run on the database that its first line names: ``-- in NAME``
``text``                right after one of these: what it prints, with ``...`` for what varies
======================  ===================================================================================
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^(`{3,})(.*)$")
_SPAN = re.compile(r"`+[^`]*`+")
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#* *$")


@dataclass(frozen=True)
class Block:
    """A fenced block. ``line`` is that of its first line of text; ``output`` is the ``text`` block behind it."""

    kind: str
    options: tuple[str, ...]
    text: str
    line: int
    output: str | None = None

    @property
    def file(self) -> str | None:
        return next((o.removeprefix("file=") for o in self.options if o.startswith("file=")), None)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """The fenced blocks in order; a ``text`` block that follows another at once is that one's output."""
    found: list[Block] = []
    joined = False
    for block, adjacent in _fenced(text.splitlines()):
        if block.kind == "text" and adjacent and found and not joined:
            last = found.pop()
            found.append(Block(last.kind, last.options, last.text, last.line, block.text))
            joined = True
        else:
            found.append(block)
            joined = False
    return found


def _fenced(lines: list[str]) -> Iterator[tuple[Block, bool]]:
    """Each block, and whether only blank lines lie between it and the one before."""
    opened: tuple[str, str, int] | None = None
    body: list[str] = []
    adjacent = False
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, body = (fence[1], fence[2], number + 1), []
            elif line.strip():
                adjacent = False
        elif fence and fence[1] == opened[0] and not fence[2]:
            kind, *options = opened[1].split() or [""]
            yield Block(kind, tuple(options), "\n".join(body) + "\n", opened[2]), adjacent
            opened, adjacent = None, True
        else:
            body.append(line)
    if opened is not None:
        raise ValueError(f"the block that begins in line {opened[2] - 1} has no end")


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    kept: list[str] = []
    fence: str | None = None
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence is None and not found:
            kept.append(line)
        elif fence is None and found:
            fence = found[1]
        elif found and found[1] == fence and not found[2]:
            fence = None
    return "\n".join(kept)


def links(text: str) -> list[str]:
    """Targets of links and pictures, those in code left out."""
    return [found[1] for found in _LINK.finditer(_SPAN.sub("", prose(text)))]


def anchors(text: str) -> set[str]:
    """What the headings can be linked to by, as common renderers name them."""
    titles = [found[1] for line in prose(text).splitlines() if (found := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

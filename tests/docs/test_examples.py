"""Every example runs as printed and prints what it says; every link leads somewhere."""

from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT, anchors, blocks, links, name_of
from tests.docs.running import Page

RUNNABLE = {"python", "sh", "console", "sql"}
CHECKED = {*RUNNABLE, "text", "json", "mermaid", "toml"}


def runnable_pages() -> list[Path]:
    return [
        page for page in PAGES if any(block.kind in RUNNABLE for block in blocks(page.read_text("utf-8")))
    ]


@pytest.mark.parametrize("page", runnable_pages(), ids=name_of)
def test_every_example_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DB", raising=False)
    example = Page(page)
    for block in blocks(page.read_text("utf-8")):
        example.run(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    kinds = {block.kind for block in blocks(page.read_text("utf-8"))}
    assert kinds <= CHECKED, "a block of another kind would be neither run nor compared"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page.read_text("utf-8")):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = page if not target else (page.parent / target).resolve()
        if not path.exists() or (anchor and anchor not in anchors(path.read_text("utf-8"))):
            broken.append(link)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        waiting += [
            (page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text("utf-8"))
        ]
    assert [name_of(page) for page in PAGES if page not in seen] == []


def test_the_readme_shows_code_before_line_30() -> None:
    first = next(block for block in blocks((ROOT / "README.md").read_text("utf-8")) if block.kind == "python")
    assert first.line < 30
    assert "no-run" not in first.options

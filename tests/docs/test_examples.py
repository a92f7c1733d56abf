"""Every example runs as printed and prints what it says; every link leads somewhere."""

import os
import socket
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from holdfast.models import registry
from tests.docs.markdown import PAGES, ROOT, anchors, blocks, links, name_of
from tests.docs.running import Page
from tests.docs.services import Services

RUNNABLE = {"python", "sh", "console", "sql"}
CHECKED = {*RUNNABLE, "text", "json", "mermaid", "toml"}


def runnable_pages() -> list[Path]:
    return [
        page for page in PAGES if any(block.kind in RUNNABLE for block in blocks(page.read_text("utf-8")))
    ]


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with Services() as running:
        yield running


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Places beyond this machine that were asked for. None is reached."""
    tried: list[object] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def check(host: object) -> None:
        if host not in ("127.0.0.1", "::1", "localhost", None, ""):
            tried.append(host)
            raise OSError(f"an example asked for {host!r}: examples use no network")

    def checked_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            check(address[0])
        connect(self, address)

    def checked_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        check(host.decode() if isinstance(host, bytes) else host)
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", checked_connect)
    monkeypatch.setattr(socket, "getaddrinfo", checked_look_up)
    return tried


@contextmanager
def reader(page: Path, folder: Path, services: Services) -> Iterator[None]:
    """The working folder and the environment of who reads a page: no keys, except on the pages about providers. What
    a page sets or registers is gone after it."""
    found = services.environment(folder)
    with chdir(folder), patch.dict(os.environ), patch.dict(registry._registered):
        for name in [*os.environ]:
            if name.startswith("HOLDFAST_") or name in found or name.endswith(("_API_KEY", "_AUTH_TOKEN")):
                del os.environ[name]
        if page.name.startswith("model-"):
            os.environ.update(found)
        yield


@pytest.mark.parametrize("page", runnable_pages(), ids=name_of)
def test_every_example_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, services: Services, outside: list[object], request: pytest.FixtureRequest
) -> None:
    with reader(page, tmp_path, services):
        if page.name.startswith(("postgres", "from-one-file")):
            os.environ["DATABASE_URL"] = request.getfixturevalue("postgres").url
        elif page.name.startswith("mysql"):
            os.environ["DATABASE_URL"] = request.getfixturevalue("mariadb").url
        example = Page(page)
        for block in blocks(page.read_text("utf-8")):
            example.run(block)
    assert outside == []


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1"])
def test_an_example_that_reaches_for_the_network_is_told(host: str, outside: list[object]) -> None:
    with pytest.raises(OSError, match="use no network"):
        socket.create_connection((host, 80), timeout=1)
    assert outside == [host]


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

"""The reader of our pages finds what it is for: a page that is wrong fails."""

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchors, blocks, links
from tests.docs.running import Page, check_requirement, make_targets

TEXT = """
# A title, with `code`

[one](a.md), `[not](this.md)`, ![picture](p.svg), [there](b.md#some-place)

```python
print(1)
```

```text
1
```

Prose.

```text
alone
```

```python file=x.py
[no](link.md)
```
"""


def page_with(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    page = Page(ROOT / "README.md")
    for block in blocks(text):
        page.run(block)


def test_blocks_have_a_kind_options_a_line_and_their_output() -> None:
    first, alone, file = blocks(TEXT)
    assert (first.kind, first.text, first.line, first.output) == ("python", "print(1)\n", 7, "1\n")
    assert (alone.kind, alone.output) == ("text", None)
    assert file.file == "x.py"


def test_a_block_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1"):
        blocks("```python\nx = 1\n")


def test_links_and_headings_are_found_outside_code_only() -> None:
    assert links(TEXT) == ["a.md", "p.svg", "b.md#some-place"]
    assert anchors(TEXT) == {"a-title-with-code"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```", "should print"),
        ("```python no-run\nx = 1\n```", "why it is not run"),
        ("```sh\nholdfast show nobody\n```", "exits with 1, not 0"),
        ("```sh\nholdfast flyaway  # exit 0\n```", "exits with 2, not 0"),
        ("```sh\nmake tea\n```", "no such target"),
        ("```console\n$ make tea\nmake: done\n```", "no such target"),
        ("```sh\npip install 'holdfast[tea]'\n```", "no extra"),
        ("```sh\npip install teapot\n```", "not this project"),
        ("```python file=x.py\nraise SystemExit(3)\n```\n```sh\npython x.py\n```", "exits with 3, not 0"),
        ("```sql\nSELECT 1;\n```", "-- in DATABASE"),
        ("```sh\nexport HOLDFAST_TEAPOT=1\n```", "nothing reads it"),
        ("```sh\npython -m teapot\n```", "no such module"),
        ("```sh\nbrew tea\n```", "nobody runs or checks"),
        ("```console\n$ printf '/nothing\\n' | holdfast show nobody\n```", "exits with 1, not 0"),
    ],
)
def test_an_example_that_is_wrong_fails(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        page_with(text, tmp_path, monkeypatch)


def test_an_error_in_an_example_points_to_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        page_with("\n\n```python\nx = 1\nx / 0\n```", tmp_path, monkeypatch)
    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_what_varies_may_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_with("```python\nprint('id 42 is new')\n```\n```text\nid ... is new\n```", tmp_path, monkeypatch)


def test_what_readers_are_told_to_type_exists() -> None:
    assert {"setup", "test", "demo", "format"} <= make_targets()
    check_requirement("holdfast[cli,vectors]")

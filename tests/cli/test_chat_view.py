"""Text that comes in pieces: safe to print, broken between words, the same however it was cut."""

import pytest

from holdfast.cli.chat_view import Flow

TEXT = (
    "Lisbon is a city of hills,\r\nand of   trams.\n\n    an_indented_line()\n\tand a tab\r\n"
    "https://example.org/a/very/long/address/that/fits/nowhere 日本語日本語日本語 end\x1b[2J\r"
)


def shown(capsys: pytest.CaptureFixture[str], size: int, width: int | None) -> str:
    flow = Flow(width)
    for start in range(0, len(TEXT), size):
        flow.write(TEXT[start : start + size])
    flow.end()
    return capsys.readouterr().out


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [None, 24])
def test_it_does_not_matter_where_the_pieces_are_cut(
    capsys: pytest.CaptureFixture[str], size: int, width: int | None
) -> None:
    assert shown(capsys, size, width) == shown(capsys, len(TEXT), width)


def test_in_a_pipe_the_text_is_as_it_was_with_lines_ended_and_controls_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = TEXT.replace("\r\n", "\n").replace("\x1b", "\\x1b").replace("\r", "\\r") + "\n"
    assert shown(capsys, 5, None) == expected


def test_in_a_terminal_lines_are_indented_and_broken_between_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(capsys, 5, 24).splitlines() == [
        "  Lisbon is a city of",
        "  hills,",
        "  and of   trams.",
        "",
        "      an_indented_line()",
        "      and a tab",
        "  https://example.org/a/very/long/address/that/fits/nowhere",
        "  日本語日本語日本語",
        "  end\\x1b[2J\\r",
    ]


def test_nothing_is_printed_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(40)
    flow.write("")
    flow.end()
    assert capsys.readouterr().out == ""

"""`make bench-recall` reads what the data is like, says how much is found, and names what is wrong with a file."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall import main
from benchmarks.recall_data import generate

BARE: list[dict[str, Any]] = [
    {
        "turns": [
            {"id": "a", "text": "The tea is green."},
            {"id": "b", "text": "Coffee for me."},
            {"id": "c", "text": "It rains in Oslo."},
        ],
        "questions": [
            {"question": "Which tea is it?", "evidence": ["a"]},
            {"question": "Where does it rain, and who drinks coffee?", "evidence": ["b", "nobody"]},
            {"question": "What is not there?", "evidence": ["a"], "category": "adversarial"},
        ],
    }
]


def written(folder: Path, data: object) -> str:
    path = folder / "conversations.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return str(path)


def test_a_file_without_dates_speakers_sessions_and_categories_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, BARE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["recall@10", "all", "overall"]
    assert "without context" in "\n".join(lines)
    assert re.match(r"CPU of a question, 0, 3 memories: .* x$", lines[-2])
    assert lines[-1] == "overall recall@10 75.0"  # all of the first, half of the second


def test_times_with_and_without_a_zone_and_sessions_of_any_name_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = deepcopy(BARE)
    for turn, when, session in zip(
        data[0]["turns"],
        ["2024-05-03T10:00:00", "2024-05-04T10:00:00+02:00", None],
        [1, "x", None],
        strict=True,
    ):
        turn |= {"when": when, "session": session, "speaker": "Alice"}
    assert main([written(tmp_path, data), "--brief"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "overall recall@10 75.0"


def test_each_kind_of_our_own_data_is_a_column_and_a_file_of_it_gives_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--brief"]) == 0
    own = capsys.readouterr().out
    assert own.splitlines()[0].split()[1:] == ["assistant", "diary", "notes", "people", "tickets", "overall"]
    assert main([written(tmp_path, generate()), "--brief"]) == 0
    assert capsys.readouterr().out == own


def _without(place: dict[str, Any], name: str) -> None:
    del place[name]


WRONG: dict[str, Callable[[Any], None]] = {
    "[0].turns[1].text must be a string, got int": lambda c: c["turns"][1].update(text=5),
    "[0].turns[2].id is missing": lambda c: _without(c["turns"][2], "id"),
    "[0].turns[0].when must be a time as 2024-05-03T10:00:00, got 'May'": lambda c: c["turns"][0].update(
        when="May"
    ),
    "[0].turns[0].session must be a number, a string or null, got list": lambda c: c["turns"][0].update(
        session=[]
    ),
    "[0].turns[0].speaker must be a string, got int": lambda c: c["turns"][0].update(speaker=1),
    "[0].turns must have different ids, 'a' is there twice": lambda c: c["turns"][2].update(id="a"),
    "[0].turns must be a list, got dict": lambda c: c.update(turns={}),
    "[0].turns must not be empty": lambda c: c.update(turns=[]),
    "[0].questions is missing": lambda c: _without(c, "questions"),
    "[0].questions[0].evidence[0] must be the id of a turn": lambda c: c["questions"][0].update(evidence=[7]),
    "has no question that counts": lambda c: c.update(questions=[]),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_file_is_named_by_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], message: str
) -> None:
    data = deepcopy(BARE)
    WRONG[message](data[0])
    with pytest.raises(SystemExit) as refused:
        main([written(tmp_path, data)])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ('{"turns": []}', "the file must be a list"), (None, "can't be read")],
)
def test_what_is_no_such_file_at_all_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    path = tmp_path / "file.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit):
        main([str(path)])
    assert message in capsys.readouterr().err

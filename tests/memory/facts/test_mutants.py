"""The stories bite: broken versions of the fold answer some of them wrongly."""

from typing import Any

import pytest

from holdfast.memory.facts import fold, timeline, words
from tests.memory.facts.stories import STORIES
from tests.memory.facts.story import Story, wrong

Patch = tuple[Any, str, Any]


def _forever(live: Any) -> dict[str, Any]:
    return {}


MUTANTS: dict[str, tuple[Patch, set[str]]] = {
    "the last to arrive wins": (
        (timeline, "_moment", lambda c: c.recorded_at),
        {"late news between two homes"},
    ),
    "a doubt overturns": ((timeline, "WEAK", 0.0), {"a weak contradiction"}),
    "nothing overturns a sure fact": ((timeline, "WEAK", 2.0), {"a move"}),
    "repeating does not help": (
        (timeline.Run, "confidence", property(lambda run: max(run.said.values()))),
        {"two sources outweigh a surer one", "a doubt that is confirmed"},
    ),
    "a stay ends what it covers": (
        (timeline._Sweep, "_resume", lambda *args: None),
        {"a year abroad", "a trip within a stay"},
    ),
    "what is covered always comes back": (
        (timeline._Sweep, "_resume", lambda self, run, moment, rivals: self.open.append(run.again(moment))),
        {"a rumour during a stay is newer than what was before it"},
    ),
    "the later word does not count": (
        (timeline, "_strength", lambda run: (run.confidence, run.object)),
        {"two of the same time, as sure: the later word"},
    ),
    "an end without a beginning is missed": (
        (timeline._Sweep, "_hear_end", lambda *args: None),
        {"quitting does not bring the job before back", "a like that ends", "only an end is told"},
    ),
    "an undo can't be undone": (
        (fold, "_undone", lambda targets: set(targets.values())),
        {"undone, and that undone, and that undone"},
    ),
    "retractions are missed": (
        (fold, "retractions", _forever),
        {"a retracted move", "an alias that was wrong"},
    ),
    "declarations are missed": (
        (fold, "_declared", _forever),
        {"an unknown predicate that is declared to have one", "a usual one that is declared to have many"},
    ),
    "all have one value": ((fold, "usual", lambda predicate: "one"), {"many likes"}),
    "all have many values": ((fold, "usual", lambda predicate: "many"), {"a move", "a favourite is one"}),
    "names are missed": ((fold, "NAMES", frozenset()), {"the user has a name", "the name is learned later"}),
    "aliases are missed": ((fold, "SAME", frozenset()), {"an alias", "aliases in a chain"}),
    "all who share a name are one": (
        (fold, "USER", "friend"),
        {"a friend of the same name is somebody else"},
    ),
    "I am somebody else": ((words, "_SELF", frozenset()), {"I am the user"}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_fold_answers_wrongly(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (place, name, value), expected = MUTANTS[mutant]
    monkeypatch.setattr(place, name, value)
    assert expected <= {story.name for story in STORIES if _fails(story)}


def _fails(story: Story) -> bool:
    try:
        return bool(wrong(story))
    except (AssertionError, LookupError, TypeError, ValueError):
        return True


def test_the_whole_fold_answers_rightly() -> None:
    assert [text for story in STORIES for text in wrong(story)] == []


def test_a_fold_that_knows_the_future_answers_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fold.alive
    monkeypatch.setattr(fold, "alive", lambda changes, known_at=None: whole(changes))
    assert sum(bool(wrong(story)) for story in STORIES) > 30

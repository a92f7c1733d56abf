"""The fold is a function of a set: hypothesis draws what is said, and the order that it is said in."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.memory.facts import Change
from holdfast.memory.facts.fold import Belief, fold
from holdfast.memory.facts.timeline import WEAK, timeline
from holdfast.memory.facts.words import plain

DAY = timedelta(days=1)
START = datetime(2020, 1, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return START + number * DAY


days = st.integers(0, 6).map(day)


@st.composite
def facts(draw: st.DrawFn, number: int, *, own_dates: bool) -> Change:
    start = draw(days if own_dates else st.none() | days)
    length = draw(st.none() | st.integers(1, 4))
    until = None if length is None else (start or START) + length * DAY
    predicate, objects = draw(
        st.sampled_from(
            [
                ("lives_in", ["Paris", "Rome", "Oslo"]),
                ("likes", ["tea", "Tea", "jazz"]),
                ("same_as", ["bob", "user"]),
            ]
        )
    )
    return Change(
        id=f"{number:02}",
        kind="add",
        recorded_at=draw(days),
        subject=draw(st.sampled_from(["user", "I", "Bob"])),
        predicate=predicate,
        object=draw(st.sampled_from(objects)),
        confidence=draw(st.sampled_from([0.2, 0.3, 0.5, 0.7, 0.9, 1.0])),
        valid_from=start,
        valid_until=until,
        sources=draw(st.sampled_from([(), ("e1",), ("e2",)])),
        dated=not own_dates and draw(st.booleans()),
    )


@st.composite
def told(draw: st.DrawFn, *, own_dates: bool = False) -> list[Change]:
    """Facts and what is done to them; with ``own_dates`` nothing depends on when it was recorded."""
    changes: list[Change] = []
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["add", "add", "add", "retract", "undo"])) if changes else "add"
        if kind == "add":
            changes.append(draw(facts(number, own_dates=own_dates)))
        else:
            wanted = [change.id for change in changes if kind == "undo" or change.kind == "add"]
            target = draw(st.sampled_from(wanted)) if wanted else "nothing"
            mark = Change(f"{number:02}", "add", draw(days), targets=(target,))
            changes.append(replace(mark, kind="undo" if kind == "undo" else "retract"))
    if draw(st.booleans()):
        cardinality = draw(st.sampled_from(["one", "many"]))
        predicate = draw(st.sampled_from(["lives_in", "likes"]))
        changes.append(Change("zz", "declare", draw(days), predicate=predicate, object=cardinality))
    return changes


def as_set(beliefs: Iterable[Belief]) -> list[Any]:
    return sorted([repr(belief.fact), sorted(belief.changes), belief.retracted] for belief in beliefs)


@given(told(), st.randoms(use_true_random=False), st.none() | days)
def test_the_order_of_the_changes_makes_no_difference(
    changes: list[Change], random: Any, known_at: datetime | None
) -> None:
    shuffled = list(changes)
    random.shuffle(shuffled)
    assert as_set(fold(shuffled, known_at=known_at)) == as_set(fold(changes, known_at=known_at))


@given(told(), days)
def test_what_was_known_is_the_fold_of_what_was_recorded(changes: list[Change], known_at: datetime) -> None:
    recorded = [change for change in changes if change.recorded_at <= known_at]
    assert as_set(fold(changes, known_at=known_at)) == as_set(fold(recorded))


def essence(beliefs: Iterable[Belief]) -> list[Any]:
    """What does not tell of the arrival: neither times of recording nor which of equal statements came first."""
    return sorted(
        [
            belief.about,
            belief.fact.predicate,
            plain(belief.fact.object),
            str(belief.fact.valid_from),
            str(belief.fact.valid_until),
            belief.fact.confidence,
            belief.fact.sources,
            sorted(belief.changes),
            belief.retracted,
        ]
        for belief in beliefs
    )


@given(told(own_dates=True), st.randoms(use_true_random=False))
def test_the_times_of_arrival_make_no_difference_to_what_has_its_own_dates(
    changes: list[Change], random: Any
) -> None:
    times = [change.recorded_at for change in changes]
    random.shuffle(times)
    late = [replace(change, recorded_at=time) for change, time in zip(changes, times, strict=True)]
    assert essence(fold(late)) == essence(fold(changes))


@given(st.tuples(*[facts(number, own_dates=False) for number in range(7)]))
def test_when_all_is_told_all_values_but_one_are_weak(drawn: tuple[Change, ...]) -> None:
    claims = [replace(change, predicate="lives_in") for change in drawn]
    runs = timeline(claims)
    told = max(change.begins or change.valid_until or START for change in claims)
    ends = [run.end for run in runs if run.end is not None and run.end > told]
    for moment in [told, *ends]:
        holding = [
            run
            for run in runs
            if (run.start is None or run.start <= moment) and (run.end is None or moment < run.end)
        ]
        assert len({run.object for run in holding}) == len(holding)
        sure = sorted((run.confidence for run in holding), reverse=True)
        assert all(less < WEAK * more for more, less in pairwise(sure))


@given(told())
def test_everything_that_is_not_undone_is_in_the_history(changes: list[Change]) -> None:
    undone = {change.targets[0] for change in changes if change.kind == "undo"}
    kept = {change.id for change in changes if change.kind == "add" and change.id not in undone}
    assert kept <= {name for belief in fold(changes) for name in belief.changes}


def said(name: str, value: str, start: int, *, sure: float = 0.8, until: int | None = None) -> Change:
    """Recorded when it begins."""
    end = None if until is None else day(until)
    return Change(
        name, "add", day(start), "user", "lives_in", value, sure, day(start), end, sources=(f"e{name}",)
    )


def test_confidence_is_that_not_all_sources_are_wrong() -> None:
    (belief,) = fold([said("a", "Paris", 0, sure=0.5), said("b", "paris", 1, sure=0.6)])
    assert belief.fact.confidence == pytest.approx(0.8)
    assert belief.fact.sources == ("ea", "eb")
    assert (belief.fact.valid_from, belief.fact.recorded_at) == (day(0), day(0))


def test_what_one_claim_says_is_not_blurred() -> None:
    for sure in (0.0, 0.1, 0.3, 0.7, 1.0):
        (belief,) = fold([said("a", "Paris", 0, sure=sure)])
        assert belief.fact.confidence == sure


def test_invalidated_is_when_we_learned_that_another_took_its_place() -> None:
    late = replace(said("c", "Oslo", 2), recorded_at=day(9))
    found = {
        belief.fact.object: belief.fact
        for belief in fold([said("a", "Paris", 0), said("b", "Rome", 5), late])
    }
    assert (found["Paris"].valid_until, found["Paris"].invalidated_at) == (day(2), day(9))
    assert (found["Oslo"].valid_until, found["Oslo"].invalidated_at) == (day(5), day(9))
    assert (found["Rome"].valid_until, found["Rome"].invalidated_at) == (None, None)


def test_a_told_end_invalidates_nothing() -> None:
    (belief,) = fold([said("a", "Paris", 0, until=3)])
    assert (belief.fact.valid_until, belief.fact.invalidated_at) == (day(3), None)


def test_a_doubt_wins_when_all_that_confirms_it_is_known() -> None:
    claims = [said("a", "Paris", 0, sure=0.9), said("b", "Rome", 1, sure=0.4), said("c", "Rome", 2, sure=0.5)]
    claims[1] = replace(claims[1], recorded_at=day(8))
    paris = next(belief.fact for belief in fold(claims) if belief.fact.object == "Paris")
    assert (paris.valid_until, paris.invalidated_at) == (day(1), day(8))


def test_a_thousand_undos_of_undos_are_no_deeper_than_one() -> None:
    chain = [said("0", "Paris", 0)]
    chain += [Change(str(number), "undo", day(0), targets=(str(number - 1),)) for number in range(1, 5001)]
    assert len(fold(chain)) == 1
    assert fold(chain[:-1]) == []


def test_a_long_history_takes_no_square_of_its_length() -> None:
    moves = [said(f"{number:06}", f"City {number % 7}", number) for number in range(5000)]
    same = [replace(said(f"{number:06}", "Paris", number), id=f"s{number}") for number in range(5000)]
    assert len(fold(moves)) == 5000
    assert len(fold(same)) == 1

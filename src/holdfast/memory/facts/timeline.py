"""The claims about one value, put in the order of the time that they are about: a pure function of their set.

- A claim of the value that holds already confirms it: one run, surer than before.
- A claim of another value with a later beginning takes its place. If it has no end that is a move, and the older value
  is over. If it has one it is a stay, and what it covered comes back after it.
- A claim that is weak against what holds does not take its place: both hold, and their confidence ranks them.
- Of different values from the same moment the stronger wins; of equally strong ones that which its caller dated later,
  then one by its content. A weak one is kept beside it.

When something arrived decides nothing here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from math import prod

from holdfast.memory.facts.records import Change
from holdfast.memory.facts.words import plain

WEAK = 2 / 3
"""A claim with less than this part of another's confidence is weak against it."""

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, eq=False)
class Run:
    """A value from ``start`` (``None``: nobody knows) to ``end``, and the claims that say so."""

    object: str
    start: datetime | None
    end: datetime | None = None
    claims: list[Change] = field(default_factory=list)
    replaced_at: datetime | None = None
    """When we learned that another value took its place."""
    moves: bool = False
    """It was told without an end."""
    last: datetime | None = None
    """The last moment that it was told for."""
    covers: list["Run"] = field(default_factory=list)
    """What comes back when this ends."""
    said: dict[tuple[str, ...], float] = field(default_factory=dict)
    """How sure each occasion was: what one source says twice is no surer."""

    def hear(self, claim: Change, moment: datetime) -> None:
        self.claims.append(claim)
        self.last = moment
        if claim.valid_until is None:
            self.moves = True
            self.covers.clear()
        else:
            self.end = claim.valid_until if self.end is None else max(self.end, claim.valid_until)
        occasion = claim.sources or (claim.id,)
        self.said[occasion] = max(self.said.get(occasion, 0.0), claim.confidence)

    @property
    def confidence(self) -> float:
        """How sure it is that not all of its claims are wrong."""
        # Sorted and rounded, so that neither the order nor the last bit of a product can be seen.
        return round(1.0 - prod(1.0 - sure for sure in sorted(self.said.values())), 12)

    @property
    def recorded_at(self) -> datetime:
        return min(claim.recorded_at for claim in self.claims)

    def outlasts(self, moment: datetime) -> bool:
        return self.end is None or self.end > moment

    def again(self, moment: datetime) -> "Run":
        """The same value from a later moment."""
        return replace(
            self, start=moment, claims=list(self.claims), covers=list(self.covers), said=dict(self.said)
        )


def timeline(claims: Iterable[Change]) -> list[Run]:
    """What held when. Runs overlap only where one of them is weak."""
    sweep = _Sweep()
    for moment, told in groupby(sorted(claims, key=_order), key=_moment):
        sweep.expire(moment)
        sweep.hear(moment, list(told))
    sweep.expire(None)
    return [*sweep.done, *sweep.open]


class _Sweep:
    """Goes through time once. ``open`` is what holds at the moment that it has reached."""

    def __init__(self) -> None:
        self.open: list[Run] = []
        self.done: list[Run] = []

    def expire(self, moment: datetime | None) -> None:
        """End what ends by then; what it covered comes back."""
        while ending := [(run.end, run.object, run) for run in self.open if run.end is not None]:
            end, _, run = min(ending, key=lambda found: found[:2])
            if moment is not None and end > moment:
                break
            self._leave(run)
            rivals = list(self.open)
            for covered in sorted(run.covers, key=_strength, reverse=True):
                self._resume(covered, end, rivals)

    def hear(self, moment: datetime, told: list[Change]) -> None:
        """Take in all claims about this moment."""
        for claim in [claim for claim in told if claim.begins is None]:
            self._hear_end(claim, moment)
        self.expire(moment)
        fresh: list[Run] = []
        for claim in [claim for claim in told if claim.begins is not None]:
            run = self._holding(claim.object)
            if run is None:
                run = Run(plain(claim.object), moment)
                self.open.append(run)
            if run not in fresh:
                fresh.append(run)
            run.hear(claim, moment)
        if len(self.open) > 1:
            for run in sorted(fresh, key=_strength, reverse=True):
                if run in self.open:
                    self._contest(run, fresh, moment)

    def _contest(self, winner: Run, fresh: list[Run], moment: datetime) -> None:
        for run in [run for run in self.open if run is not winner]:
            if _weak(winner, run) or (run in fresh and _weak(run, winner)):
                continue
            if winner.end is not None and not winner.moves:
                winner.covers += [run.again(moment)] if run.outlasts(winner.end) else run.covers
            began = winner.start or moment
            run.end = began if run.last is None or run.last <= began else moment
            run.replaced_at = max(run.recorded_at, _learned(winner, moment))
            self._leave(run)

    def _hear_end(self, claim: Change, moment: datetime) -> None:
        """It ended now, and nobody says when it began."""
        run = self._holding(claim.object)
        if run is None:
            ends = [run.end for run in self.done if run.end]
            run = Run(plain(claim.object), moment if self.open else max(ends, default=None))
            self.open.append(run)
        run.hear(claim, moment)
        run.end = moment

    def _holding(self, value: str) -> Run | None:
        return next((run for run in self.open if run.object == plain(value)), None)

    def _leave(self, run: Run) -> None:
        self.open = [other for other in self.open if other is not run]
        self.done.append(run)

    def _resume(self, run: Run, moment: datetime, rivals: list[Run]) -> None:
        """Let what was covered hold again, unless it is over, or outdone by what came meanwhile or with it."""
        if not run.outlasts(moment):
            for covered in run.covers:
                self._resume(covered, moment, rivals)
            return
        same = self._holding(run.object)  # told meanwhile, and too weak to be believed
        others = [other for other in self.open if other is not same]
        if all(_weak(other, run) if other in rivals else _weak(run, other) for other in others):
            again = run.again(moment)
            if same is not None:
                same.end = moment
                self._leave(same)
                for claim in same.claims:
                    again.hear(claim, moment)
            self.open.append(again)


def _moment(claim: Change) -> datetime:
    moment = claim.begins or claim.valid_until
    assert moment is not None
    return moment


def _order(claim: Change) -> tuple[datetime, str]:
    return _moment(claim), claim.id


def _weak(one: Run, other: Run) -> bool:
    return one.confidence < WEAK * other.confidence


def _strength(run: Run) -> tuple[float, datetime, str]:
    dated = max((claim.recorded_at for claim in run.claims if claim.dated), default=_NEVER)
    return run.confidence, dated, run.object


def _learned(winner: Run, moment: datetime) -> datetime:
    """When we knew enough to let the winner win: at once if it is new, else with all that confirmed it."""
    told = [claim.recorded_at for claim in winner.claims]
    return min(told) if winner.start == moment else max(told)

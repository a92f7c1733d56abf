"""Stories in a few words: what is said, what is asked, and the right answer.

::

    a: user lives_in Paris from 2018 until 2020 sure 0.9 by e1 @ 2019
    b: retract a @ 2020          (also: undo b; declare drives one; alias Alice user)
    ? user lives_in at 2019 known 2020 = Paris > London, Rome

A year is its first day; 2020-06 is the first of June. ``@`` is when it was recorded. Answers behind ``>`` are less
sure; those between commas are in any order; ``-`` is none. Without ``at`` or ``known`` it is the end of 2030.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, permutations

from holdfast.memory.facts import Change, Fact
from holdfast.memory.facts import fold as folding
from holdfast.memory.facts.fold import Belief, same_subjects

NOW = datetime(2030, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class Ask:
    text: str
    subject: str
    predicate: str
    valid_at: datetime
    known_at: datetime
    ranks: tuple[frozenset[str], ...]

    def check(self, facts: Sequence[Fact]) -> bool:
        """Whether the facts, surest first, are the answer."""
        rest = list(facts)
        for rank in self.ranks:
            part, rest = rest[: len(rank)], rest[len(rank) :]
            if {fact.object for fact in part} != rank or any(
                fact.confidence >= part[-1].confidence for fact in rest
            ):
                return False
        return not rest


@dataclass(frozen=True)
class Story:
    name: str
    changes: tuple[Change, ...]
    asks: tuple[Ask, ...]

    def orders(self, most: int) -> Iterator[tuple[Change, ...]]:
        """Every order of arrival; if there are too many, a sample that is always the same."""
        count = len(self.changes)
        if count <= 5:
            yield from islice(_shuffled(list(permutations(self.changes))), most)
        else:
            draw = random.Random(self.name)
            yield self.changes[::-1]
            for _ in range(most - 1):
                yield tuple(draw.sample(self.changes, count))


def _shuffled(orders: list[tuple[Change, ...]]) -> list[tuple[Change, ...]]:
    return (
        orders
        if len(orders) <= 1
        else [orders[-1], *random.Random(len(orders)).sample(orders[:-1], len(orders) - 1)]
    )


def answer(changes: Sequence[Change], ask: Ask) -> list[Fact]:
    """The answer of the pure fold."""
    names = same_subjects(changes, ask.subject, ask.known_at)
    beliefs: list[Belief] = folding.fold(changes, known_at=ask.known_at)
    facts = [
        belief.fact
        for belief in beliefs
        if belief.about in names and belief.fact.predicate == ask.predicate
        if not belief.retracted and belief.holds(ask.valid_at)
    ]
    return sorted(facts, key=lambda fact: -fact.confidence)


def year(text: str) -> datetime:
    number, _, month = text.partition("-")
    return datetime(int(number), int(month or 1), 1, tzinfo=UTC)


def parse(name: str, text: str) -> Story:
    lines = [line.strip() for line in text.strip().splitlines()]
    changes: dict[str, Change] = {}
    for line in lines:
        if not line.startswith("?"):
            label, said = line.split(": ", 1)
            changes[label] = _change(label, said)
    return Story(name, tuple(changes.values()), tuple(_ask(line) for line in lines if line.startswith("?")))


def _change(label: str, said: str) -> Change:
    body, when = said.split(" @ ")
    words = body.split()
    blank = Change(label, "add", year(when))
    if words[0] in ("retract", "undo"):
        return replace(blank, kind="retract" if words[0] == "retract" else "undo", targets=tuple(words[1:]))
    if words[0] == "declare":
        return replace(blank, kind="declare", predicate=words[1], object=words[2])
    if words[0] == "alias":
        words = [words[1], "same_as", words[2], "sure", "1.0"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options.keys() <= {"from", "until", "sure", "by"}, f"what is {said!r}?"
    return replace(
        blank,
        subject=words[0],
        predicate=words[1],
        object=words[2],
        valid_from=year(options["from"]) if "from" in options else None,
        valid_until=year(options["until"]) if "until" in options else None,
        confidence=float(options.get("sure", 0.8)),
        sources=(options["by"],) if "by" in options else (),
        dated=True,
    )


def _ask(line: str) -> Ask:
    found = re.fullmatch(r"\? (\S+) (\S+)(?: at (\S+))?(?: known (\S+))? = (.+)", line)
    assert found, f"what is {line!r}?"
    subject, predicate, at, known, expected = found.groups()
    ranks = [] if expected == "-" else [frozenset(part.split(", ")) for part in expected.split(" > ")]
    return Ask(line, subject, predicate, year(at) if at else NOW, year(known) if known else NOW, tuple(ranks))


def wrong(story: Story, ask_fold: Callable[[Sequence[Change], Ask], list[Fact]] = answer) -> list[str]:
    """The questions that the fold answers wrongly, in the order of the story."""
    return [ask.text for ask in story.asks if not ask.check(ask_fold(story.changes, ask))]

"""From what was said to what we believe: a pure fold over a set of changes.

The result depends on which changes there are, never on the order in which they arrived. What was believed at an earlier
time is the fold of the changes that were recorded by then.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from holdfast.core.model import build
from holdfast.memory.facts.records import Cardinality, Change, Fact
from holdfast.memory.facts.timeline import Run, timeline
from holdfast.memory.facts.words import NAMES, SAME, USER, plain, subject_of, usual


@dataclass(frozen=True, slots=True)
class Belief:
    """A fact as it stands, and the ids of the changes that state it. ``about`` is its subject, to compare."""

    fact: Fact
    about: str
    changes: frozenset[str]
    retracted: bool = False

    def holds(self, moment: datetime) -> bool:
        begun = self.fact.valid_from is None or self.fact.valid_from <= moment
        return begun and (self.fact.valid_until is None or moment < self.fact.valid_until)


def fold(changes: Iterable[Change], *, known_at: datetime | None = None) -> list[Belief]:
    """Every fact that was stated by ``known_at`` and not undone, with its place in time."""
    live = alive(changes, known_at)
    retracted = retractions(live)
    stated = [change for change in live if change.kind == "add"]
    declared = _declared(live)
    names = _Names(change for change in stated if change.id not in retracted)
    slots: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in stated:
        slots[names.root(subject_of(change.subject)), change.predicate].append(change)
    beliefs: list[Belief] = []
    for (about, predicate), claims in slots.items():
        subject = names.spelling(about, claims)
        single = declared.get(predicate, usual(predicate)) == "one"
        standing = [claim for claim in claims if claim.id not in retracted]
        for line in [standing] if single else _by_object(standing):
            beliefs += [_belief(run, about, subject, run.replaced_at) for run in timeline(line)]
        for line in _by_object(claim for claim in claims if claim.id in retracted):
            for run in timeline(line):
                when = max(run.recorded_at, min(retracted[claim.id].recorded_at for claim in run.claims))
                beliefs.append(_belief(run, about, subject, when, retracted=True))
    return beliefs


def alive(changes: Iterable[Change], known_at: datetime | None = None) -> list[Change]:
    """The changes that were recorded by then and are not undone; each once, in no order that matters."""
    known = {change.id: change for change in changes if known_at is None or change.recorded_at <= known_at}
    undone = _undone({change.id: change.targets[0] for change in known.values() if change.kind == "undo"})
    return [change for change in known.values() if change.id not in undone]


def retractions(live: Iterable[Change]) -> dict[str, Change]:
    """By the id of a change that is retracted: the first that says so."""
    found: dict[str, Change] = {}
    said = [change for change in live if change.kind == "retract"]
    for change in sorted(said, key=lambda change: (change.recorded_at, change.id)):
        for target in change.targets:
            found.setdefault(target, change)
    return found


def same_subjects(changes: Iterable[Change], subject: str, known_at: datetime | None = None) -> set[str]:
    """All names, to compare, of the subject with this name. ``changes`` must have all that link names."""
    live = alive(changes, known_at)
    retracted = retractions(live)
    names = _Names(change for change in live if change.kind == "add" and change.id not in retracted)
    return names.all_of(subject_of(subject))


def is_naming(predicate: str) -> bool:
    """Whether facts with this predicate can say that two names are one subject."""
    return predicate in SAME or predicate in NAMES


def _undone(targets: dict[str, str]) -> set[str]:
    """What is undone, given what each undo names. An undo that is itself undone does nothing."""
    waiting = Counter(targets.values())  # an undo counts when all that name it have been judged
    ready = [undo for undo in targets if not waiting[undo]]
    undone: set[str] = set()
    while ready:
        undo = ready.pop()
        target = targets[undo]
        if undo not in undone:
            undone.add(target)
        waiting[target] -= 1
        if target in targets and not waiting[target]:
            ready.append(target)
    return undone


def _declared(live: Iterable[Change]) -> dict[str, Cardinality]:
    """The last declaration of each predicate."""
    declarations = [change for change in live if change.kind == "declare"]
    declarations.sort(key=lambda change: (change.recorded_at, change.id))
    return {change.predicate: "one" if change.object == "one" else "many" for change in declarations}


def _by_object(claims: Iterable[Change]) -> list[list[Change]]:
    found: dict[str, list[Change]] = defaultdict(list)
    for claim in claims:
        found[plain(claim.object)].append(claim)
    return list(found.values())


def _belief(
    run: Run, about: str, subject: str, invalidated_at: datetime | None, *, retracted: bool = False
) -> Belief:
    first = run.claims[0]
    fields = {
        "subject": subject,
        "predicate": first.predicate,
        "object": first.object,
        "confidence": run.confidence,
        "valid_from": run.start,
        "valid_until": run.end,
        "recorded_at": run.recorded_at,
        "invalidated_at": invalidated_at,
        "sources": tuple(sorted({source for claim in run.claims for source in claim.sources})),
        "id": first.id,
    }
    fact = build(Fact, fields, set(fields))  # all of it was checked when it was said
    return Belief(fact, about, frozenset(claim.id for claim in run.claims), retracted)


class _Names:
    """Which names are one subject: those that a chain of statements links."""

    def __init__(self, stated: Iterable[Change]) -> None:
        self._root: dict[str, str] = {}
        self._spellings: dict[str, str] = {}
        links: dict[str, set[str]] = defaultdict(set)
        others: set[str] = set()  # names that are said to be the same as a better one
        for change in stated:
            name, same = subject_of(change.subject), subject_of(change.object)
            if change.predicate in SAME:
                others.add(name)
            elif name != USER or change.predicate not in NAMES:
                continue
            links[name].add(same)
            links[same].add(name)
            for key, text in ((name, change.subject), (same, change.object)):
                self._spellings[key] = min(self._spellings.get(key, text), text)
        for name in links:
            if name not in self._root:
                group = _reached(name, links)
                root = USER if USER in group else min(group - others or group)
                self._root.update(dict.fromkeys(group, root))

    def root(self, name: str) -> str:
        return self._root.get(name, name)

    def all_of(self, name: str) -> set[str]:
        root = self.root(name)
        return {name, root, *(other for other, found in self._root.items() if found == root)}

    def spelling(self, root: str, claims: Iterable[Change]) -> str:
        """How to write a subject: as in its facts, else as where it was linked."""
        written = [claim.subject for claim in claims if subject_of(claim.subject) == root]
        return USER if root == USER else min(written) if written else self._spellings[root]


def _reached(name: str, links: dict[str, set[str]]) -> set[str]:
    found, ahead = {name}, [name]
    while ahead:
        fresh = links[ahead.pop()] - found
        found |= fresh
        ahead += fresh
    return found

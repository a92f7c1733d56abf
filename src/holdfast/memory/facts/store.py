"""The facts of users on any store."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import Any

from holdfast.core.clock import SYSTEM_CLOCK, Clock, from_us
from holdfast.core.errors import InvalidInput
from holdfast.core.model import as_utc
from holdfast.memory import validate
from holdfast.memory.facts import items
from holdfast.memory.facts.fold import Belief, alive, fold, is_naming, retractions, same_subjects
from holdfast.memory.facts.ledger import Ledger, Visible
from holdfast.memory.facts.records import Cardinality, Change, Fact
from holdfast.memory.facts.words import plain, predicate_of
from holdfast.memory.ranking import rank
from holdfast.memory.records import Page
from holdfast.memory.store import BaseStore
from holdfast.memory.text import query_terms

_CANDIDATES = 4  # for each result of a search: some of what is found is no longer true
_MANY = 200


class FactStore:
    """What is known of whom, in time. ``user_id`` parts users for good; ``None`` is a part of its own.

    Every change is one item that is never altered, so any number of processes may write at once. What is believed is
    worked out from the changes when it is asked for; their order of arrival makes no difference.
    """

    def __init__(
        self,
        store: BaseStore,
        *,
        namespace: str = "default",
        clock: Clock = SYSTEM_CLOCK,
        visible: Visible | None = None,
        hidden_checkpoints: Collection[str] = (),
    ) -> None:
        """``visible`` says which sources are still there: what names another does not count, as if it had not been
        said. Neither does what was learned at one of ``hidden_checkpoints``."""
        self._ledger = Ledger(store, namespace=namespace, visible=visible, hidden=hidden_checkpoints)
        self._clock = clock
        self._last_us = 0

    def without_checkpoints(self, checkpoints: Collection[str]) -> "FactStore":
        """The same facts as if nothing had been learned at these checkpoints: for a thread that was rewound."""
        ledger = self._ledger
        return FactStore(
            ledger.store,
            namespace=ledger.space,
            clock=self._clock,
            visible=ledger.visible,
            hidden_checkpoints=ledger.hidden | _ids(checkpoints, "checkpoints"),
        )

    def with_visible(self, visible: Visible) -> "FactStore":
        """The same facts without those that name a source which ``visible`` leaves out."""
        ledger, before = self._ledger, self._ledger.visible

        async def both(sources: AbstractSet[str], user_id: str | None) -> Collection[str]:
            left = sources if before is None else set(await before(sources, user_id))
            return await visible(left, user_id)

        return FactStore(
            ledger.store,
            namespace=ledger.space,
            clock=self._clock,
            visible=both,
            hidden_checkpoints=ledger.hidden,
        )

    # ── saying ────────────────────────────────────────────────────────────────────────────────────

    async def add(
        self,
        fact: Fact,
        *,
        user_id: str | None = None,
        source: str | None = None,
        author: str | None = None,
        checkpoint: str | None = None,
    ) -> Fact:
        """State a fact; returns it with its id. The same statement from the same source again changes nothing.

        ``source`` joins the fact's own. Its ``id`` and ``invalidated_at`` are worked out, not taken.
        """
        if not isinstance(fact, Fact):
            raise InvalidInput(f"fact must be a Fact, got {type(fact).__name__}")
        if fact.valid_from is not None and fact.valid_from == fact.valid_until:
            raise InvalidInput(
                f"fact.valid_until must be later than fact.valid_from, got {fact.valid_until} for both"
            )
        given = {validate.identifier(source, "source")} if source is not None else set()
        change = Change(
            id="",
            kind="add",
            recorded_at=fact.recorded_at or self._now(),
            subject=fact.subject,
            predicate=predicate_of(fact.predicate),
            object=fact.object,
            confidence=fact.confidence,
            valid_from=fact.valid_from,
            valid_until=fact.valid_until,
            dated=fact.recorded_at is not None,
            sources=tuple(sorted({*fact.sources, *given})),
            **_occasion(author, checkpoint),
        )
        change = replace(change, id=items.key_of_fact(change))
        change = await self._ledger.put(self._ledger.at(user_id), change, [items.place_of(change)])
        return fact.model_copy(
            update={
                "id": change.id,
                "predicate": change.predicate,
                "valid_from": change.begins,
                "recorded_at": change.recorded_at,
                "invalidated_at": None,
                "sources": change.sources,
            }
        )

    async def alias(
        self,
        name: str,
        same_as: str,
        *,
        user_id: str | None = None,
        source: str | None = None,
        author: str | None = None,
    ) -> Fact:
        """Say that two names are one subject: a fact like any other, to be retracted or undone."""
        fact = Fact(name, "same_as", same_as, confidence=1.0)
        return await self.add(fact, user_id=user_id, source=source, author=author)

    async def retract(
        self,
        fact_id: str | Fact,
        reason: str | None = None,
        *,
        user_id: str | None = None,
        source: str | None = None,
        author: str | None = None,
        checkpoint: str | None = None,
    ) -> Change | None:
        """Say that a fact is wrong, with all that stated it so far. ``None``: there is no such fact.

        It stays in the history. Who states it again later, from another source, makes it believed again.
        """
        where, key = self._ledger.at(user_id), _id_of(fact_id, "fact_id")
        extra = _occasion(author, checkpoint, source, reason)
        found = await self._ledger.find([where], key)
        if found is None or found[1].metadata["kind"] != "add":
            return None
        said = items.change_of(found[1])
        changes = await self._ledger.about(user_id, said.subject, said.predicate)
        beliefs = [belief for belief in fold(changes) if key in belief.changes]
        if not beliefs:
            return None
        known = retractions(alive(changes))
        if key in known:
            return known[key]
        targets = frozenset().union(*(belief.changes for belief in beliefs))
        places = sorted({items.place_of(change) for change in changes if change.id in targets})
        mark = Change("", "retract", self._now(), targets=tuple(sorted(targets)), **extra)
        return await self._ledger.put_mark(where, mark, changes, places)

    async def retract_change(
        self,
        change_id: str,
        reason: str | None = None,
        *,
        user_id: str | None = None,
        author: str | None = None,
    ) -> Change | None:
        """Say that one statement is wrong, and not what else states the same. ``None``: there is no such statement."""
        where, key = self._ledger.at(user_id), _id_of(change_id, "change_id")
        found = await self._ledger.find([where], key)
        if found is None or found[1].metadata["kind"] != "add":
            return None
        place = items.place_of(items.change_of(found[1]))
        changes = await self._ledger.slot(where, place)
        known = retractions(alive(changes))
        if key in known:
            return known[key]
        extra = _occasion(author, None, None, reason)
        mark = Change("", "retract", self._now(), targets=(key,), **extra)
        return await self._ledger.put_mark(where, mark, changes, [place])

    async def retract_sources(
        self,
        sources: Iterable[str],
        reason: str | None = None,
        *,
        user_id: str | None = None,
        author: str | None = None,
    ) -> list[Change]:
        """Say that all is wrong that comes from one of these. What others state too is less sure, and stays.

        It stays in the history; each change can be undone.
        """
        away, where = _ids(sources, "sources"), self._ledger.at(user_id)
        extra = _occasion(author, None, None, reason)
        changes = await self.all_changes(user_id=user_id)
        live = alive(changes)
        known = retractions(live)
        places: dict[items.Place, list[str]] = {}
        for change in live:
            if change.kind == "add" and change.id not in known and not away.isdisjoint(change.sources):
                places.setdefault(items.place_of(change), []).append(change.id)
        made = []
        for place, targets in places.items():
            mark = Change("", "retract", self._now(), targets=tuple(sorted(targets)), **extra)
            made.append(await self._ledger.put_mark(where, mark, changes, [place]))
        return made

    async def undo(
        self,
        change_id: str | Change | Fact,
        reason: str | None = None,
        *,
        user_id: str | None = None,
        source: str | None = None,
        author: str | None = None,
        checkpoint: str | None = None,
    ) -> Change | None:
        """Make a change as if it had not been made; undoing that brings it back. ``None``: there is no such change."""
        key = _id_of(change_id, "change_id")
        extra = _occasion(author, checkpoint, source, reason)
        found = await self._ledger.find([self._ledger.at(user_id), self._ledger.shared], key)
        if found is None:
            return None
        where, item = found
        places = items.places_of(item)
        changes = [change for place in places for change in await self._ledger.slot(where, place)]
        for change in alive(changes):
            if change.kind == "undo" and key in change.targets:
                return change
        mark = Change("", "undo", self._now(), targets=(key,), **extra)
        return await self._ledger.put_mark(where, mark, changes, places)

    async def declare(self, predicate: str, cardinality: Cardinality, *, author: str | None = None) -> Change:
        """Say for all users whether a predicate has one value at a time or many. The last declaration counts."""
        if cardinality not in ("one", "many"):
            raise InvalidInput(f"cardinality must be 'one' or 'many', got {cardinality!r}")
        name = predicate_of(validate.identifier(predicate, "predicate"))
        extra = _occasion(author, None)
        where = self._ledger.shared
        mark = Change("", "declare", self._now(), predicate=name, object=cardinality, **extra)
        place = items.place_of(mark)
        changes = await self._ledger.slot(where, place)
        declared = [change for change in alive(changes) if change.kind == "declare"]
        last = max(declared, key=lambda change: (change.recorded_at, change.id), default=None)
        if last is not None and last.object == cardinality:
            return last
        return await self._ledger.put_mark(where, mark, changes, [place])

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    async def query(
        self,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        user_id: str | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """What was true at ``valid_at`` as we believed it at ``known_at``; both are now by default. Surest first.

        With a subject it reads what is said of it, with a predicate too only that; else all facts of the user.
        """
        wanted = None if object is None else plain(validate.text(object, "object"))
        most = None if limit is None else validate.limit(limit)
        moment = None if valid_at is None else _moment(valid_at, "valid_at")

        def answer(beliefs: list[Belief]) -> list[Fact]:
            facts = [belief.fact for belief in self._true(beliefs, moment)]
            facts = [fact for fact in facts if wanted is None or plain(fact.object) == wanted]
            return sorted(facts, key=_surest_first)[:most]

        return await self._ask(user_id, subject, predicate, known_at, answer)

    async def history(
        self, subject: str, predicate: str, *, known_at: datetime | None = None, user_id: str | None = None
    ) -> list[Fact]:
        """All that was ever stated of it and not undone, what is over or retracted too, in the order of its time."""

        def answer(beliefs: list[Belief]) -> list[Fact]:
            return sorted((belief.fact for belief in beliefs), key=_oldest_first)

        about, name = validate.text(subject, "subject"), validate.text(predicate, "predicate")
        return await self._ask(user_id, about, name, known_at, answer)

    async def search(
        self,
        query: str,
        *,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        user_id: str | None = None,
        limit: int = 10,
    ) -> list[Fact]:
        """Facts with words of the query that were true then, best first."""
        where, most = self._ledger.at(user_id), validate.limit(limit)
        terms = query_terms(validate.text(query, "query"))
        moment = None if valid_at is None else _moment(valid_at, "valid_at")
        known = None if known_at is None else _moment(known_at, "known_at")
        if not terms or not most:
            return []
        found = rank(await self._ledger.store.text_candidates(where, terms, _CANDIDATES * most))
        said = [items.change_of(candidate.item) for _, candidate in found]
        changes = await self._ledger.naming(user_id)
        slots = {
            (name, change.predicate)
            for change in said
            for name in same_subjects(changes, change.subject, known)
            if not is_naming(change.predicate)
        }
        for name, predicate in slots:
            changes += await self._ledger.said_of(user_id, name, predicate)
        changes += await self._ledger.declared(None)
        places = {change.id: index for index, change in reversed(list(enumerate(said)))}
        ranked = [
            (
                min(places[key] for key in belief.changes if key in places),
                _surest_first(belief.fact),
                belief.fact,
            )
            for belief in self._true(fold(changes, known_at=known), moment)
            if not belief.changes.isdisjoint(places)
        ]
        return [fact for _, _, fact in sorted(ranked, key=lambda entry: entry[:2])[:most]]

    # ── who said so ───────────────────────────────────────────────────────────────────────────────

    async def changes(
        self, *, user_id: str | None = None, limit: int = 100, after: str | None = None
    ) -> Page[Change]:
        """Every change of the user's facts, last arrived first; ``after`` goes on from a page's ``next``."""
        first = {"copy_of": {"$exists": False}}
        page = await self._ledger.store.search(
            self._ledger.at(user_id), None, limit, filter=first, after=after
        )
        return Page([items.change_of(item) for item in page], page.next)

    async def all_changes(self, *, user_id: str | None = None) -> list[Change]:
        """The same at once, each of them once, in no order."""
        return await self._ledger.all(user_id)

    async def declarations(self) -> list[Change]:
        """Every declaration and what undid it, first recorded first."""
        return sorted(await self._ledger.declared(None), key=_first_recorded)

    async def blame(self, fact_id: str | Fact, *, user_id: str | None = None) -> list[Change]:
        """Every change that stated this fact, retracted it, or undid one of these; first recorded first."""
        key = _id_of(fact_id, "fact_id")
        found = await self._ledger.find([self._ledger.at(user_id)], key)
        if found is None:
            return []
        said = items.change_of(found[1])
        changes = {
            change.id: change for change in await self._ledger.about(user_id, said.subject, said.predicate)
        }
        ids = {key}.union(*(belief.changes for belief in fold(changes.values()) if key in belief.changes))
        size = 0
        while len(ids) > size:
            size = len(ids)
            ids |= {change.id for change in changes.values() if not ids.isdisjoint(change.targets)}
        return sorted((changes[name] for name in ids if name in changes), key=_first_recorded)

    # ── forgetting ────────────────────────────────────────────────────────────────────────────────

    async def forget_sources(self, sources: Iterable[str], *, user_id: str | None = None) -> int:
        """Delete for good every change that comes from one of these; returns how many items went.

        What they said is as if it had not been said: a fact that others state too is less sure, one that they
        retracted is back.
        """
        gone = _ids(sources, "sources")
        return await self._ledger.delete(user_id, lambda change: not gone.isdisjoint(change.sources))

    async def forget_checkpoints(self, checkpoints: Iterable[str], *, user_id: str | None = None) -> int:
        """:meth:`forget_sources` for what was learned at one of these checkpoints."""
        gone = _ids(checkpoints, "checkpoints")
        return await self._ledger.delete(user_id, lambda change: change.checkpoint in gone)

    async def clear(self, *, user_id: str | None) -> int:
        """Delete every change of a user for good; returns how many items there were."""
        return await self._ledger.store.clear_namespace(self._ledger.at(user_id))

    # ── shared by the methods above ───────────────────────────────────────────────────────────────

    async def _ask(
        self,
        user_id: str | None,
        subject: str | None,
        predicate: str | None,
        known_at: datetime | None,
        answer: Callable[[list[Belief]], list[Fact]],
    ) -> list[Fact]:
        known = None if known_at is None else _moment(known_at, "known_at")
        name = None if predicate is None else predicate_of(validate.text(predicate, "predicate"))
        about = None if subject is None else validate.text(subject, "subject")
        changes = await self._ledger.about(user_id, about, name, known)

        def work() -> list[Fact]:
            beliefs = fold(changes, known_at=known)
            if about is not None:
                names = same_subjects(changes, about, known)
                beliefs = [belief for belief in beliefs if belief.about in names]
            return answer([belief for belief in beliefs if name is None or belief.fact.predicate == name])

        # So many would hold up everybody else on this event loop.
        return await asyncio.to_thread(work) if len(changes) > _MANY else work()

    def _true(self, beliefs: Iterable[Belief], moment: datetime | None) -> list[Belief]:
        held = [belief for belief in beliefs if not belief.retracted]
        if moment is None:
            # Another machine's clock may be ahead of ours: what it has just said is true now, too.
            heard = [belief.fact.recorded_at for belief in held if belief.fact.recorded_at is not None]
            moment = max([from_us(self._clock.now_us()), *heard])
        return [belief for belief in held if belief.holds(moment)]

    def _now(self) -> datetime:
        """Later than every time that it gave before: what is said second is not said at the same time."""
        self._last_us = max(self._clock.now_us(), self._last_us + 1)
        return from_us(self._last_us)


def _occasion(
    author: str | None, checkpoint: str | None, source: str | None = None, reason: str | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "author": validate.optional_identifier(author, "author"),
        "checkpoint": validate.optional_identifier(checkpoint, "checkpoint"),
    }
    if reason is not None:
        found["reason"] = validate.text(reason, "reason")
    if source is not None:
        found["sources"] = (validate.identifier(source, "source"),)
    return found


def _id_of(given: str | Fact | Change, field: str) -> str:
    return validate.identifier(given.id if isinstance(given, Fact | Change) else given, field)


def _ids(given: Iterable[str], field: str) -> frozenset[str]:
    if isinstance(given, str):
        raise InvalidInput(f"{field} must be a list of ids, got str: use [{given!r}]")
    return frozenset(validate.identifier(item, f"{field}[{index}]") for index, item in enumerate(given))


def _moment(given: datetime, field: str) -> datetime:
    validate.moment(given, field)
    return as_utc(given)


def _surest_first(fact: Fact) -> tuple[float, float, str]:
    return -fact.confidence, -(fact.valid_from.timestamp() if fact.valid_from else 0.0), fact.id


def _oldest_first(fact: Fact) -> tuple[bool, float, bool, str]:
    start = fact.valid_from
    return start is not None, start.timestamp() if start else 0.0, fact.invalidated_at is None, fact.id


def _first_recorded(change: Change) -> tuple[datetime, str]:
    return change.recorded_at, change.id

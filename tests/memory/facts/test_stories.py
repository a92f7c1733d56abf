"""Every story has its right answers, in every order of arrival: on the pure fold and on stores."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.facts import Change, Fact, FactStore
from holdfast.memory.facts.items import Place, namespace_of, place_of, shared_namespace
from holdfast.memory.facts.ledger import Ledger
from holdfast.memory.store import BaseStore, InMemoryStore
from holdfast.testing.clock import FrozenClock
from tests.memory.facts.stories import STORIES
from tests.memory.facts.story import NOW, Story, answer

STORES = {"memory": InMemoryStore, "sqlite": SQLiteStore}
each_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[BaseStore]:
    async with STORES[kind]() as store:
        yield store


def test_there_are_enough_stories() -> None:
    assert len({story.name for story in STORIES}) >= 40
    assert all(len(story.asks) >= 1 for story in STORIES)


@each_story
def test_the_fold_answers_right_in_every_order(story: Story) -> None:
    for order in story.orders(120):
        for ask in story.asks:
            found = answer(order, ask)
            assert ask.check(found), (ask.text, [change.id for change in order], found)


def places(change: Change, story: Story) -> list[Place]:
    """Where a change lies: with what it names."""
    if not change.targets:
        return [place_of(change)]
    named = [other for other in story.changes if other.id in change.targets]
    return sorted({place for other in named for place in places(other, story)})


@pytest.mark.parametrize("kind", STORES)
@each_story
def test_a_store_answers_right_in_every_order(story: Story, kind: str) -> None:
    async def run() -> None:
        async with opened(kind) as store:
            for number, order in enumerate(story.orders(6)):
                space = f"order {number}"
                ledger = Ledger(store, namespace=space, visible=None, hidden=())
                for change in order:
                    where = places(change, story)
                    shared = where[0].group == "declared"
                    at = shared_namespace(space) if shared else namespace_of(space, "alice")
                    await ledger.put(at, change, where)
                facts = FactStore(store, namespace=space)
                for ask in story.asks:
                    found = await facts.query(
                        subject=ask.subject,
                        predicate=ask.predicate,
                        valid_at=ask.valid_at,
                        known_at=ask.known_at,
                        user_id="alice",
                    )
                    assert ask.check(found), (ask.text, [change.id for change in order], found)

    asyncio.run(run())


# ── what arrives is recorded when it arrives ──────────────────────────────────────────────────────


ARRIVAL = datetime(2025, 1, 1, tzinfo=UTC)


def timeless(story: Story) -> bool:
    """Whether what it says has its own dates, so that the time of arrival can't matter.

    Through the front door, what is retracted or undone is not retracted or undone again.
    """
    targets = [target for change in story.changes for target in change.targets]
    facts = [change for change in story.changes if change.kind == "add" and change.predicate != "same_as"]
    return all(change.valid_from is not None for change in facts) and len(set(targets)) == len(targets)


async def tell(facts: FactStore, clock: FrozenClock, order: Sequence[Change]) -> None:
    """One change a day, through the front door. What names others comes when they are there."""
    ids: dict[str, str] = {}
    for change in order:
        clock.advance(days=1)
        if change.kind == "add":
            fact = Fact(
                change.subject,
                change.predicate,
                change.object,
                confidence=change.confidence,
                valid_from=change.valid_from,
                valid_until=change.valid_until,
                sources=change.sources,
            )
            ids[change.id] = (await facts.add(fact, user_id="alice")).id
        elif change.kind == "declare":
            declared = await facts.declare(change.predicate, "one" if change.object == "one" else "many")
            ids[change.id] = declared.id
        else:
            do = facts.retract if change.kind == "retract" else facts.undo
            done = await do(ids[change.targets[0]], user_id="alice")
            assert done is not None
            ids[change.id] = done.id


def sensible(order: Sequence[Change]) -> bool:
    told: set[str] = set()
    for change in order:
        if not told.issuperset(change.targets):
            return False
        told.add(change.id)
    return True


def retracts_the_same(order: Sequence[Change], story: Story) -> bool:
    """Whether each retraction meets what it meets in the story: who retracts a fact, retracts all that stated it."""

    def met(told: Sequence[Change]) -> list[set[str]]:
        marks = [index for index, change in enumerate(told) if change.kind == "retract"]
        return [{other.id for other in told[:index] if other.kind == "add"} for index in marks]

    return met(order) == met(story.changes)


def essence(fact: Fact) -> Fact:
    """A fact without what tells of its arrival."""
    return fact.model_copy(update={"recorded_at": None, "invalidated_at": None, "id": ""})


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    "story", [story for story in STORIES if timeless(story)], ids=lambda story: story.name
)
def test_the_order_of_arrival_does_not_matter_in_the_end(story: Story, kind: str) -> None:
    orders = [order for order in story.orders(120) if sensible(order) and retracts_the_same(order, story)][:6]

    async def run() -> None:
        seen: list[list[list[Fact]]] = []
        async with opened(kind) as store:
            for number, order in enumerate(orders):
                clock = FrozenClock(ARRIVAL)
                facts = FactStore(store, namespace=f"order {number}", clock=clock)
                await tell(facts, clock, order)
                seen.append(
                    [
                        [
                            essence(fact)
                            for fact in await facts.query(
                                subject=ask.subject,
                                predicate=ask.predicate,
                                valid_at=ask.valid_at,
                                known_at=NOW,
                                user_id="alice",
                            )
                        ]
                        for ask in story.asks
                    ]
                )
        for answers in seen:
            unsorted = [{fact.model_dump_json() for fact in one} for one in answers]
            assert unsorted == [{fact.model_dump_json() for fact in one} for one in seen[0]]

    asyncio.run(run())


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_what_was_known_is_what_a_store_knows_that_got_no_more(story: Story, kind: str) -> None:
    asked = sorted({(ask.subject, ask.predicate, ask.valid_at) for ask in story.asks})
    order = next(order for order in story.orders(120) if sensible(order))

    async def answers(facts: FactStore, known_at: datetime | None) -> list[list[Fact]]:
        return [
            await facts.query(subject=s, predicate=p, valid_at=at, known_at=known_at, user_id="alice")
            for s, p, at in asked
        ]

    async def run() -> None:
        async with opened(kind) as store:
            clock = FrozenClock(ARRIVAL)
            whole = FactStore(store, namespace="whole", clock=clock)
            await tell(whole, clock, order)
            for count in range(len(order) + 1):
                clock = FrozenClock(ARRIVAL)
                part = FactStore(store, namespace=f"first {count}", clock=clock)
                await tell(part, clock, order[:count])
                moment = ARRIVAL + timedelta(days=count, hours=1)
                assert await answers(whole, moment) == await answers(part, None)

    asyncio.run(run())


def test_a_story_that_is_told_twice_is_the_same_story() -> None:
    for story in STORIES:
        twice = [*story.changes, *(replace(change) for change in story.changes)]
        assert all(ask.check(answer(twice, ask)) for ask in story.asks)

"""Nothing of one user, or of one namespace, is ever seen, counted or changed by another."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.memory.facts import Fact, FactStore
from holdfast.memory.store import BaseStore
from tests.memory.every_store import KINDS, opener

HOSTILE = [
    "alice",
    "Alice",
    "ALICE ",
    "u:alice",
    "anonymous",
    "shared",
    "facts",
    "a/b",
    "a~1b",
    "a~0b",
    "a%",
    "a_",
    "a*",
    "../x",
    "'; DROP TABLE holdfast_items; --",
    "a\x00b",
    "\ud800",
    "ａlice",
    "𝓪",
    "None",
]
texts = st.text(min_size=1, max_size=8).filter(lambda text: not text.isspace())
users = st.none() | st.sampled_from(HOSTILE) | texts
spaces = st.sampled_from(HOSTILE) | texts
names = st.sampled_from([*HOSTILE, "user", "I"]).filter(str.strip) | texts.filter(str.strip)

owners_of_facts = st.lists(st.tuples(spaces, users), min_size=2, max_size=4, unique=True)

# Each example opens a database and asks it some hundred questions; one on a server makes its tables first.
EXAMPLES = {"memory": 40, "sqlite": 40, "postgres": 4, "mariadb": 3, "chroma": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_each_sees_exactly_its_own(kind: str, request: pytest.FixtureRequest) -> None:
    opened = opener(kind, request)

    @settings(
        max_examples=EXAMPLES[kind],  # see there
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(owners=owners_of_facts, subject=names, predicate=names)
    def check(owners: list[tuple[str, str | None]], subject: str, predicate: str) -> None:
        async def scenario() -> None:
            async with opened() as store:
                await check_facts(store, owners, subject, predicate)

        asyncio.run(scenario())

    check()


async def check_facts(
    store: BaseStore, owners: list[tuple[str, str | None]], subject: str, predicate: str
) -> None:
    added: list[Fact] = []
    for number, (space, user) in enumerate(owners):
        facts = FactStore(store, namespace=space)
        fact = Fact(subject, predicate, f"secret{number}")
        added.append(await facts.add(fact, user_id=user, source="one source"))
        await facts.alias("Bob", subject, user_id=user)
    for number, (space, user) in enumerate(owners):
        await _sees_only_its_own(FactStore(store, namespace=space), user, number, added, subject, predicate)
    await _forgets_only_its_own(store, owners, added)


async def _sees_only_its_own(
    facts: FactStore, user: str | None, number: int, added: list[Fact], subject: str, predicate: str
) -> None:
    mine = added[number]
    for found in (
        await facts.query(user_id=user),
        await facts.query(subject=subject, user_id=user),
        await facts.query(predicate=predicate, user_id=user),
        await facts.query(subject="Bob", predicate=predicate, user_id=user),
        await facts.history(subject, predicate, user_id=user),
    ):
        assert [fact.id for fact in found if fact.object.startswith("secret")] == [mine.id]
    assert [fact.id for fact in await facts.search(f"secret{number}", user_id=user)] == [mine.id]
    for other in added:
        if other.id != mine.id:
            assert await facts.search(other.object, user_id=user) == []
            assert await facts.blame(other.id, user_id=user) == []
            assert await facts.retract(other.id, user_id=user) is None
            assert await facts.undo(other.id, user_id=user) is None
    assert len(await facts.changes(user_id=user)) == 2


async def _forgets_only_its_own(
    store: BaseStore, owners: list[tuple[str, str | None]], added: list[Fact]
) -> None:
    (space, user), *others = owners
    assert await FactStore(store, namespace=space).forget_sources(["one source"], user_id=user) == 1
    assert await FactStore(store, namespace=space).clear(user_id=user) == 1
    for (other_space, other), mine in zip(others, added[1:], strict=True):
        facts = FactStore(store, namespace=other_space)
        assert [change.id for change in await facts.blame(mine, user_id=other)] == [mine.id]

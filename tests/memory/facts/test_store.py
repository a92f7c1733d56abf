"""What the facts of a user promise on a store: reading little, the audit trail, forgetting, bad input."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.errors import InvalidInput
from holdfast.memory.backends.sqlite_store import SQLiteStore
from holdfast.memory.facts import Change, Fact, FactStore
from holdfast.memory.store import BaseStore, InMemoryStore
from holdfast.memory.store_requests import ScanRequest, StoredItem
from holdfast.testing.clock import FrozenClock
from tests.servers.oracle import Server

STORES: dict[str, Callable[[], BaseStore]] = {"memory": InMemoryStore, "sqlite": SQLiteStore}
Test = Callable[[FactStore, FrozenClock], Awaitable[None]]


SERVERS = ("used_postgres", "plain_postgres", "used_mariadb", "used_oracle", "postgres15")


@pytest.fixture(
    params=[*STORES, *SERVERS[:4], pytest.param("postgres15", marks=pytest.mark.long)]  # the same plans
)
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test on the facts of a new store, with a clock that stands still."""
    database: Server | None = request.getfixturevalue(request.param) if request.param in SERVERS else None

    def call(test: Test) -> None:
        async def body() -> None:
            clock = FrozenClock()
            async with database.store(database.url) if database else STORES[request.param]() as store:
                await test(FactStore(store, clock=clock), clock)

        asyncio.run(body())

    return call


def objects(facts: Sequence[Fact]) -> list[str]:
    return [fact.object for fact in facts]


# ── saying and asking ─────────────────────────────────────────────────────────────────────────────


def test_a_fact_comes_back_with_its_id_and_times(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        added = await facts.add(Fact("Bob", "Lives in", "Paris", confidence=0.7), source="e1")
        (found,) = await facts.query(subject="bob")
        assert found == added
        assert (found.subject, found.predicate, found.object) == ("Bob", "lives_in", "Paris")
        assert (found.confidence, found.sources) == (0.7, ("e1",))
        assert found.valid_from == found.recorded_at == clock.now
        assert found.valid_until is None
        assert found.invalidated_at is None

    run(test)


def test_what_is_said_second_is_newer_though_the_clock_stands_still(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        for city in "Paris London Rome Oslo Bern Kyiv Lima".split():
            await facts.add(Fact("user", "lives_in", city))
            assert objects(await facts.query(subject="user", predicate="lives_in")) == [city]

    run(test)


def test_what_another_machine_says_is_true_at_once_though_its_clock_is_ahead() -> None:
    async def test() -> None:
        store, ahead, behind = InMemoryStore(), FrozenClock(), FrozenClock()
        ahead.advance(60)
        await FactStore(store, clock=behind).add(Fact("user", "lives_in", "Paris"))
        await FactStore(store, clock=ahead).add(Fact("user", "lives_in", "London"))
        assert objects(await FactStore(store, clock=behind).query(subject="user")) == ["London"]

    asyncio.run(test())


def test_the_same_statement_from_the_same_source_is_one(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        first = await facts.add(Fact("user", "likes", "tea", confidence=0.5), source="e1")
        clock.advance(days=1)
        assert await facts.add(Fact("User", "likes", "Tea", confidence=0.5), source="e1") == first.model_copy(
            update={"subject": "User", "object": "Tea"}
        )
        assert len(await facts.changes()) == 1
        await facts.add(Fact("user", "likes", "tea", confidence=0.5), source="e2")
        (found,) = await facts.query(subject="user")
        assert (found.confidence, found.sources) == (0.75, ("e1", "e2"))

    run(test)


def test_questions_by_any_part(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        for number, words in enumerate(
            ["Bob likes tea", "Bob likes jazz", "user likes tea", "Bob lives_in Rome"]
        ):
            subject, predicate, value = words.split()
            await facts.add(Fact(subject, predicate, value, confidence=0.9 - number / 10))
        assert objects(await facts.query()) == ["tea", "jazz", "tea", "Rome"]
        assert objects(await facts.query(subject="bob")) == ["tea", "jazz", "Rome"]
        assert objects(await facts.query(predicate="likes")) == ["tea", "jazz", "tea"]
        assert objects(await facts.query(object="TEA")) == ["tea", "tea"]
        assert objects(await facts.query(subject="Bob", predicate="likes", object="jazz")) == ["jazz"]
        assert objects(await facts.query(limit=1)) == ["tea"]
        assert await facts.query(limit=0) == []
        assert await facts.query(subject="nobody") == []

    run(test)


def test_search_finds_by_words_what_is_still_true(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        await facts.add(Fact("user", "name", "Alice"))
        old = await facts.add(Fact("Alice", "lives_in", "Paris near the river"))
        clock.advance(days=1)
        await facts.add(Fact("I", "lives_in", "London"))
        await facts.add(Fact("Bob", "likes", "walks by the river"))
        assert objects(await facts.search("river")) == ["walks by the river"]
        assert objects(await facts.search("living where?")) == ["London"]
        assert objects(await facts.search("living", known_at=old.recorded_at)) == ["Paris near the river"]
        assert objects(await facts.search("what name?")) == ["Alice"]
        assert await facts.search("") == []
        assert await facts.search("river", user_id="bob") == []

    run(test)


def test_history_shows_all_that_was_ever_said(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        start = clock.now
        for city in ("Paris", "London", "Rome"):
            last = await facts.add(Fact("user", "lives_in", city))
            clock.advance(days=1)
        await facts.retract(last, "a joke")
        history = await facts.history("me", "lives in")
        assert objects(history) == ["Paris", "London", "Rome"]
        assert history[0].valid_until == history[1].valid_from == start + timedelta(days=1)
        assert history[0].invalidated_at == history[1].recorded_at
        assert (history[1].valid_until, history[1].invalidated_at) == (None, None)
        assert (history[2].valid_until, history[2].invalidated_at) == (None, start + timedelta(days=3))
        assert objects(await facts.history("me", "lives in", known_at=start)) == ["Paris"]

    run(test)


# ── retracting, undoing, declaring ────────────────────────────────────────────────────────────────


def test_retracting_takes_all_that_stated_it(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        await facts.alias("Alice", "user")
        first = await facts.add(Fact("user", "likes", "tea"), source="e1")
        await facts.add(Fact("Alice", "likes", "Tea"), source="e2")
        done = await facts.retract(first.id, reason="never did", author="Bob")
        assert done is not None
        assert (done.kind, done.reason, done.author, len(done.targets)) == ("retract", "never did", "Bob", 2)
        assert await facts.query(subject="user", predicate="likes") == []
        assert await facts.retract(first.id) == done
        again = await facts.add(Fact("user", "likes", "tea"), source="e3")
        assert (await facts.query(subject="user", predicate="likes"))[0].id == again.id

    run(test)


def test_a_retraction_holds_for_each_name_when_the_names_part(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        link = await facts.alias("Alice", "user")
        first = await facts.add(Fact("user", "likes", "tea"), source="e1")
        await facts.add(Fact("Alice", "likes", "tea"), source="e2")
        done = await facts.retract(first)
        assert done is not None
        await facts.undo(link)
        assert await facts.query(subject="user", predicate="likes") == []
        assert await facts.query(subject="Alice", predicate="likes") == []
        await facts.undo(done)
        assert objects(await facts.query(subject="user", predicate="likes")) == ["tea"]
        assert objects(await facts.query(subject="Alice", predicate="likes")) == ["tea"]
        assert [change.kind for change in await facts.changes()] == [
            "undo",
            "undo",
            "retract",
            "add",
            "add",
            "add",
        ]

    run(test)


def test_undo_and_redo_and_undo_again(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        fact = await facts.add(Fact("user", "likes", "tea"))
        for _ in range(3):
            undone = await facts.undo(fact)
            assert undone is not None
            assert await facts.undo(fact) == undone
            assert await facts.query() == []
            await facts.undo(undone)
            assert objects(await facts.query()) == ["tea"]
        for _ in range(2):
            done = await facts.retract(fact)
            assert done is not None
            assert await facts.query() == []
            await facts.undo(done.id)
            assert objects(await facts.query()) == ["tea"]

    run(test)


def test_what_is_not_there_is_not_retracted_or_undone(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        assert await facts.retract("nothing") is None
        assert await facts.undo("nothing") is None
        assert await facts.blame("nothing") == []
        fact = await facts.add(Fact("user", "likes", "tea"))
        done = await facts.retract(fact)
        assert done is not None
        assert await facts.retract(done.id) is None
        await facts.undo(fact)
        assert await facts.retract(fact) is None

    run(test)


def test_a_declaration_holds_for_all_users_and_is_written_once(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        for user in (None, "alice"):
            for car in ("Saab", "Fiat"):
                await facts.add(Fact("user", "drives", car), user_id=user)
        one = await facts.declare("Drives", "one", author="Bob")
        assert await facts.declare("drives", "one") == one
        for user in (None, "alice"):
            assert objects(await facts.query(user_id=user)) == ["Fiat"]
        await facts.declare("drives", "many")
        assert len(await facts.query()) == 2
        again = await facts.declare("drives", "one")
        assert again.id != one.id
        assert len(await facts.query()) == 1
        await facts.undo(again)
        assert len(await facts.query()) == 2
        assert [change.kind for change in await facts.declarations()] == ["declare"] * 3 + ["undo"]

    run(test)


# ── who said so ───────────────────────────────────────────────────────────────────────────────────


def test_the_trail_names_who_when_and_from_what(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        fact = await facts.add(
            Fact("user", "likes", "tea"), source="e1", author="agent", checkpoint="c1", user_id="alice"
        )
        await facts.add(Fact("user", "likes", "jazz"), user_id="alice")
        clock.advance(days=1)
        await facts.add(Fact("user", "likes", "tea"), source="e2", author="import", user_id="alice")
        done = await facts.retract(
            fact, "asked to", author="alice", source="e3", checkpoint="c9", user_id="alice"
        )
        assert done is not None
        await facts.undo(done, author="bob", user_id="alice")
        trail = await facts.blame(fact, user_id="alice")
        assert [(c.kind, c.author, c.sources, c.checkpoint, c.reason) for c in trail] == [
            ("add", "agent", ("e1",), "c1", None),
            ("add", "import", ("e2",), None, None),
            ("retract", "alice", ("e3",), "c9", "asked to"),
            ("undo", "bob", (), None, None),
        ]
        assert trail[0].recorded_at == clock.now - timedelta(days=1)
        first = await facts.changes(user_id="alice", limit=3)
        rest = await facts.changes(user_id="alice", limit=3, after=first.next)
        assert [change.kind for change in [*first, *rest]] == ["undo", "retract", "add", "add", "add"]
        assert rest.next is None

    run(test)


# ── forgetting ────────────────────────────────────────────────────────────────────────────────────


def test_forgetting_a_source_is_as_if_it_had_said_nothing(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        tea = await facts.add(Fact("user", "likes", "tea", confidence=0.5), source="e1")
        await facts.add(Fact("user", "likes", "tea", confidence=0.5), source="e2")
        await facts.add(Fact("user", "likes", "jazz", sources=["e1", "e2"]))
        await facts.retract(tea, source="e3")
        await facts.add(Fact("user", "likes", "chess"), source="e1", user_id="bob")
        assert await facts.forget_sources(["e3"]) == 1
        assert objects(await facts.query()) == ["jazz", "tea"]
        assert await facts.forget_sources({"e1"}) == 2
        assert [(f.object, f.confidence) for f in await facts.query()] == [("tea", 0.5)]
        assert objects(await facts.query(user_id="bob")) == ["chess"]
        assert await facts.forget_sources(["e1"]) == 0

    run(test)


def test_a_rewound_thread_takes_what_it_learned_with_it(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        await facts.add(Fact("user", "lives_in", "Paris"), checkpoint="c1")
        await facts.add(Fact("user", "lives_in", "London"), checkpoint="c2")
        fork = facts.without_checkpoints(["c2"])
        for predicate in (None, "lives_in"):
            assert objects(await fork.query(subject="user", predicate=predicate)) == ["Paris"]
            assert objects(await facts.query(subject="user", predicate=predicate)) == ["London"]
        assert await facts.forget_checkpoints(["c2"]) == 1
        assert objects(await facts.query(subject="user")) == ["Paris"]

    run(test)


def test_what_comes_from_a_source_that_is_gone_is_invisible() -> None:
    async def test() -> None:
        asked: list[tuple[AbstractSet[str], str | None]] = []

        async def visible(sources: AbstractSet[str], user_id: str | None) -> set[str]:
            asked.append((sources, user_id))
            return set(sources) - {"gone"}

        facts = FactStore(InMemoryStore(), visible=visible)
        await facts.add(Fact("user", "lives_in", "Paris"), source="there", user_id="alice")
        await facts.add(Fact("user", "lives_in", "London"), source="gone", user_id="alice")
        await facts.add(Fact("user", "name", "Alice"), source="gone", user_id="alice")
        await facts.add(Fact("Alice", "likes", "tea"), user_id="alice")
        assert objects(await facts.query(subject="user", user_id="alice")) == ["Paris"]
        assert objects(await facts.query(subject="user", predicate="lives_in", user_id="alice")) == ["Paris"]
        assert objects(await facts.history("user", "lives_in", user_id="alice")) == ["Paris"]
        assert await facts.search("London", user_id="alice") == []
        assert {user for _, user in asked} == {"alice"}

    asyncio.run(test())


def test_clearing_leaves_no_item_of_the_user_and_all_of_the_others(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        for user in (None, "alice", "alice2"):
            await facts.alias("Bob", "user", user_id=user)
            await facts.add(Fact("user", "likes", "tea"), user_id=user)
        assert await facts.clear(user_id="alice") == 2
        assert len(await facts.changes(user_id="alice")) == 0
        assert len(await facts.changes(user_id="alice2")) == len(await facts.changes()) == 2

    run(test)


# ── reading little ────────────────────────────────────────────────────────────────────────────────


class CountingStore(InMemoryStore):
    """Counts the items that it hands out."""

    handed = 0

    async def _scan(self, request: ScanRequest) -> list[StoredItem]:
        found = await super()._scan(request)
        self.handed += len(found)
        return found


def test_a_question_reads_what_it_is_about() -> None:
    async def test() -> None:
        store = CountingStore()
        facts = FactStore(store)
        await facts.alias("Alice", "user")
        for number in range(300):
            await facts.add(Fact("user", "likes", f"thing {number}"))
            await facts.add(Fact(f"friend {number}", "lives_in", "Paris"))
        await facts.add(Fact("user", "lives_in", "Oslo"))
        await facts.add(Fact("Alice", "lives_in", "Rome"))
        store.handed = 0
        assert objects(await facts.query(subject="Alice", predicate="lives_in")) == ["Rome"]
        await facts.history("user", "lives_in")
        assert len(await facts.query(subject="friend 7")) == 1
        assert store.handed <= 12

    asyncio.run(test())


def test_the_facts_are_in_the_file(tmp_path: Path) -> None:
    async def test() -> None:
        async with SQLiteStore(tmp_path / "facts.db") as store:
            await FactStore(store).add(Fact("user", "lives_in", "Paris"), user_id="alice")
        async with SQLiteStore(tmp_path / "facts.db") as store:
            assert objects(await FactStore(store).query(user_id="alice")) == ["Paris"]

    asyncio.run(test())


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"subject": " "}, "subject"),
        ({"predicate": ""}, "predicate"),
        ({"object": "\n"}, "object"),
        ({"object": 3}, "object"),
        ({"subject": "x" * 256}, "subject"),
        ({"confidence": 1.5}, "confidence"),
        ({"confidence": -0.1}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"valid_from": "tomorrow"}, "valid_from"),
        ({"valid_from": datetime(2021, 1, 1), "valid_until": datetime(2020, 1, 1)}, "valid_until"),
        ({"sources": [""]}, "sources"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_fact_that_makes_no_sense_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Fact.model_validate({"subject": "user", "predicate": "likes", "object": "tea", **fields})
    with pytest.raises(ValidationError, match="object"):
        Fact.model_validate({"subject": "user", "predicate": "likes"})


Call = Callable[[FactStore], Awaitable[Any]]
TEA = Fact("user", "likes", "tea")
MOMENT = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda f: f.add({"subject": "user"}), "fact must be a Fact, got dict"),
        (lambda f: f.add(TEA, user_id=""), "user_id"),
        (lambda f: f.add(TEA, user_id=7), "user_id must be a string, got int"),
        (lambda f: f.add(TEA, user_id="x" * 254), "user_id must have at most 253"),
        (lambda f: f.add(TEA, source=" "), "source"),
        (lambda f: f.add(TEA, author=3), "author"),
        (lambda f: f.add(TEA, checkpoint=""), "checkpoint"),
        (lambda f: f.add(Fact("user", "likes", "tea", valid_from=MOMENT, valid_until=MOMENT)), "valid_until"),
        (lambda f: f.query(subject=3), "subject must be a string, got int"),
        (lambda f: f.query(predicate=3), "predicate"),
        (lambda f: f.query(object=3), "object"),
        (lambda f: f.query(limit=-1), "limit must be 0 or more"),
        (lambda f: f.query(valid_at="2020"), "valid_at must be a datetime, got str"),
        (lambda f: f.query(known_at=2020), "known_at must be a datetime, got int"),
        (lambda f: f.query(user_id=" "), "user_id"),
        (lambda f: f.history("user", None), "predicate"),
        (lambda f: f.retract(""), "fact_id"),
        (lambda f: f.retract("x", 3), "reason"),
        (lambda f: f.undo(None), "change_id"),
        (lambda f: f.declare("likes", "some"), "'one' or 'many', got 'some'"),
        (lambda f: f.declare("", "one"), "predicate"),
        (lambda f: f.search(3), "query"),
        (lambda f: f.forget_sources("e1"), r"use \['e1'\]"),
        (lambda f: f.forget_checkpoints([3]), r"checkpoints\[0\]"),
    ],
)
def test_bad_input_is_refused_before_anything_is_read(call: Call, complaint: str) -> None:
    async def test() -> None:
        store = InMemoryStore()
        facts = FactStore(store)
        await store.close()  # whatever is asked of it now raises Closed, not InvalidInput
        with pytest.raises(InvalidInput, match=complaint):
            await call(facts)

    asyncio.run(test())


def test_a_namespace_must_be_named() -> None:
    with pytest.raises(InvalidInput, match="namespace"):
        FactStore(InMemoryStore(), namespace="")


def test_a_moment_without_a_zone_is_in_utc(run: Callable[[Test], None]) -> None:
    async def test(facts: FactStore, clock: FrozenClock) -> None:
        await facts.add(Fact("user", "likes", "tea", valid_from=datetime(2020, 1, 1)))
        assert await facts.query(valid_at=datetime(2019, 12, 31, 23)) == []
        assert objects(await facts.query(valid_at=datetime(2020, 1, 1))) == ["tea"]

    run(test)


def test_changes_and_facts_can_not_be_altered() -> None:
    with pytest.raises(ValidationError):
        TEA.object = "coffee"  # type: ignore[misc] # the mistake under test
    with pytest.raises(AttributeError):
        Change("a", "add", MOMENT).author = "me"  # type: ignore[misc] # the mistake under test

"""A memory that says otherwise about a thing of which there is one takes the old one's place; what is unclear stays."""

import asyncio

import pytest

from holdfast.memory.manager import LLMMemoryManager, Memory, MemoryType
from holdfast.memory.manager.slots import slot_of
from holdfast.memory.store import InMemoryStore


async def kept(*contents: str, types: str = "uu") -> tuple[list[str], list[str]]:
    """What is remembered, and what is history, after these under keys that nobody can guess."""
    manager = LLMMemoryManager(InMemoryStore())
    kinds = {"u": MemoryType.USER, "p": MemoryType.PROJECT}
    for number, content in enumerate(contents):
        await manager.save([Memory(type=kinds[types[number]], key=f"random-{number}", content=content)])
    now = sorted(memory.content for memory in await manager.retrieve())
    return now, sorted(item.value["content"] for item in await manager.history())


CONTRADICTIONS = [
    ("The user lives in Lisbon.", "The user lives in Porto."),
    ("Lives in Lisbon", "User now lives in Porto"),
    ("I live in Lisbon.", "The user has moved to Porto."),
    ("The user is based in Berlin.", "The user is currently living in New York City."),
    ("The user works at Acme.", "The user works for Globex."),
    ("User works as a nurse.", "User is now working as a paramedic."),
    ("The user's name is Alice.", "The user is called Alicia."),
    ("The user's favourite colour is green.", "My favorite colour is blue."),
    ("The user's preferred region is us-chicago-1.", "The user's preferred region is eu-frankfurt-1."),
    ("User prefers us-chicago-1 for inference.", "User prefers eu-frankfurt-1 for inference"),
    ("The user prefers tea over coffee.", "The user prefers coffee over tea."),
    ("The user is 41 years old.", "The user's age is 42."),
    ("The user's email is a@example.com", "The user's email is now b@example.com"),
    ("Bob's birthday is 3 May.", "Bob's birthday is 4 May."),
    ("The user is married to Bob.", "The user is married to Robin."),
    ("The user's time zone is CET.", "The user's time zone is UTC."),
]
LOOK_ALIKES = [
    ("The user likes tea.", "The user likes coffee."),
    ("The user lives in Lisbon.", "The user's sister lives in Porto."),
    ("The user lives in Lisbon.", "Bob lives in Porto."),
    ("The user lives in Lisbon.", "The user used to live in Porto."),
    ("The user lives in Lisbon.", "The user was born in Porto."),
    ("The user lives in Lisbon.", "The user may have moved to Porto."),
    ("The user lives in Lisbon.", "The user wants to live in Porto."),
    ("The user lives in Lisbon.", "The user never lived in Porto."),
    ("The user lives in Oslo in winter.", "The user lives in Rome in summer."),
    ("The user works at Acme.", "The user works at Globex on weekends."),
    ("The user works at Acme.", "The user works as a nurse."),
    ("The user lives in Lisbon and works at Acme.", "The user lives in Porto."),
    ("The user's favourite colour is green.", "The user's favourite fruit is figs."),
    ("The user prefers Python for scripts.", "The user prefers Go for services."),
    ("The user prefers short answers.", "The user prefers metric units."),
    ("The user prefers dark mode for the editor.", "The user prefers large fonts for the editor."),
    ("The user prefers us-chicago-1 for inference.", "The user prefers gpt-4 for inference."),
    ("The unit tests live in tests/unit.", "The unit tests live in tests/more."),
    ("The user speaks French.", "The user speaks German."),
    ("The user's cat is called Tom.", "The user's dog is called Rex."),
    ("The user's friend is Bob.", "The user's friend is Carol."),
    ("He lives in Oslo.", "She lives in Rome."),
    ("The user prefers tea over coffee.", "The user prefers water over juice."),
    ("The user is allergic to nuts.", "The user is allergic to milk."),
    ("Remember: the door code changed.", "Remember: the meeting moved to Porto."),
]


@pytest.mark.parametrize(("old", "new"), CONTRADICTIONS)
def test_a_contradiction_under_a_random_key_takes_the_place_of_the_old_one(old: str, new: str) -> None:
    assert asyncio.run(kept(old, new)) == ([new], [old])


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKES)
def test_what_only_looks_like_a_contradiction_stays_beside_it(one: str, other: str) -> None:
    assert asyncio.run(kept(one, other)) == (sorted([one, other]), [])
    assert asyncio.run(kept(other, one)) == (sorted([one, other]), [])


@pytest.mark.parametrize(
    ("rough", "fine"),
    [
        ("The user lives in Lisbon.", "The user lives in Lisbon, Portugal."),
        ("The user works as a nurse.", "The user works as a night nurse."),
        ("The user's birthday is May 3.", "The user's birthday is May 3, 1990."),
    ],
)
def test_a_refinement_takes_the_place_of_the_rough_one_and_is_not_lost_to_it(rough: str, fine: str) -> None:
    assert asyncio.run(kept(rough, fine)) == ([fine], [rough])
    assert asyncio.run(kept(fine, rough)) == ([fine], [])


def test_types_are_apart() -> None:
    old, new = CONTRADICTIONS[0]
    assert asyncio.run(kept(old, new, types="up")) == (sorted([old, new]), [])


def test_the_history_of_a_memory_is_read_by_its_key_which_stays() -> None:
    async def scenario() -> None:
        manager = LLMMemoryManager(InMemoryStore())
        for number, city in enumerate(("Lisbon", "Porto", "Faro")):
            content = f"The user lives in {city}."
            await manager.save([Memory(type=MemoryType.USER, key=f"k{number}", content=content)])
        await manager.save([Memory(type=MemoryType.USER, key="tea", content="The user likes tea.")])
        await manager.save([Memory(type=MemoryType.USER, key="tea", content="The user loves tea.")])
        assert {memory.key for memory in await manager.retrieve()} == {"k0", "tea"}
        assert [item.value["content"] for item in await manager.history("k0")] == [
            "The user lives in Porto.",
            "The user lives in Lisbon.",
        ]
        assert len(await manager.history()) == 3

    asyncio.run(scenario())


def test_two_that_contradict_each_other_already_both_give_way() -> None:
    async def scenario() -> None:
        store = InMemoryStore()
        for key, city in (("a", "Lisbon"), ("b", "Porto")):
            await store.put(("memory", "user"), key, {"content": f"The user lives in {city}."})
        manager = LLMMemoryManager(store)
        new = Memory(type=MemoryType.USER, key="c", content="The user lives in Faro.")
        assert await manager.save([new]) == [new]
        assert [memory.content for memory in await manager.retrieve()] == ["The user lives in Faro."]
        assert len(await manager.history()) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "text", ["", "lives in", "x" * 5_000, "The " * 2_000 + "user lives in Oslo", "'s is"]
)
def test_odd_texts_are_about_nothing(text: str) -> None:
    assert slot_of(text) is None

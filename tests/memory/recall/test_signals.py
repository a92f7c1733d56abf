"""Each signal decides between memories that are alike in all else."""

from dataclasses import fields, replace
from itertools import product
from typing import Any

import pytest

from holdfast.memory.recall import Weights
from holdfast.memory.recall.records import SIGNALS
from tests.memory.recall.support import Memory, ask, day, keys, session

CHATTER = [Memory(f"c{n}", f"Small talk number {n} of a long evening", "z", n) for n in range(6)]


def test_an_answer_without_a_word_of_the_question_is_found_beside_the_match() -> None:
    memories = [*session("s", "How was the concert?", "Loud, but the cellist was amazing."), *CHATTER]
    hits = ask(memories, "Who impressed Bob at the concert?")
    assert keys(hits)[:2] == ["s0", "s1"]
    assert hits[1].parts.keys() >= {"context"}
    assert "words" not in hits[1].parts


def test_context_fades_with_the_distance_and_ends_with_the_window() -> None:
    memories = session("s", "The concert was loud.", "Good.", "Fine.", "Well.")
    parts = {hit.item.key: hit.parts["context"] for hit in ask(memories, "concert") if "context" in hit.parts}
    assert parts["s1"] == pytest.approx(2 * parts["s2"])
    assert "s3" not in parts
    assert keys(ask(memories, "concert", window=1)) == ["s0", "s1"]
    assert keys(ask(memories, "concert", window=0)) == ["s0"]


def test_long_turns_lean_less_on_what_is_beside_them() -> None:
    def share(words: int) -> float:
        memories = session("s", "concert " + "la " * words, "well " * words)
        question, beside = ask(memories, "concert")
        return beside.parts["context"] / question.parts["words"]

    assert share(10) == pytest.approx(0.5)
    assert share(100) < 0.2


def test_a_turn_of_a_session_about_the_matter_comes_before_the_same_turn_elsewhere() -> None:
    # The words of the match are the same; the one in "boat" is not beside the other words, but in their session.
    about = session("boat", "I bought a sailing boat.", "Oh.", "Ah.", "Hm.", "So.", "The paint was red.")
    other = session("wall", "I met my aunt.", "Oh.", "Ah.", "Hm.", "So.", "The paint was red.")
    hits = ask([*about, *other], "Which paint did the sailing boat get?", weights=Weights(duplicate=0.0))
    places = keys(hits)
    assert places.index("boat5") < places.index("wall5")
    assert [hit.parts.get("session", 0.0) > 0 for hit in hits if hit.item.key == "boat5"] == [True]


def test_a_lone_session_tells_nothing() -> None:
    hits = ask(session("s", "I bought a boat.", "The paint was red."), "red paint of the boat")
    assert all("session" not in hit.parts for hit in hits)


def test_who_is_named_in_the_question_comes_first() -> None:
    memories = [
        Memory("a", "My favourite tea is mint", speaker="Alice"),
        Memory("b", "My favourite tea is black", speaker="Bob"),
        Memory("c", "Bob, which tea do you have?", speaker="Alice"),
    ]
    assert keys(ask(memories, "Which tea does Alice like?"))[0] in ("a", "c")
    hits = ask(memories, "Which tea does Bob like?")
    assert keys(hits)[0] == "b"
    assert hits[0].parts["speaker"] > 0
    assert all("speaker" not in hit.parts for hit in hits[1:])


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Which tea did I choose?", "user"),
        ("Which tea did you suggest?", "assistant"),
    ],
)
def test_i_and_you_are_the_sides_of_a_chat_with_an_assistant(question: str, first: str) -> None:
    memories = [
        Memory("user", "tea: mint", speaker="user"),
        Memory("assistant", "tea: black", speaker="assistant"),
    ]
    for order in (memories, memories[::-1]):
        assert keys(ask(order, question))[0] == first


def test_a_speaker_who_is_not_there_changes_nothing() -> None:
    memories = [Memory("a", "tea: mint", speaker="Alice"), Memory("b", "tea: black", speaker="Alice")]
    assert all("speaker" not in hit.parts for hit in ask(memories, "Which tea does Bob like?"))


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What did I cook on 3 May 2026?", "early"),
        ("What did I cook yesterday?", "late"),
        ("What did I cook two weeks ago?", "early"),
    ],
)
def test_a_time_in_the_question_chooses_the_memory_of_that_time(
    question: str, first: str, dated: bool
) -> None:
    memories = [
        Memory("early", "I cook a fish stew", at=day(5, 4), dated=dated),
        Memory("late", "I cook a mushroom soup", at=day(5, 19), dated=dated),
        Memory("old", "I cook a plain rice", at=day(1, 2), dated=dated),
    ]
    for order in (memories, memories[::-1]):
        hits = ask(order, question)
        assert keys(hits)[0] == first
        assert hits[0].parts["time"] > 0


def test_dated_memories_are_found_by_the_date_alone() -> None:
    memories = [
        Memory("hit", "A quiet day at work", at=day(5, 19), dated=True),
        Memory("no", "Rain", at=day(2, 1), dated=True),
    ]
    assert keys(ask(memories, "What happened yesterday?")) == ["hit"]


def test_of_equal_memories_the_recent_one_wins_by_little_and_by_much_if_asked() -> None:
    memories = [Memory("new", "I live in Oslo", at=day(5, 1)), Memory("old", "I live in Rome", at=day(1, 1))]
    plain, current = ask(memories, "Where do I live?"), ask(memories, "Where do I live currently?")
    assert keys(plain) == keys(current) == ["new", "old"]
    assert 0 < plain[0].parts["recency"] < current[0].parts["recency"] / 5


def test_what_has_nothing_to_do_with_the_question_is_not_recalled_for_being_new() -> None:
    memories = [Memory("new", "Rain again", at=day(5, 1)), Memory("old", "I live in Rome", at=day(1, 1))]
    assert keys(ask(memories, "Where do I live currently?")) == ["old"]


def test_less_confidence_takes_from_the_score() -> None:
    memories = [Memory("sure", "tea: mint", confidence=1.0), Memory("guess", "tea: milk", confidence=0.2)]
    hits = ask(memories, "tea")
    assert keys(hits) == ["sure", "guess"]
    assert hits[1].parts["confidence"] < 0
    assert "confidence" not in hits[0].parts


def test_what_says_the_same_as_a_better_one_makes_room_for_others() -> None:
    same = "My red bicycle has a flat tyre"
    other = Memory("other", "A bicycle, even a red one, needs oil, air, a new saddle and a lock that holds")
    memories = [other, *[Memory(name, same) for name in ("one", "two", "three")]]
    hits = ask(memories, "red bicycle")
    assert keys(hits) == ["three", "other", "two", "one"]
    assert ["duplicate" in hit.parts for hit in hits] == [False, False, True, True]
    assert hits[2].parts["duplicate"] < 0
    assert keys(ask(memories, "red bicycle", limit=2)) == ["three", "other"]


def test_vectors_find_what_shares_no_word_and_lift_what_they_agree_on() -> None:
    memories = [
        Memory("far", "tea is served", vector=(0.0, 1.0)),
        Memory("near", "tea for all", vector=(1.0, 0.1)),
        Memory("meant", "a hot drink", vector=(1.0, 0.0)),
    ]
    assert set(keys(ask(memories, "tea"))) == {"near", "far"}
    hits = ask(memories[::-1], "tea", embedding=[1.0, 0.0])
    assert keys(hits)[0] == "near"
    assert set(keys(hits)) == {"near", "far", "meant"}
    assert {hit.item.key: hit.parts.get("meaning", 0.0) > 0 for hit in hits} == {
        "near": True,
        "meant": True,
        "far": False,
    }


def test_vectors_that_disagree_with_the_words_count_less() -> None:
    def meant(vector: tuple[float, ...]) -> float:
        memories = [Memory("w", "tea", vector=vector), Memory("m", "drink", vector=(1.0, 0.0))]
        filler = Memory("f", "fog", vector=(-1.0, 0.0))
        hits = ask([*memories, filler], "tea", embedding=[1.0, 0.0])
        return {hit.item.key: hit.parts.get("meaning", 0.0) for hit in hits}["m"]

    assert meant((0.0, 1.0)) < 0.7 * meant((1.0, 0.0))


def test_without_a_known_word_there_are_only_the_vectors() -> None:
    memories = [Memory("a", "tea", vector=(0.0, 1.0)), Memory("b", "drink", vector=(1.0, 0.0))]
    assert ask(memories, "beverage") == []
    assert keys(ask(memories, "beverage", embedding=[1.0, 0.0]))[0] == "b"


EVERYTHING = [
    *session(
        "s",
        "Which tea?",
        "Mint for me.",
        "Mint tea is good.",
        speaker="Alice",
        at=day(5, 19),
        vector=(0.8, 0.3),
    ),
    *session("t", "Tea with milk?", "Never.", speaker="Bob", at=day(4, 1), confidence=0.5),
    Memory("copy", "Mint tea is good.", at=day(5, 1), vector=(1.0, 0.0)),
    Memory("vector", "A hot drink", vector=(0.1, 0.9)),
]


def test_the_parts_are_named_signals_and_add_up_to_the_score() -> None:
    seen: set[str] = set()
    questions = ("Which mint tea did Alice have yesterday?", "What tea does Bob like lately?", "mint tea")
    for question, embedding in product(questions, (None, [1.0, 0.0])):
        hits = ask(EVERYTHING, question, embedding=embedding)
        assert hits
        for hit in hits:
            assert hit.score == pytest.approx(sum(hit.parts.values()))
            assert all(hit.parts.values())
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        seen |= {name for hit in hits for name in hit.parts}
    assert seen == set(SIGNALS)


@pytest.mark.parametrize("name", [field.name for field in fields(Weights)])
def test_a_weight_of_nothing_switches_its_signal_off(name: str) -> None:
    off: Any = () if name == "context" else 0.0
    weights = replace(Weights(), **{name: off})
    signal = name.removesuffix("_asked")
    question = (
        "Which mint tea does Alice have currently?"
        if name == "recency_asked"
        else "Alice's mint tea yesterday"
    )
    for used, there in ((Weights(), True), (weights, False)):
        hits = ask(EVERYTHING, question, embedding=[1.0, 0.0], weights=used)
        assert any(signal in hit.parts for hit in hits) == there

"""What text search promises: every message of every thread, at its first checkpoint, and nothing else."""

from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import Message, ToolCall
from holdfast.core.state import AgentState
from holdfast.testing.checkpointer_cases.base import (
    CheckpointerCases,
    OpenCheckpointer,
    chat,
    grow,
    hits,
    requires,
    say,
    with_texts,
)

HARMLESS_QUERIES = [
    '"',
    "'",
    '"unclosed phrase',
    "*",
    "apple*",
    "^apple",
    "apple AND",
    "AND OR NOT NEAR",
    "NEAR(apple pear)",
    "content:apple",
    "messages : apple",
    "-apple",
    "(apple",
    "apple)",
    "{apple pear}:",
    "apple; DROP TABLE checkpoints; --",
    "%",
    "_",
    "a_b",
    "[",
    "\\",
    "apple\x00pear",
    "\ud800",
    "apple + pear",
    "apple || pear",
    "apple & pear | !plum",
    "<->",
    "é",
    "🦀",
    "x" * 10_000,
]


class SearchingCases(CheckpointerCases):
    async def test_words_are_found_whatever_their_case_and_ending(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            await checkpointer.save(chat("Deploying the Server tonight"), "t", "c1")
            for query in ("deploy", "DEPLOYED", "servers", "tonight nonsense", "the server"):
                assert await hits(checkpointer, query) == {("t", "c1")}, query
            for query in ("serve-r", "missing", "ser", ""):
                assert await hits(checkpointer, query) == set(), query

    async def test_the_best_hit_comes_first(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            await checkpointer.save(chat("apple pie " + "and much else besides cake " * 10), "long", "c1")
            await checkpointer.save(chat("apple pie"), "best", "c1")
            await checkpointer.save(chat("a pie"), "half", "c1")
            found = await checkpointer.search("apple pie")
            assert found[0]["thread_id"] == "best"
            assert len(found) == 3
            scores = [hit["score"] for hit in found]
            assert scores == sorted(scores, reverse=True)
            assert [hit["thread_id"] for hit in await checkpointer.search("apple pie", 1)] == ["best"]
            assert await checkpointer.search("apple pie", 0) == []

    async def test_a_message_is_one_hit_at_its_first_checkpoint(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            state = chat("start")
            await checkpointer.save(state, "t", "c1")
            state = say(state, "apple", "apple", "pear")
            await checkpointer.save(state, "t", "c2")
            await checkpointer.save(say(state, "plum apple"), "t", "c3")
            found = await checkpointer.search("apple", 100)
            pairs = sorted((hit["checkpoint_id"], hit["snippet"]) for hit in found)
            assert pairs == [("c2", "apple"), ("c3", "plum apple")]

    async def test_a_snippet_is_short_and_shows_the_word(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            await checkpointer.save(chat("filler " * 2000 + "needle" + " filler" * 2000), "t", "c1")
            [hit] = await checkpointer.search("needle")
            assert "needle" in hit["snippet"]
            assert len(hit["snippet"]) < 400

    async def test_an_edited_away_message_is_found_at_its_old_checkpoint(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            state = chat("first", "mistake", "last")
            await checkpointer.save(state, "t", "c1")
            edited = with_texts(state, [state.messages[0], Message.user("correction"), state.messages[2]])
            await checkpointer.save(edited, "t", "c2")
            await checkpointer.save(say(edited, "onward"), "t", "c3")
            assert await hits(checkpointer, "mistake") == {("t", "c1")}
            assert await hits(checkpointer, "correction") == {("t", "c2")}
            assert await hits(checkpointer, "last") == {("t", "c1")}
            assert await hits(checkpointer, "onward") == {("t", "c3")}

    async def test_inherited_messages_are_found_in_a_fork(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search", "branching")
            await grow(checkpointer, "t", 3)
            await checkpointer.fork("t", "c2", "fork")
            await grow(checkpointer, "fork", 1, start=7)
            assert await hits(checkpointer, "m1") == {("t", "c1"), ("fork", "c1")}
            assert await hits(checkpointer, "m3") == {("t", "c3")}
            assert await hits(checkpointer, "m7") == {("fork", "c7")}
            await checkpointer.delete("t")
            assert await hits(checkpointer, "m1") == {("fork", "c1")}
            assert await hits(checkpointer, "m3") == set()
            await checkpointer.delete("fork", "c1")
            assert await hits(checkpointer, "m1") == {("fork", "c2")}

    async def test_what_only_a_deleted_checkpoint_had_is_not_found(
        self, open_checkpointer: OpenCheckpointer
    ) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            await grow(checkpointer, "t", 3)
            await checkpointer.delete("t", "c3")
            assert await hits(checkpointer, "m3") == set()
            await checkpointer.delete("t", "c1")
            assert await hits(checkpointer, "m1") == {("t", "c2")}
            await checkpointer.save(chat("m3"), "t", "c9")
            assert await hits(checkpointer, "m3") == {("t", "c9")}

    async def test_tool_calls_and_results_are_searched(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            call = ToolCall(id="callid", name="weather", arguments={"keyname": {"in": ["Lisbon", 42]}})
            state = AgentState().with_messages([Message.assistant(None, [call]), Message.user("sunshine")])
            await checkpointer.save(state.with_metadata(note="hidden"), "t", "c1", {"note": "metadata"})
            for query in ("weather", "lisbon", "sunshine"):
                assert await hits(checkpointer, query) == {("t", "c1")}, query
            for query in ("callid", "keyname", "user", "role", "content", "hidden", "metadata"):
                assert await hits(checkpointer, query) == set(), query

    async def test_other_scripts_are_searched_too(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            said = {"de": "Größe und Straße", "ru": "Привет мир", "zh": "今天天气很好", "fr": "un café crème"}
            for thread_id, text in said.items():
                await checkpointer.save(chat(text), thread_id, "c1")
            queries = {"de": "GRÖSSE", "ru": "привет", "zh": "天气", "fr": "CAFÉ"}
            for thread_id, query in queries.items():
                assert await hits(checkpointer, query) == {(thread_id, "c1")}, query

    async def test_no_query_is_syntax(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            await checkpointer.save(chat("apple"), "t", "c1")
            await checkpointer.save(chat("near not and or"), "words", "c1")
            for query in HARMLESS_QUERIES:
                found = await hits(checkpointer, query)
                assert (("t", "c1") in found) == ("apple" in query.lower()), query
            bad: list[Any] = [None, 1, b"apple", ["apple"]]
            for query in bad:
                with pytest.raises(InvalidInput, match="query"):
                    await checkpointer.search(query)

    async def test_a_query_without_words_finds_nothing(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            await checkpointer.save(chat("", " ", "?!", "the apple"), "t", "c1")
            for query in ("", " ", "\n", "?!", "...", "*", '""'):
                assert await checkpointer.search(query) == []

    async def test_text_with_anything_in_it_is_found(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            for number, text in enumerate(HARMLESS_QUERIES):
                await checkpointer.save(chat(f"{text} needle{number} {text}"), f"t{number}", "c1")
            for number in range(len(HARMLESS_QUERIES)):
                assert await hits(checkpointer, f"needle{number}") == {(f"t{number}", "c1")}

    async def test_search_knows_what_was_just_saved(self, open_checkpointer: OpenCheckpointer) -> None:
        async with open_checkpointer() as checkpointer:
            requires(checkpointer, "search")
            for number in range(5):
                await checkpointer.save(chat(f"word{number} common"), f"t{number}", "c1")
                assert await hits(checkpointer, f"word{number}") == {(f"t{number}", "c1")}
                assert len(await hits(checkpointer, "common")) == number + 1

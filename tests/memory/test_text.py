"""What a word is, what a query asks for, what a snippet shows, and how BM25 ranks."""

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import Message, ToolCall
from holdfast.memory.ranking import bm25
from holdfast.memory.text import MAX_WORD, analyse, message_text, query_terms, snippet, value_text


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running runs run", ["run", "run", "run"]),
        ("The cat and the hat", ["cat", "hat"]),
        ("Alice's dogs' owners", ["alic", "dog", "owner"]),
        ("don't can’t it's", []),
        ("snake_case kebab-case dotted.name", ["snake", "case", "kebab", "case", "dot", "name"]),
        ("v1.2.3 and 42", ["v1", "2", "3", "42"]),
        ("CAFÉ café Café", ["café", "café", "café"]),
        ("cafe\u0301", ["café"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("ﬁne ｆｕｌｌ", ["fine", "full"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("iPhone東京", ["iphon", "東", "京"]),
        ("한국어", ["한", "국", "어"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Привет мир", ["привет", "мир"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("😀 !? \x00 \ud800", []),
        ("a\x00b", ["b"]),
        ("", []),
    ],
)
def test_words(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


def test_very_long_words_are_cut_alike_in_text_and_query() -> None:
    word = "x9" * 500
    assert analyse(word) == [word[:MAX_WORD]] == query_terms(word)
    assert analyse("é" * 500) == ["é" * MAX_WORD]


@given(st.text(max_size=200))
def test_ascii_words_do_not_depend_on_their_neighbours(text: str) -> None:
    plain = "".join(character for character in text if character < "\x80")
    assert analyse(plain + " é") == [*analyse(plain), "é"]
    assert analyse(plain + " 東") == [*analyse(plain), "東"]


@given(st.text())
def test_terms_are_storable_words(text: str) -> None:
    for term in analyse(text):
        assert term
        assert len(term) <= MAX_WORD
        assert not any(character.isspace() for character in term)
        term.encode()


def test_a_query_has_each_term_once_in_order() -> None:
    assert query_terms("zebra apples ZEBRA and an apple") == ["zebra", "appl"]
    assert query_terms("to be or not to be") == []


def test_threads_share_the_analyser() -> None:
    words = [f"walking{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}s generalizations{n}" for n in range(300)]
    expected = [analyse(word) for word in words]
    results: list[list[list[str]]] = []

    def work() -> None:
        from holdfast.memory import text

        text._terms.clear()
        results.append([analyse(word) for word in words])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


# ── snippets ──────────────────────────────────────────────────────────────────────────────────────


def test_a_short_text_is_its_own_snippet() -> None:
    assert snippet("An apple\n\n a  day", ["appl"]) == "An apple a day"


def test_a_snippet_is_around_the_first_match() -> None:
    text = "lorem ipsum " * 50 + "the Searching of\nthings" + " dolor sit" * 50
    found = snippet(text, query_terms("search"))
    assert "the Searching of things" in found
    assert found.startswith("…")
    assert found.endswith("…")
    assert len(found) <= 160
    assert set(found.strip("…").split()) <= set(text.split())  # no word is cut


@given(st.text(max_size=400), st.integers(4, 80))
def test_a_snippet_fits_and_is_of_the_text(text: str, width: int) -> None:
    terms = analyse(text)[-1:]
    found = snippet(text, terms, width)
    assert len(found) <= width
    if not found.startswith("…") and not found.endswith("…"):
        assert found.strip() == " ".join(text.split()) or "…" in text


def test_a_snippet_without_a_match_is_the_beginning() -> None:
    assert snippet("one two three four", ["zebra"], 9) == "one two…"
    assert snippet("", ["zebra"]) == ""


def test_a_snippet_finds_words_that_change_when_folded() -> None:
    assert "Straße" in snippet("x " * 200 + "Straße" + " y" * 200, query_terms("STRASSE"))
    assert "京" in snippet("x " * 200 + "東京" + " y" * 200, query_terms("京"))


# ── what is searched ──────────────────────────────────────────────────────────────────────────────


def test_value_text_has_the_strings_and_no_keys() -> None:
    value = {"key": ["a", {"deep": ("b", {"d", "c"})}], "n": 1, "none": None, "bytes": b"x"}
    assert value_text(value).split("\n") == ["a", "b", "c", "d"]
    assert value_text("plain") == "plain"
    assert value_text(7) == ""


def test_value_text_looks_into_registered_objects() -> None:
    assert value_text([Message.user("hello")]).split("\n") == ["user", "hello"]


def test_message_text_has_content_and_tool_calls() -> None:
    call = ToolCall(id="secret-id", name="lookup", arguments={"city": "Paris", "deep": [{"x": "y"}], "n": 1})
    assert message_text(Message.assistant("looking", tool_calls=[call])) == "looking\nlookup\nParis\ny"
    assert message_text(Message.user("hi")) == "hi"
    assert message_text(Message.assistant()) == ""


# ── ranking ───────────────────────────────────────────────────────────────────────────────────────


def test_rare_words_weigh_more() -> None:
    frequencies = {"rare": 1, "common": 90}
    rare = bm25({"rare": 1}, 10, frequencies, 100, 10.0)
    common = bm25({"common": 1}, 10, frequencies, 100, 10.0)
    assert rare > common > 0


def test_more_of_a_word_counts_less_and_less() -> None:
    scores = [bm25({"w": count}, 10, {"w": 5}, 100, 10.0) for count in (0, 1, 2, 3)]
    gains = [after - before for before, after in pairwise(scores)]
    assert scores[0] == 0.0
    assert gains[0] > gains[1] > gains[2] > 0


def test_short_documents_rank_before_long_ones() -> None:
    assert bm25({"w": 1}, 5, {"w": 5}, 100, 10.0) > bm25({"w": 1}, 50, {"w": 5}, 100, 10.0)


def test_the_formula() -> None:
    # idf = ln(1 + (10 - 2 + 0.5) / 2.5); tf part = 3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 2))
    assert bm25({"w": 3}, 20, {"w": 2}, 10, 10.0) == pytest.approx(1.4816045 * 6.6 / 5.1)

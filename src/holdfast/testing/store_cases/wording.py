"""What text search promises: our words, our ranking, the same scores on every backend."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.memory.ranking import bm25
from holdfast.memory.text import analyse, query_terms, value_text
from holdfast.testing.store_cases.base import (
    METACHARACTERS,
    NS,
    OpenStore,
    StoreCases,
    fill,
    keys,
    requires,
    wrong,
)
from holdfast.testing.store_cases.listing import pages

ARTICLES: dict[str, Any] = {
    "storage": "The storage engine writes every message once. Writing once keeps the log small.",
    "search": {"title": "Searching", "body": ["ranked search over messages", "with stemming of words"]},
    "cooking": "Boil the pasta, then fry onions. A message from the kitchen: write less, cook more.",
    "long": "engine " * 5 + "filler words that say nothing of interest " * 40,
    "travel": {"note": "trains, planes and search engines for tickets"},
    "empty": "",
    "stop words": "the and of to",
    "number": 42,
}


def expected_scores(items: Mapping[str, Any], query: str) -> dict[str, float]:
    """The definition: BM25 over the terms of the values."""
    counts = {key: Counter(analyse(value_text(value))) for key, value in items.items()}
    counts = {key: terms for key, terms in counts.items() if terms}
    average = sum(terms.total() for terms in counts.values()) / len(counts)
    asked = {term: sum(term in terms for terms in counts.values()) for term in query_terms(query)}
    scores = {key: bm25(terms, terms.total(), asked, len(counts), average) for key, terms in counts.items()}
    return {key: score for key, score in scores.items() if any(term in counts[key] for term in asked)}


class WordingCases(StoreCases):
    async def test_scores_are_those_of_the_definition(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(store, NS, ARTICLES)
            await fill(store, ("suite", "elsewhere"), {f"k{n}": "message engine search" for n in range(20)})
            for query in (
                "message",
                "search engine",
                "writing messages once",
                "filler",
                "engines ENGINE",
                "pasta x",
            ):
                hits = await store.search(NS, query, limit=100, scored=True)
                expected = expected_scores(ARTICLES, query)
                assert {hit.item.key: hit.score for hit in hits} == pytest.approx(expected)
                scores = [hit.score for hit in hits]
                assert scores == sorted(scores, reverse=True)
                assert all(hit.distance is None for hit in hits)
                assert keys(await store.search(NS, query, limit=100)) == keys(hits)

    async def test_the_best_come_first(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(store, NS, ARTICLES)
            assert keys(await store.search(NS, "search", 1)) == ["search"]
            assert keys(await store.search(NS, "write once", 1)) == ["storage"]
            await fill(store, NS, {"rare": "zebra", "common": "message message message"})
            assert keys(await store.search(NS, "zebra messages", 1)) == ["rare"]

    async def test_ties_are_broken_by_age(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(store, NS, dict.fromkeys("dbac", "the same apple"))
            assert keys(await store.search(NS, "apple")) == ["c", "a", "b", "d"]
            assert keys(await store.search(NS, "apple", 2)) == ["c", "a"]
            await store.put(NS, "d", "the same apple")
            assert keys(await store.search(NS, "apple", 2)) == ["d", "c"]

    async def test_words_are_matched_by_their_stem(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(
                store,
                NS,
                {
                    "en": "Running dogs' owners didn't stop",
                    "case": "ÉCOLE Straße",
                    "wide": "ｆｕｌｌ ﬁne",
                    "cjk": "東京タワーに行く",
                    "ko": "한국어 문서",
                    "hi": "हिन्दी भाषा",
                    "code": "snake_case and kebab-case v1.2.3",
                    "mail": "write to ada@example.org",
                },
            )
            for query, found in (
                ("runs", ["en"]),
                ("DOG", ["en"]),
                ("owner", ["en"]),
                ("école", ["case"]),
                ("STRASSE", ["case"]),
                ("full", ["wide"]),
                ("fine", ["wide"]),
                ("京", ["cjk"]),
                ("タワー", ["cjk"]),
                ("한국", ["ko"]),
                ("भाषा", ["hi"]),
                ("snake", ["code"]),
                ("kebab", ["code"]),
                ("example", ["mail"]),
                ("ada", ["mail"]),
                ("cas", []),
                ("run%", ["en"]),
                ("do", []),
                ("ru_ning", []),
            ):
                assert keys(await store.search(NS, query)) == found, query

    async def test_only_the_value_is_searched(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            value = {"fieldname": ["deep", {"x": ("tupled", {"setted"})}], "n": 1, "b": b"bytes"}
            await store.put(NS, "keyword", value, {"meta": "metaword"})
            for query in ("deep", "tupled", "setted"):
                assert keys(await store.search(NS, query)) == ["keyword"], query
            for query in ("fieldname", "keyword", "meta", "metaword", "bytes", "1", "suite"):
                assert await store.search(NS, query) == [], query

    async def test_an_update_replaces_the_words(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(store, NS, {"a": "apple", "b": "apple pear"})
            await store.put(NS, "a", "pear")
            assert keys(await store.search(NS, "apple")) == ["b"]
            assert sorted(keys(await store.search(NS, "pear"))) == ["a", "b"]
            await store.delete(NS, "b")
            assert await store.search(NS, "apple") == []
            found = await store.text_candidates(NS, ["appl", "pear"], 10)
            assert (found.documents, found.average_length) == (1, 1.0)
            assert found.document_frequencies == {"appl": 0, "pear": 1}
            await store.clear_namespace(NS)
            assert await store.search(NS, "pear") == []
            await store.put(NS, "a", "pear")
            hits = await store.search(NS, "pear", scored=True)
            assert {hit.item.key: hit.score for hit in hits} == pytest.approx(
                expected_scores({"a": "pear"}, "pear")
            )

    async def test_queries_are_words_and_nothing_else(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(store, NS, {"apple": "an apple", "pear": "a pear", "near": "near text name"})
            for query in METACHARACTERS:
                terms = query_terms(query)
                expected = {"appl": "apple", "pear": "pear", "near": "near", "text": "near", "name": "near"}
                found = {expected[term] for term in terms if term in expected}
                assert set(keys(await store.search(NS, query))) == found, query
            for query in ("", "  ", "the of and", "!?", "\U0001f600"):
                assert await store.search(NS, query) == [], query
            long_query = " ".join(f"w{n}" for n in range(3000)) + " apple"
            assert keys(await store.search(NS, long_query)) == ["apple"]
            for bad in wrong(1, b"apple", ["apple"]):
                with pytest.raises(InvalidInput, match="query"):
                    await store.search(NS, bad)

    async def test_statistics_are_of_what_was_looked_through(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            below = (*NS, "below")
            await fill(store, NS, {"a": "apple apple pear", "b": "pear", "c": "", "d": 7})
            await fill(store, below, {"a": "apple"})
            await fill(store, ("suite", "items2"), {"a": "apple"})
            found = await store.text_candidates(NS, ["appl", "plum", "pear"], 10)
            assert list(found.document_frequencies.items()) == [("appl", 1), ("plum", 0), ("pear", 2)]
            assert (found.documents, found.average_length) == (2, 2.0)
            by_key = {candidate.item.key: candidate for candidate in found.candidates}
            assert dict(by_key["a"].frequencies) == {"appl": 2, "pear": 1}
            assert (by_key["a"].length, by_key["b"].length) == (3, 1)
            assert by_key["a"].item == await store.get_item(NS, "a")
            wide = await store.text_candidates(NS, ["appl"], 10, prefix=True)
            assert (wide.documents, wide.document_frequencies) == (3, {"appl": 2})
            assert len(wide.candidates) == 2
            if store.capabilities.metadata_filter:
                none = await store.text_candidates(NS, ["appl"], 10, {"no": "such"})
                assert (none.candidates, none.documents, none.document_frequencies) == ((), 2, {"appl": 1})

    async def test_candidates_are_the_best(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            items = {
                f"k{n:02}": "apple " * (n % 7 + 1) + "pear " * (n % 5) + "filler " * n for n in range(40)
            }
            await fill(store, NS, items)
            ranking = sorted(expected_scores(items, "apple pear").items(), key=lambda pair: -pair[1])
            for limit in (1, 5, 20):
                found = await store.text_candidates(NS, ["appl", "pear"], limit)
                assert {c.item.key for c in found.candidates} == {key for key, _ in ranking[:limit]}
                assert found.document_frequencies == {"appl": 40, "pear": 32}
            for bad in wrong("apple", 1, [1], None):
                with pytest.raises(InvalidInput, match="terms"):
                    await store.text_candidates(NS, bad, 10)

    async def test_pages_of_a_ranking_fit_together(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            await fill(store, NS, {f"k{n:02}": "apple " * (n + 1) + "filler " * 30 for n in range(23)})
            whole = keys(await store.search(NS, "apple", limit=100))
            assert len(whole) == 23
            for size in (1, 5, 22, 23, 24):
                found = await pages(partial(store.search, NS, "apple", size))
                assert [item.key for page in found for item in page] == whole
            assert await store.search(NS, "apple", 0) == []

    async def test_search_stays_in_its_namespace(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            requires(store, "text_search")
            for index in range(50):
                await store.put(("tenant", "big"), f"k{index}", "apple apple apple")
            await store.put(("tenant", "small"), "mine", "one apple among other words")
            assert keys(await store.search(("tenant", "small"), "apple", 1)) == ["mine"]
            hits = await store.search(("tenant", "small"), "apple", scored=True)
            expected = expected_scores({"mine": "one apple among other words"}, "apple")
            assert {hit.item.key: hit.score for hit in hits} == pytest.approx(expected)

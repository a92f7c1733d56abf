"""What vector search promises: exact results on every metric, higher scores for what is nearer."""

import math
import random
from collections.abc import Sequence

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.testing.store_cases.base import NS, OpenStore, StoreCases, fill, keys, requires, wrong

METRICS = ("COSINE", "DOT", "EUCLIDEAN", "MANHATTAN", "HAMMING")


def oracle(metric: str, a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Score and distance, by the definition."""
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    if metric == "COSINE":
        cosine = dot / (math.hypot(*a) * math.hypot(*b))
        return cosine, 1 - cosine
    if metric == "DOT":
        return dot, -dot
    if metric == "EUCLIDEAN":
        distance = math.dist(a, b)
    elif metric == "MANHATTAN":
        distance = math.fsum(abs(x - y) for x, y in zip(a, b, strict=True))
    else:
        distance = float(sum(x != y for x, y in zip(a, b, strict=True)))
    return 1 / (1 + distance), distance


class NearnessCases(StoreCases):
    async def test_every_metric_is_exact(self, open_store: OpenStore) -> None:
        source = random.Random(7)
        for metric in METRICS:
            # Quarters are exact in float32; few different values give HAMMING and ties something to do.
            vectors = {
                f"k{index:03}": [source.randint(-6, 6) / 4 for _ in range(8)] + [1.0] for index in range(120)
            }
            query = [source.randint(-6, 6) / 4 for _ in range(9)]
            async with open_store(dimension=9, distance_metric=metric) as store:
                requires(store, "vector_search")
                namespace = (*NS, metric)
                for key, vector in vectors.items():
                    await store.put_with_embedding(namespace, key, {"of": key}, vector)
                wanted = sorted(
                    ((oracle(metric, vector, query)[0], key) for key, vector in vectors.items()), reverse=True
                )
                for limit in (1, 10, 120, 200):
                    hits = await store.search_by_embedding(namespace, query, limit)
                    assert [hit.score for hit in hits] == pytest.approx(
                        [score for score, _ in wanted[:limit]], abs=1e-5
                    )
                    for hit in hits:
                        score, distance = oracle(metric, vectors[hit.item.key], query)
                        assert hit.score == pytest.approx(score, abs=1e-5)
                        assert hit.distance == pytest.approx(distance, abs=1e-5)
                        assert hit.item.value == {"of": hit.item.key}
                assert len({hit.item.key for hit in hits}) == 120

    async def test_equally_near_ones_are_newest_first(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            for key in "dbac":
                await store.put_with_embedding(NS, key, 1, [1, 0])
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["c", "a", "b", "d"]
            assert keys(await store.search_by_embedding(NS, [1, 0], 2)) == ["c", "a"]
            await store.put_with_embedding(NS, "d", 1, [1, 0])
            assert keys(await store.search_by_embedding(NS, [1, 0], 2)) == ["d", "c"]

    async def test_the_threshold_is_a_score_and_included(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2, distance_metric="EUCLIDEAN") as store:
            requires(store, "vector_search")
            for distance in range(4):
                await store.put_with_embedding(NS, f"d{distance}", 1, [float(distance), 0.0])
            origin = [0.0, 0.0]
            assert len(await store.search_by_embedding(NS, origin, threshold=0.5)) == 2
            assert len(await store.search_by_embedding(NS, origin, threshold=1 / 3)) == 3
            assert len(await store.search_by_embedding(NS, origin, threshold=1)) == 1
            assert len(await store.search_by_embedding(NS, origin, threshold=1.5)) == 0
            assert len(await store.search_by_embedding(NS, origin, threshold=-5)) == 4
            assert len(await store.search_by_embedding(NS, origin, 1, threshold=0.1)) == 1
            for bad in wrong("0.5", True, math.nan, math.inf, [1]):
                with pytest.raises(InvalidInput, match="threshold"):
                    await store.search_by_embedding(NS, origin, threshold=bad)

    async def test_the_filter_comes_before_the_limit(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search", "metadata_filter")
            for index in range(50):
                embedding = [math.cos(index / 50), math.sin(index / 50)]
                await store.put_with_embedding(
                    NS, f"k{index}", {"n": index}, embedding, {"odd": bool(index % 2)}
                )
            hits = await store.search_by_embedding(NS, [1, 0], 3, metadata_filter={"odd": True})
            assert keys(hits) == ["k1", "k3", "k5"]
            hits = await store.search_by_embedding(NS, [1, 0], 3, metadata_filter={"value.n": {"$gte": 40}})
            assert keys(hits) == ["k40", "k41", "k42"]
            assert await store.search_by_embedding(NS, [1, 0], 3, metadata_filter={"no": "such"}) == []
            with pytest.raises(InvalidInput, match="metadata_filter"):
                await store.search_by_embedding(NS, [1, 0], metadata_filter={"a": {"$x": 1}})

    async def test_writes_are_seen_at_once(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            await store.put_with_embedding(NS, "a", "old", [1, 0], {"m": 1})
            await store.put_with_embedding(NS, "b", "other", [0, 1])
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["a", "b"]
            await store.put_with_embedding(NS, "a", "moved", [-1, 0])
            hits = await store.search_by_embedding(NS, [1, 0])
            assert keys(hits) == ["b", "a"]
            assert (hits[1].item.value, hits[1].item.metadata) == ("moved", {})
            await store.put(NS, "a", "without a vector")
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["b"]
            assert await store.get(NS, "a") == "without a vector"
            await store.delete(NS, "b")
            assert await store.search_by_embedding(NS, [1, 0]) == []
            await store.put_with_embedding(NS, "b", "again", [1, 0])
            assert keys(await store.search_by_embedding(NS, [1, 0])) == ["b"]
            await store.clear_namespace(NS)
            assert await store.search_by_embedding(NS, [1, 0]) == []

    async def test_vectors_stay_in_their_namespace(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            for place in (("user1",), ("user10",), ("user1", "x"), ("user",)):
                await store.put_with_embedding(place, f"in {place}", 1, [1, 0])
            assert keys(await store.search_by_embedding(("user1",), [1, 0])) == [f"in {('user1',)}"]
            assert await store.search_by_embedding(("nobody",), [1, 0]) == []
            assert await store.search_by_embedding(("user1",), [1, 0], 0) == []

    async def test_items_with_vectors_are_items(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            version = await store.put_with_embedding(NS, "k", {"text": "apple"}, [1, 0], {"m": 1})
            item = await store.get_item(NS, "k")
            assert item is not None
            assert (item.value, item.metadata, item.version) == ({"text": "apple"}, {"m": 1}, version)
            (hit,) = await store.search_by_embedding(NS, [1, 0])
            assert hit.item == item
            if store.capabilities.text_search:
                assert keys(await store.search(NS, "apples")) == ["k"]
            await fill(store, NS, "x")
            assert await store.list_keys(NS) == ["k", "x"]
            assert await store.put_with_embedding(NS, "k", 1, [1, 0]) > version

    async def test_wrong_vectors_are_refused(self, open_store: OpenStore) -> None:
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            bad_vectors = wrong(
                [],
                [1.0],
                [1.0, 2.0, 3.0],
                [math.nan, 1.0],
                [math.inf, 1.0],
                [1e300, 1.0],
                [10**400, 1],
                ["1", "2"],
                "12",
                b"12",
                [True, False],
                [None, 1.0],
                [[1.0, 2.0]],
                None,
                1.0,
                {1.0, 2.0},
                [0.0, 0.0],
            )
            for bad in bad_vectors:
                with pytest.raises(InvalidInput, match="embedding"):
                    await store.put_with_embedding(NS, "k", 1, bad)
                with pytest.raises(InvalidInput, match="query_embedding"):
                    await store.search_by_embedding(NS, bad)
            assert await store.exists(NS, "k") is False
        async with open_store(dimension=2, distance_metric="DOT") as store:
            await store.put_with_embedding((*NS, "dot"), "zero", 1, [0, 0])
            assert keys(await store.search_by_embedding((*NS, "dot"), [0, 0])) == ["zero"]

    async def test_arrays_are_vectors(self, open_store: OpenStore) -> None:
        async with open_store(dimension=3) as store:
            requires(store, "vector_search")
            numpy = pytest.importorskip("numpy", reason="needs numpy")
            for kind in ("float32", "float64", "int8"):
                await store.put_with_embedding(NS, kind, 1, numpy.array([1, 2, 2], dtype=kind))
            (hit, *rest) = await store.search_by_embedding(NS, numpy.array([1.0, 2.0, 2.0]))
            assert hit.score == pytest.approx(1.0, abs=1e-6)
            assert len(rest) == 2
            with pytest.raises(InvalidInput, match="shape"):
                await store.put_with_embedding(NS, "k", 1, numpy.ones((1, 3)))

    async def test_a_namespace_has_one_space(self, open_store: OpenStore) -> None:
        reopen = self.share(open_store)
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            await store.put_with_embedding(NS, "k", 1, [1, 0])
        async with reopen(dimension=3) as other:
            with pytest.raises(InvalidInput, match="dimension"):
                await other.put_with_embedding(NS, "x", 1, [1, 0, 0])
            with pytest.raises(InvalidInput, match="dimension"):
                await other.search_by_embedding(NS, [1, 0, 0])
            assert await other.list_keys(NS) == ["k"]
            await other.put(NS, "plain", 1)
            await other.put_with_embedding((*NS, "below"), "x", 1, [1, 0, 0])
        async with reopen(dimension=2, distance_metric="EUCLIDEAN") as other:
            with pytest.raises(InvalidInput, match="metric"):
                await other.search_by_embedding(NS, [1, 0])
            assert await other.clear_namespace(NS) == 2
            await other.put_with_embedding(NS, "x", 1, [1, 0])
            assert keys(await other.search_by_embedding(NS, [1, 0])) == ["x"]

    async def test_a_namespace_without_items_has_no_space(self, open_store: OpenStore) -> None:
        reopen = self.share(open_store)
        async with open_store(dimension=2) as store:
            requires(store, "vector_search")
            await store.put_with_embedding(NS, "k", 1, [1, 0])
            await store.delete(NS, "k")
        async with reopen(dimension=3) as other:
            await other.put_with_embedding(NS, "x", 1, [1, 0, 0])
            assert keys(await other.search_by_embedding(NS, [1, 0, 0])) == ["x"]

    async def test_another_object_finds_the_vectors(self, open_store: OpenStore) -> None:
        reopen = self.share(open_store)
        async with open_store(dimension=2) as store, reopen(dimension=2) as other:
            requires(store, "vector_search")
            await store.put_with_embedding(NS, "a", 1, [1, 0])
            assert keys(await other.search_by_embedding(NS, [1, 0])) == ["a"]
            await other.put_with_embedding(NS, "b", 1, [0, 1])
            assert keys(await store.search_by_embedding(NS, [0, 1])) == ["b", "a"]
            await store.delete(NS, "a")
            assert keys(await other.search_by_embedding(NS, [0, 1])) == ["b"]
            await other.put(NS, "b", "plain")
            assert await store.search_by_embedding(NS, [0, 1]) == []

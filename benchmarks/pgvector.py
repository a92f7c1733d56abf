"""How much of the exact answer pgvector's index finds, and how long each takes, in a PostgreSQL of your own.

::

    python -m benchmarks.pgvector postgresql://user@host/database --vectors 100000

It makes tables called ``holdfast_bench`` in that database and drops them at the end. Nothing runs it by itself: to
index a hundred thousand vectors takes minutes.
"""

import argparse
import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from holdfast.memory.backends.postgres_store import PostgresStore
from holdfast.memory.store_requests import ItemPut, WriteRequest
from holdfast.memory.vectors import check_vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

NS = ("bench",)
TABLE = "holdfast_bench"
TABLES = ("", "_meta", "_namespaces", "_postings", "_terms", "_nearest", "_vectors", "_counters")
FEW = {"n": 7}  # what one in a hundred items has
_BATCH = 1000


def vectors(count: int, dimension: int, seed: int) -> "Matrix":
    """Vectors in groups, as embeddings are."""
    import numpy as np

    chance = np.random.default_rng(0)
    centres = chance.normal(size=(200, dimension))
    chance = np.random.default_rng(seed)
    noise = 0.6 * chance.normal(size=(count, dimension))
    return (centres[chance.integers(0, len(centres), count)] + noise).astype(np.float32)


async def fill(store: PostgresStore, rows: "Matrix") -> None:
    space = store._space
    assert space is not None
    for start in range(0, len(rows), _BATCH):
        ops = [
            ItemPut(NS, f"k{n}", "1", f'{{"n":{n % 100}}}', "", None, check_vector(row, space))
            for n, row in enumerate(rows[start : start + _BATCH], start)
        ]
        await store._write(WriteRequest(ops, (), space, time.time_ns() // 1000))


async def searched(
    store: PostgresStore, queries: "Matrix", few: dict[str, int] | None
) -> tuple[list[set[str]], float]:
    """The keys of the ten nearest of each query, and the median of the time that it took, in milliseconds."""
    found: list[set[str]] = []
    took: list[float] = []
    for query in queries:
        begun = time.perf_counter()
        hits = await store.search_by_embedding(NS, query, 10, metadata_filter=few)
        took.append(1000 * (time.perf_counter() - begun))
        found.append({hit.item.key for hit in hits})
    return found, median(took)


async def compare(url: str, count: int, dimension: int, metric: str) -> None:
    queries = vectors(50, dimension, 2)
    options: dict[str, Any] = {"dimension": dimension, "distance_metric": metric, "table_name": TABLE}
    async with (
        PostgresStore(url, index_vectors_from=0, **options) as indexed,
        PostgresStore(url, vector_index=False, **options) as exact,
    ):
        begun = time.perf_counter()
        await fill(indexed, vectors(count, dimension, 1))
        filled = time.perf_counter()
        await indexed.index_vectors()
        built = time.perf_counter()
        print(f"{count:,} vectors of {dimension}, {metric}: put in {filled - begun:.0f} s, ", end="")
        print(f"indexed in {built - filled:.0f} s; searched by {await indexed.vector_search_by(NS)}")
        cold = time.perf_counter()
        await exact.search_by_embedding(NS, queries[0], 10)
        print(f"exact search by an object that has no vectors in memory: {time.perf_counter() - cold:.2f} s")
        for few in (None, FEW):
            right, exactly = await searched(exact, queries, few)
            hits, took = await searched(indexed, queries, few)
            share = sum(len(a & b) for a, b in zip(right, hits, strict=True)) / sum(map(len, right))
            full = sum(len(each) == 10 for each in hits)
            print(f"{'filtered, 1 in 100 passes' if few else 'no filter'}: recall {share:.4f}, ", end="")
            print(f"ten of ten in {full} of {len(hits)} searches, {took:.1f} ms; exact {exactly:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--metric", default="COSINE")
    given = parser.parse_args()
    try:
        asyncio.run(compare(given.url, given.vectors, given.dimension, given.metric))
    finally:
        _drop(given.url)


def _drop(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {TABLE}{table} CASCADE".encode())


if __name__ == "__main__":
    main()

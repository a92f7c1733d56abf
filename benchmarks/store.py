"""Vector search in the SQLite store: against numpy on a matrix in memory, and against reading the rows by hand."""

import asyncio
import gc
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest import mock

from benchmarks.report import Measure, at_most, duration, fact
from benchmarks.settings import Settings, progress
from benchmarks.timing import ratio
from benchmarks.workload import Writer, encode
from holdfast.memory.backends.sqlite_engine import Durability
from holdfast.memory.backends.sqlite_store import SQLiteStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

DIMENSION = 384
NAMESPACES = 10
FOUND = 10
_BATCH = 1000
_CALLBACK_LIMIT = 0.020


def run(settings: Settings) -> list[Measure]:
    """The measures of the store."""
    import numpy as np

    data = Data.make(settings.items, settings.queries)
    folder = settings.place("store")
    progress(f"store: putting {settings.items:,} items")
    asyncio.run(_fill(folder / "ours.db", data))
    _fill_by_hand(folder / "floor.db", data)
    progress("store: searching")
    gc.collect()
    warm, found = asyncio.run(_warm(folder / "ours.db", data))
    cold = asyncio.run(_cold(folder, data, max(3, settings.repeat)))
    exact = [set(_exact(np, data.matrices[0], query)) for query in data.queries]
    recall = sum(len(set(keys) & wanted) for keys, wanted in zip(found, exact, strict=True)) / (
        FOUND * len(exact)
    )
    slowest = asyncio.run(_slowest_callback(folder / "ours.db", data))
    of = f"{settings.items // NAMESPACES:,} of {settings.items:,} items"
    return [
        *warm.measures(f"warm search of {of}, {FOUND} items included", 3.0, "numpy"),
        *cold.measures(f"first search of {of} by a fresh object", 3.0, "fetchall"),
        fact("recall against the exact answer", f"{recall:.4g}", "1"),
        at_most(
            "longest callback on the event loop, CPU of its thread", slowest, _CALLBACK_LIMIT, "s", timed=True
        ),
    ]


@dataclass
class Data:
    """Vectors of each namespace, made around a few centres as embeddings are, and queries for the first one."""

    matrices: list["Matrix"]
    queries: list["Matrix"]

    @classmethod
    def make(cls, items: int, queries: int) -> "Data":
        import numpy as np

        random = np.random.default_rng(1)
        centres = random.standard_normal((50, DIMENSION), dtype=np.float32)

        def vectors(count: int) -> "Matrix":
            noise = random.standard_normal((count, DIMENSION), dtype=np.float32)
            return centres[random.integers(0, len(centres), count)] + noise

        matrices = [vectors(items // NAMESPACES) for _ in range(NAMESPACES)]
        return cls(matrices, list(vectors(queries)))


@dataclass
class Spent:
    """CPU and wall time of both sides, pair by pair."""

    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wall: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @contextmanager
    def of(self, side: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu[side].append(time.process_time() - cpu)
        self.wall[side].append(time.perf_counter() - wall)

    def measures(self, what: str, limit: float, floor_name: str) -> list[Measure]:
        return [
            Measure(
                f"{kind} of a {what}",
                duration(median(spent["ours"])),
                duration(median(spent["floor"])),
                (found := ratio(spent["ours"], spent["floor"])),
                f"<= {limit:g} x {floor_name}",
                found <= limit,
                timed=True,
                value=found,
                samples=dict(spent),
                note=_strictly(spent),
            )
            for kind, spent in (("CPU", self.cpu), ("time", self.wall))
        ]


def _strictly(spent: Mapping[str, list[float]]) -> str:
    if "strict" not in spent:
        return ""
    return f"{ratio(spent['ours'], spent['strict']):.2f} x a fetchall of keys and vectors alone"


# ── filling ───────────────────────────────────────────────────────────────────────────────────────


def _open(path: Path, durability: Durability = "full") -> SQLiteStore:
    return SQLiteStore(path, dimension=DIMENSION, durability=durability)


def _namespace(number: int) -> tuple[str, str]:
    return ("users", f"user {number}")


async def _fill(path: Path, data: Data) -> None:
    """Many items a transaction, by the hook that all of the store's writes end in: the filling is not measured."""
    writer = Writer()
    async with _open(path, "normal") as store:
        for number, matrix in enumerate(data.matrices):
            for start in range(0, len(matrix), _BATCH):
                ops = [
                    replace(
                        store._item_put(
                            _namespace(number), f"{start + row}", {"text": writer.text(100)}, {"row": row}
                        ),
                        vector=vector.tobytes(),
                    )
                    for row, vector in enumerate(matrix[start : start + _BATCH])
                ]
                await store._write(store._write_request(ops))


def _fill_by_hand(path: Path, data: Data) -> None:
    """The same items, a row each, as anybody would keep them."""
    writer = Writer()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    columns = "ns TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, metadata TEXT NOT NULL, vector BLOB NOT NULL"
    connection.execute(f"CREATE TABLE items (id INTEGER PRIMARY KEY, {columns})")
    connection.execute("CREATE INDEX items_ns ON items (ns)")
    for number, matrix in enumerate(data.matrices):
        rows = (
            (
                f"users/{number}",
                str(row),
                encode({"text": writer.text(100)}),
                encode({"row": row}),
                vector.tobytes(),
            )
            for row, vector in enumerate(matrix)
        )
        connection.executemany(
            "INSERT INTO items (ns, key, value, metadata, vector) VALUES (?, ?, ?, ?, ?)", rows
        )
    connection.commit()
    connection.close()


# ── searching ─────────────────────────────────────────────────────────────────────────────────────


async def _warm(path: Path, data: Data) -> tuple[Spent, list[list[str]]]:
    import numpy as np

    unit = _unit(np, data.matrices[0])
    spent, found = Spent(), []
    async with _open(path) as store:
        await store.search_by_embedding(_namespace(0), data.queries[0], FOUND)
        for query in data.queries:
            with spent.of("ours"):
                hits = await store.search_by_embedding(_namespace(0), query, FOUND)
            with spent.of("floor"):
                _nearest(np, unit, query)
            found.append([hit.item.key for hit in hits])
    return spent, found


async def _cold(folder: Path, data: Data, repeat: int) -> Spent:
    """Against reading the whole rows by hand, and, more strictly, no more of them than a search needs."""
    spent = Spent()
    for _ in range(repeat):
        for side, columns in (("floor", "key, value, metadata, vector"), ("strict", "key, vector")):
            with spent.of(side):
                connection = sqlite3.connect(folder / "floor.db")
                query = f"SELECT {columns} FROM items WHERE ns = ?"
                rows = connection.execute(query, ("users/0",)).fetchall()
                connection.close()
            assert len(rows) == len(data.matrices[0])
            del rows
        with spent.of("ours"):
            store = _open(folder / "ours.db")
            await store.search_by_embedding(_namespace(0), data.queries[0], FOUND)
            await store.close()
    return spent


def _unit(np: Any, matrix: "Matrix") -> "Matrix":
    unit: Matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


def _nearest(np: Any, unit: "Matrix", query: "Matrix") -> Any:
    """What numpy needs at the least: one product, the ten best, in order."""
    scores = unit @ (query / np.linalg.norm(query))
    best = np.argpartition(scores, len(scores) - FOUND)[-FOUND:]
    return best[np.argsort(-scores[best])]


def _exact(np: Any, matrix: "Matrix", query: "Matrix") -> list[str]:
    """In double precision, by a full sort."""
    wide = matrix.astype(np.float64)
    scores = wide @ query.astype(np.float64) / np.linalg.norm(wide, axis=1)
    return [str(row) for row in np.argsort(-scores)[:FOUND]]


async def _slowest_callback(path: Path, data: Data) -> float:
    """Cold and warm searches, puts, and a search that must notice them, with every callback of the loop watched."""
    query = data.queries[0]
    store = _open(path)
    with watched() as spent:
        for number in range(NAMESPACES):
            await asyncio.gather(
                *(store.search_by_embedding(_namespace(number), q, FOUND) for q in data.queries[:3])
            )
        for number in range(5):
            await store.put_with_embedding(_namespace(0), f"new {number}", {"text": "a new item"}, query)
        await store.search_by_embedding(_namespace(0), query, FOUND)
        await asyncio.sleep(0)
    await store.close()
    return max(spent)


@contextmanager
def watched() -> Iterator[list[float]]:
    """The thread's CPU of every callback that the event loop runs meanwhile."""
    spent: list[float] = []
    run_handle: Callable[[Any], None] = asyncio.events.Handle._run

    def run_watched(handle: Any) -> None:
        begin = time.thread_time()
        run_handle(handle)
        spent.append(time.thread_time() - begin)

    with mock.patch.object(asyncio.events.Handle, "_run", run_watched):
        yield spent

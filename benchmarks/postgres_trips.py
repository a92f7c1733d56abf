"""How often PostgreSQL is spoken to, and what that means on a network with a delay; many conversations at once."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.conversation import as_messages
from benchmarks.report import Measure, duration, fact, within_floor
from benchmarks.settings import Settings, progress
from benchmarks.timing import interleaved
from benchmarks.workload import conversation
from holdfast.core.state import AgentState

DELAY = 0.005
CONVERSATIONS = 64
CONNECTIONS = 10
NewDatabase = Callable[[], str]


def measures(settings: Settings, database: NewDatabase, socket: Path) -> list[Measure]:
    """What the proxy counts, and what the server plans."""
    progress("PostgreSQL: round trips")
    return [
        *asyncio.run(_through_proxy(settings, database(), socket)),
        asyncio.run(_index_scan(database(), settings)),
    ]


class Watched:
    """Counts round trips, then measures the same with a delay."""

    def __init__(self, proxy: Any) -> None:
        self._proxy = proxy
        self.trips: dict[str, set[int]] = {}
        self.times: dict[str, list[float]] = {}

    async def __call__(self, what: str, call: Awaitable[Any]) -> Any:
        before, begin = self._proxy.turns, time.perf_counter()
        value = await call
        self.times.setdefault(what, []).append(time.perf_counter() - begin)
        self.trips.setdefault(what, set()).add(self._proxy.turns - before)
        return value

    def measures(self, wanted: dict[str, int]) -> Iterator[Measure]:
        for what, trips in wanted.items():
            counted = " or ".join(map(str, sorted(self.trips[what])))
            yield fact(f"PostgreSQL: round trips of {what}", counted, str(trips))
        for what, trips in wanted.items():
            # The quickest: what other programs on the machine add says nothing about round trips.
            took = min(self.times[what])
            limit = (trips + 1) * DELAY
            yield Measure(
                f"PostgreSQL: time of {what}, {duration(DELAY)} of network delay",
                duration(took),
                duration(DELAY),
                took / DELAY,
                f"< {trips + 1} x delay",
                took < limit,
                timed=True,
                note=f"the quickest of {len(self.times[what])}; the median is {duration(median(self.times[what]))}",
                samples={"measured": self.times[what]},
            )


RAW = "a raw insert"
KNOWN, FIRST, GIVEN = (
    "a save with a known parent",
    "the first save of a thread",
    "a save under an id of its own",
)
UNKNOWN, LOAD, NEWEST = "a save by somebody new", "a load", "the ten newest ids with metadata"
WANTED = {RAW: 1, KNOWN: 1, FIRST: 2, GIVEN: 2, UNKNOWN: 2, LOAD: 1, NEWEST: 1}


async def _through_proxy(settings: Settings, url: str, socket: Path) -> list[Measure]:
    from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
    from tests.servers.proxy import Proxy

    turns = as_messages(conversation(10 if settings.quick else 100))
    with Proxy(socket) as proxy:
        proxy.delay = DELAY
        watched = Watched(proxy)
        database = url.partition("@/")[2].partition("?")[0]
        address = (
            f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}?sslmode=disable&gssencmode=disable"
        )
        async with (
            PostgreSQLCheckpointer(address, max_pool_size=1) as ours,
            PostgreSQLCheckpointer(address, max_pool_size=1) as other,
        ):
            await ours.exists("t")
            await other.exists("t")
            for number in range(5):
                state = AgentState().with_messages(turns[0])
                parent = await watched(FIRST, ours.save(state, f"t{number}"))
                for messages in turns[1 : 2 + len(turns) // 5]:
                    state = state.with_messages(messages)
                    parent = await watched(KNOWN, ours.save(state, f"t{number}", parent=parent))
                state = state.with_messages(turns[-1])
                parent = await watched(GIVEN, ours.save(state, f"t{number}", "mine", parent=parent))
                state = state.with_messages(turns[-1])
                await watched(UNKNOWN, other.save(state, f"t{number}", parent=parent))
                await watched(LOAD, ours.load(f"t{number}"))
                await watched(NEWEST, ours.history(f"t{number}", limit=10))
        await _insert(address, watched)
        return list(watched.measures(WANTED))


async def _insert(address: str, watched: Watched) -> None:
    import psycopg

    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
        await connection.execute("CREATE TABLE log (body TEXT NOT NULL)")
        for number in range(6):
            insert = connection.execute("INSERT INTO log VALUES (%s)", ("text",), prepare=True)
            await (watched(RAW, insert) if number else insert)  # it is prepared by the first


# ── the plan of the server ────────────────────────────────────────────────────────────────────────


async def _index_scan(url: str, settings: Settings) -> Measure:
    """How the server finds the ten newest checkpoints of one of many threads, in the product's own words."""
    from benchmarks.postgres_floor import sql
    from holdfast.memory.backends.postgres import PostgreSQLCheckpointer
    from holdfast.memory.backends.sql import reading

    messages = as_messages(conversation(5))
    threads, checkpoints = 100, 20 if settings.quick else 100
    async with PostgreSQLCheckpointer(url, text_index=False) as checkpointer:

        async def converse(number: int) -> None:
            state = AgentState()
            for turn in range(checkpoints):
                state = state.with_messages(messages[turn % 5][:1])
                await checkpointer.save(state, f"thread {number}", metadata={"turn": turn})

        await asyncio.gather(*map(converse, range(threads)))
        key = checkpointer._key("thread 7")
        _, question = next(reading.newest(checkpointer._tables, key, 10, None, 0))
    # Checkpoints that others have deleted and forks still read.
    sql(
        url,
        "INSERT INTO holdfast_hidden SELECT decode(md5(n::text), 'hex'), n FROM generate_series(1, 5000) n",
    )
    sql(url, "VACUUM ANALYZE")
    text, params = question.sql.replace("?", "%s"), list(question.params)
    ((plan,),) = sql(url, f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", params)
    nodes = list(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    kinds = [node["Node Type"] for node in nodes]
    scans = [n for n in nodes if n.get("Relation Name") == "holdfast_checkpoints"]
    told = ", ".join(
        f"{n['Node Type']} of {n['Actual Rows']:.0f} rows by {n.get('Index Name')}" for n in scans
    )
    holds = [n["Node Type"] for n in scans] == ["Index Scan"] and not {"Seq Scan", "Sort", "Hash"} & {*kinds}
    return fact(
        f"PostgreSQL: scans of {checkpoints * threads:,} checkpoints for the ten newest ids with metadata",
        told,
        "one index scan, no sort",
        holds=holds and scans[0]["Actual Rows"] <= 10,
        note=" > ".join(kinds),
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


# ── many at once ──────────────────────────────────────────────────────────────────────────────────


def at_once(settings: Settings, database: NewDatabase) -> list[Measure]:
    """Many conversations in one process, on a few connections."""
    from benchmarks.postgres_floor import insert_many

    turns = conversation(5 if settings.quick else 20, settings.vocabulary)
    outcomes: list[Outcome] = []

    def ours(number: int) -> float:
        progress(f"PostgreSQL: {CONVERSATIONS} conversations, round {number + 1}")
        outcomes.append(asyncio.run(_converse(database(), turns)))
        return outcomes[-1][0]

    def raw(_: int) -> float:
        return asyncio.run(insert_many(database(), CONVERSATIONS, turns, CONNECTIONS))

    rounds = interleaved({"raw": raw, "ours": ours}, settings.repeat)
    saves = CONVERSATIONS * len(turns)
    whole = f"{CONVERSATIONS} of {CONVERSATIONS}"
    return [
        fact(
            f"PostgreSQL: conversations at once, {len(turns)} turns each, that are whole at the end",
            f"{min(kept for _, kept, _ in outcomes)} of {CONVERSATIONS}",
            whole,
        ),
        within_floor(
            f"PostgreSQL: client CPU of {saves:,} saves in {CONVERSATIONS} conversations at once",
            rounds["ours"],
            rounds["raw"],
            3.0,
            floor_name="raw insert",
            note=f"{CONNECTIONS} connections; {saves / median(took for _, _, took in outcomes):,.0f} saves a second",
        ),
    ]


Outcome = tuple[float, int, float]
"""CPU, how many conversations are whole, and the time that the saves took."""


async def _converse(url: str, turns: list[Any]) -> Outcome:
    from holdfast.memory.backends.postgres import PostgreSQLCheckpointer

    told = [as_messages(turns) for _ in range(CONVERSATIONS)]
    final: list[AgentState] = [AgentState()] * CONVERSATIONS
    async with PostgreSQLCheckpointer(
        url, max_pool_size=CONNECTIONS, min_pool_size=CONNECTIONS
    ) as checkpointer:

        async def converse(number: int) -> None:
            state, parent = AgentState(), None
            for messages in told[number]:
                state = state.with_messages(messages)
                parent = await checkpointer.save(state, f"thread {number}", parent=parent)
            final[number] = state

        await asyncio.gather(*(checkpointer.exists("thread") for _ in range(CONNECTIONS)))
        begin, clock = time.process_time(), time.perf_counter()
        await asyncio.gather(*map(converse, range(CONVERSATIONS)))
        took, elapsed = time.process_time() - begin, time.perf_counter() - clock
        kept = [await checkpointer.load(f"thread {n}") == final[n] for n in range(CONVERSATIONS)]
    return took, sum(kept), elapsed

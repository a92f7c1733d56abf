"""LangGraph's AsyncPostgresSaver with the same conversation. Run by its environment's Python; tells JSON.

As its users have it: message objects of langchain-core, the default serializer, a connection as it makes it itself.
"""

import asyncio
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from langgraph.checkpoint.postgres.aio import (  # type: ignore[import-not-found]  # it is in the peer's environment
    AsyncPostgresSaver,
)

from benchmarks.peers.langgraph_saver import as_messages, first_config, put
from benchmarks.postgres_floor import insert_all, sql, total_bytes
from benchmarks.timing import Run, interleaved
from benchmarks.workload import Turn, Vocabulary, conversation, json_bytes, text_bytes
from tests.servers.proxy import Proxy

PACKAGES = ("langgraph-checkpoint-postgres", "langgraph-checkpoint", "langchain-core", "psycopg")


async def save_all(url: str, turns: list[Turn]) -> Run:
    run, told = Run(), [as_messages(turn) for turn in turns]
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        config, messages = first_config("thread"), list[Any]()
        for step, turn in enumerate(told, 1):
            before = time.process_time()
            messages = [*messages, *turn]
            config = await put(saver, config, messages, step)
            run.saves.append(time.process_time() - before)
    return run


async def watch(url: str, socket: Path, delay: float, turns: list[Turn]) -> dict[str, Any]:
    """Round trips and times behind a proxy with a delay."""
    trips: dict[str, list[int]] = {"save": [], "load": []}
    times: dict[str, list[float]] = {"save": [], "load": []}
    with Proxy(socket) as proxy:
        proxy.delay = delay
        database = url.partition("@/")[2].partition("?")[0]
        address = (
            f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}?sslmode=disable&gssencmode=disable"
        )
        async with AsyncPostgresSaver.from_conn_string(address) as saver:
            config, messages = first_config("another thread"), list[Any]()
            for step, turn in enumerate(turns[:20], 1):
                messages = [*messages, *as_messages(turn)]
                before, begin = proxy.turns, time.perf_counter()
                config = await put(saver, config, messages, step)
                times["save"].append(time.perf_counter() - begin)
                trips["save"].append(proxy.turns - before)
                before, begin = proxy.turns, time.perf_counter()
                await saver.aget_tuple(first_config("another thread"))
                times["load"].append(time.perf_counter() - begin)
                trips["load"].append(proxy.turns - before)
    return {
        "trips": {what: median(found) for what, found in trips.items()},
        "times": {what: min(found) for what, found in times.items()},
    }


def main(count: int, vocabulary: Vocabulary, delay: float, socket: Path, urls: list[str]) -> dict[str, Any]:
    turns = conversation(count, vocabulary)
    half = len(urls) // 2
    rounds = interleaved(
        {
            "floor": lambda n: asyncio.run(insert_all(urls[half + n], turns)),
            "peer": lambda n: asyncio.run(save_all(urls[n], turns)),
        },
        half,
    )
    sql(urls[0], "VACUUM")
    part = min(100, count // 3)
    return {
        "versions": {name: version(name) for name in PACKAGES},
        "saves": [sum(run.saves) for run in rounds["peer"]],
        "floor": [sum(run.saves) for run in rounds["floor"]],
        "first": [sum(run.saves[1 : part + 1]) for run in rounds["peer"]],
        "last": [sum(run.saves[-part:]) for run in rounds["peer"]],
        "disk": sum(total_bytes(urls[0], "checkpoint").values()),
        "json": json_bytes(turns),
        "text": text_bytes(turns),
        **asyncio.run(watch(urls[0], socket, delay, turns)),
    }


if __name__ == "__main__":
    _, turn_count, words, seconds, path, *addresses = sys.argv
    chosen: Vocabulary = "uniform" if words == "uniform" else "zipf"
    print(json.dumps(main(int(turn_count), chosen, float(seconds), Path(path), addresses)))

"""What LangGraph's saver for PostgreSQL costs, in its own environment, on the same server."""

import json
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers import PYTHON
from benchmarks.postgres_trips import DELAY, NewDatabase
from benchmarks.report import Measure, duration, not_measured, size
from benchmarks.settings import ROOT, Settings, progress
from benchmarks.timing import ratio

_WHAT = "LangGraph's AsyncPostgresSaver"


def measures(settings: Settings, database: NewDatabase, socket: Path) -> list[Measure]:
    """For comparison: peers are held to no bound."""
    if not PYTHON.exists() or not _installed():
        return [not_measured(_WHAT, "needs its environment: run `make bench-peers`")]
    progress("PostgreSQL: LangGraph")
    rounds = max(1, settings.repeat // 2)
    urls = [database() for _ in range(2 * rounds)]
    sizes = [str(settings.peer_turns), settings.vocabulary, str(DELAY), str(socket)]
    command = [str(PYTHON), "-m", "benchmarks.peers.langgraph_postgres", *sizes, *urls]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return _measures(settings, json.loads(done.stdout))


def _installed() -> bool:
    find = "import importlib.util as u; import sys; sys.exit(u.find_spec('langgraph.checkpoint.postgres') is None)"
    return subprocess.run([str(PYTHON), "-c", find], check=False).returncode == 0


def _measures(settings: Settings, found: dict[str, Any]) -> list[Measure]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    turns, trips = settings.peer_turns, found["trips"]
    return [
        Measure(
            f"{_WHAT}: client CPU of {turns:,} saves",
            duration(median(found["saves"])),
            duration(median(found["floor"])),
            ratio(found["saves"], found["floor"]),
            timed=True,
            note=f"{versions}; langchain-core messages, the whole state at each save",
            samples={"measured": found["saves"], "floor": found["floor"]},
        ),
        Measure(
            f"{_WHAT}: client CPU of the last 100 saves against the first 100",
            duration(median(found["last"])),
            duration(median(found["first"])),
            ratio(found["last"], found["first"]),
            timed=True,
        ),
        Measure(
            f"{_WHAT}: disk after {turns:,} turns",
            size(found["disk"]),
            size(found["json"]),
            found["disk"] / found["json"],
            note=f"after VACUUM; the floor is the messages' JSON; {found['disk'] / found['text']:.0f} x the bare text",
        ),
        *(
            Measure(
                f"{_WHAT}: time of a {what}, {duration(DELAY)} of network delay",
                duration(found["times"][what]),
                duration(DELAY),
                found["times"][what] / DELAY,
                timed=True,
                note=f"the quickest of 20; {trips[what]:g} round trips",
            )
            for what in trips
        ),
    ]

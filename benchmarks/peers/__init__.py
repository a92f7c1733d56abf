"""What others cost, each in an environment of its own."""

import json
import subprocess
from dataclasses import dataclass
from statistics import median

from benchmarks.report import Measure, duration, not_measured, size
from benchmarks.settings import ROOT, Settings, progress
from benchmarks.timing import ratio

PYTHON = ROOT / ".venv-peers" / "bin" / "python"
_WHAT = "LangGraph's AsyncSqliteSaver"
_TASKS = 16


@dataclass(frozen=True)
class PeerReport:
    """What a peer's script tells. Lists have a value for each round; ``saves`` and ``sizes`` are for the plot."""

    versions: dict[str, str]
    durability: str
    total: list[float]
    floor: list[float]
    disk: int
    json: int
    saves: list[float]
    sizes: list[tuple[int, int]]
    kept: int
    appended: int


def measure(settings: Settings) -> PeerReport | None:
    """Run the peer's script in its environment; ``None`` if there is none."""
    if not PYTHON.exists():
        return None
    progress("peers: LangGraph")
    folder = settings.place("peers")
    rounds = str(max(1, settings.repeat // 2))
    sizes = [str(settings.peer_turns), rounds, str(settings.appends), settings.vocabulary]
    command = [str(PYTHON), "-m", "benchmarks.peers.langgraph_saver", str(folder), *sizes]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return PeerReport(**json.loads(done.stdout))


def run(settings: Settings) -> list[Measure]:
    """The measures of the peers."""
    return measures(settings, measure(settings))


def measures(settings: Settings, found: PeerReport | None) -> list[Measure]:
    """For comparison: peers are held to no bound."""
    if found is None:
        return [not_measured(_WHAT, "needs its environment: run `make bench-peers`")]
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    return [
        Measure(
            f"{_WHAT}: CPU of {settings.peer_turns:,} saves and close",
            duration(median(found.total)),
            duration(median(found.floor)),
            ratio(found.total, found.floor),
            timed=True,
            note=f"{versions}; {found.durability}; langchain-core messages, the whole state at each save",
            samples={"measured": found.total, "floor": found.floor},
        ),
        Measure(
            f"{_WHAT}: disk after {settings.peer_turns:,} turns",
            size(found.disk),
            size(found.json),
            found.disk / found.json,
            note="the floor is the messages' JSON; it grows with the square of the turns",
        ),
        Measure(
            f"{_WHAT}: messages of {_TASKS} tasks in the final state",
            f"{found.kept} of {found.appended}",
            note="the last writer wins",
        ),
    ]

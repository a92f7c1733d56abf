"""The picture: CPU of a save and size on disk as a conversation grows."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.conversation import THREAD, as_messages
from benchmarks.floors import database_bytes, write_log
from benchmarks.peers import PeerReport
from benchmarks.saving import BLOCKING, FLOOR, INDEXED, PLAIN, Savings
from benchmarks.settings import Settings, progress
from benchmarks.workload import Turn, json_bytes
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteCheckpointer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "bench-saving.png"
MEMORY_FILE = "bench-agent-memory.png"
_BUCKET = 25
_COLOURS = {INDEXED: "#0b6e4f", PLAIN: "#3aa17e", BLOCKING: "#8fd0b5", FLOOR: "#555555", "peer": "#c8553d"}
_LABELS = {
    INDEXED: "Holdfast",
    PLAIN: "Holdfast, no text index",
    BLOCKING: "Holdfast, blocking twin, no text index",
    FLOOR: "floor: hand-written delta log",
    "peer": "LangGraph AsyncSqliteSaver",
}


@dataclass
class Curves:
    """For each line its points, by turn."""

    cpu: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    disk: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


def draw(settings: Settings, savings: Savings, peer: PeerReport | None, folder: Path) -> Path:
    """Make the picture; returns its path."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    curves = gather(settings, savings, peer)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5), constrained_layout=True)
    for axes, lines, label in (
        (left, curves.cpu, "CPU of a save, ms"),
        (right, curves.disk, "size on disk, MB"),
    ):
        for name, points in lines.items():
            turns, values = zip(*points, strict=True)
            style = "--" if name == FLOOR else "-"
            axes.plot(
                turns,
                values,
                style,
                color=_COLOURS.get(name, "#999999"),
                label=_LABELS.get(name, name),
                lw=1.8,
            )
        axes.set_yscale("log")
        axes.set_xlabel("turns in the conversation")
        axes.set_ylabel(label)
        axes.set_xlim(0, settings.turns)
        axes.grid(visible=True, which="major", color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:g}")
    _mark_catching_up(left, curves.cpu[INDEXED])
    named = {line.get_label(): line for axes in (left, right) for line in axes.get_lines()}
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    figure.suptitle("One conversation, one durable save a turn", fontsize=12)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def draw_memory(turns: Sequence[float], resident: Sequence[float], folder: Path) -> Path:
    """An agent's memory over its turns; returns the picture's path."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), constrained_layout=True)
    axes.plot(turns, [count / 1e6 for count in resident], color=_COLOURS[INDEXED], lw=1.8)
    axes.set_ylim(0, max(resident) / 1e6 * 1.25)
    axes.set_xlim(0, max(turns))
    axes.set_xlabel("turns, over all threads")
    axes.set_ylabel("resident memory, MB")
    axes.grid(visible=True, which="major", color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("One agent, one process, many conversations", fontsize=12)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MEMORY_FILE
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def _mark_catching_up(axes: "Axes", points: Sequence[tuple[int, float]]) -> None:
    """The text index follows the saves in strides: say what the peaks are, if there are any."""
    turn, value = max(points, key=lambda point: point[1])
    if value > 2 * median(value for _, value in points):
        place: dict[str, Any] = {
            "xytext": (0, 8),
            "textcoords": "offset points",
            "ha": "center",
            "fontsize": 8.5,
        }
        axes.annotate("the text index\ncatches up", (turn, value), color=_COLOURS[INDEXED], **place)


def gather(settings: Settings, savings: Savings, peer: PeerReport | None) -> Curves:
    """The points of each line. Sizes are taken in a run of its own, which is not timed."""
    progress("plot: sizes")
    curves = Curves()
    for name in (INDEXED, PLAIN, BLOCKING, FLOOR):
        rounds = [_bucketed(run.saves) for run in savings.runs[name]]
        curves.cpu[name] = [
            (points[0][0], median(value for _, value in points)) for points in zip(*rounds, strict=True)
        ]
    folder = settings.place("plot")
    curves.disk[INDEXED] = asyncio.run(_sizes(folder / "ours.db", savings.turns))
    curves.disk[FLOOR] = _floor_sizes(folder, savings.turns)
    sums = [(n, json_bytes(savings.turns[:n]) / 1e6) for n in _marks(savings.turns)]
    curves.disk["messages' JSON"] = sums
    if peer is not None:
        curves.cpu["peer"] = _bucketed(peer.saves)
        curves.disk["peer"] = [(turn, count / 1e6) for turn, count in peer.sizes]
    return curves


def _bucketed(saves: Sequence[float]) -> list[tuple[int, float]]:
    """Means of so many turns each, in milliseconds, at the middle turn."""
    starts = range(0, len(saves) - len(saves) % _BUCKET, _BUCKET)
    return [(at + _BUCKET // 2, sum(saves[at : at + _BUCKET]) / _BUCKET * 1e3) for at in starts]


def _marks(turns: Sequence[Turn]) -> range:
    return range(2 * _BUCKET, len(turns) + 1, 2 * _BUCKET)


async def _sizes(path: Path, turns: Sequence[Turn]) -> list[tuple[int, float]]:
    """With the index caught up at each point: a search sees to it."""
    points: list[tuple[int, float]] = []
    state = AgentState()
    async with SQLiteCheckpointer(path) as checkpointer:
        for number, messages in enumerate(as_messages(turns), 1):
            state = state.with_messages(messages)
            await checkpointer.save(state, THREAD)
            if number in _marks(turns):
                await checkpointer.search("anything", 1)
                points.append((number, database_bytes(path) / 1e6))
    return points


def _floor_sizes(folder: Path, turns: Sequence[Turn]) -> list[tuple[int, float]]:
    """The floor is a plain log: a part of it is as large as a log of that part."""
    points = []
    for number in list(_marks(turns))[::-4]:
        write_log(folder / f"floor-{number}.db", turns[:number])
        points.append((number, database_bytes(folder / f"floor-{number}.db") / 1e6))
    return points[::-1]

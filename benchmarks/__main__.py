"""Measure, print the table, draw the plot; exit with 1 if a bound is missed."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    agent,
    conditions,
    contention,
    deleting,
    forking,
    importing,
    listing,
    loading,
    peers,
    postgres,
    recall,
    recall_speed,
    saving,
    store,
    syncing,
)
from benchmarks.report import Measure, print_table, write_json, write_markdown
from benchmarks.settings import ROOT, Settings, progress_done

GROUPS: dict[str, tuple[str, Callable[[Settings], list[Measure]]]] = {
    "saving": ("Saving a conversation", saving.run),
    "syncing": ("Syncing to disk", syncing.run),
    "loading": ("Loading", loading.run),
    "forking": ("Forking", forking.run),
    "deleting": ("Deleting", deleting.run),
    "listing": ("Listing threads", listing.run),
    "contention": ("Many writers on one thread", contention.run),
    "store": ("The store: vector search", store.run),
    "recall": ("Recall: what is found", recall.run),
    "recall-speed": ("Recall: what it costs", recall_speed.run),
    "agent": ("The agent", agent.run),
    "importing": ("import holdfast", importing.run),
    "postgres": ("PostgreSQL", postgres.run),
    "peers": ("Peers, for comparison", peers.run),
}


class Session:
    """One run of some of the groups."""

    def __init__(self, settings: Settings, plot: Path | None) -> None:
        self._settings = settings
        self._plot = plot
        self._savings: saving.Savings | None = None
        self._peer: peers.PeerReport | None = None
        self.measures: list[Measure] = []

    def run(self, name: str) -> None:
        title, measure = GROUPS[name]
        # What the plot needs is kept.
        if name == "saving":
            self._savings = saving.Savings(self._settings)
            self._savings.measure()
            found = saving.measures(self._savings)
        elif name == "peers":
            self._peer = peers.measure(self._settings)
            found = peers.measures(self._settings, self._peer)
        else:
            found = measure(self._settings)
        self.show(name, title, found)

    def show(self, name: str, title: str, found: Sequence[Measure]) -> None:
        progress_done()
        self.measures += [replace(measure, group=name) for measure in found]
        print_table(title, found)

    def draw(self) -> None:
        if self._plot is not None and self._savings is not None:
            from benchmarks.plot import draw

            path = draw(self._settings, self._savings, self._peer, self._plot)
            progress_done()
            print(f"plot: {path}")
        memory = next((m for m in self.measures if "bytes" in m.samples), None)
        if self._plot is not None and memory is not None:
            from benchmarks.plot import draw_memory

            print(f"plot: {draw_memory(memory.samples['turns'], memory.samples['bytes'], self._plot)}")

    def missed(self) -> list[Measure]:
        """Timings at the sizes of a quick look prove nothing, so they fail nothing."""
        return [m for m in self.measures if m.passed is False and not (m.timed and self._settings.quick)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if every bound is kept."""
    options = _parser().parse_args(arguments)
    names = options.names or list(GROUPS)
    plot = options.plot or (None if options.quick or options.names else ROOT / "build" / "benchmarks")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=options.folder) as folder:
        repeat = options.repeat or (1 if options.quick else 5)
        if options.quick:
            settings = Settings.small(Path(folder), repeat, options.vocabulary)
        else:
            settings = Settings(Path(folder), repeat, vocabulary=options.vocabulary)
        session = Session(settings, plot)
        environment = conditions.environment()
        print(_told(environment))
        print(f"CPU as time.process_time; medians of {repeat}; vocabulary {options.vocabulary}")
        if conditions.busy():
            print("this machine is busy with other work: timings, and their ratios, will be off")
        if options.quick:
            print(
                "quick: small sizes; the bounds are for the full ones, and missed timings fail nothing here"
            )
        print()
        session.show("conditions", "The product's defaults", conditions.defaults())
        for name in names:
            session.run(name)
        session.draw()
    if options.json is not None:
        write_json(options.json, environment, session.measures)
    if options.markdown is not None:
        write_markdown(options.markdown, f"{_told(environment)}; medians of {repeat}.", session.measures)
    missed = session.missed()
    kept = sum(measure.passed is True for measure in session.measures)
    print(
        f"{kept} bounds kept, {len(missed)} missed"
        + "".join(f"\n  missed: {measure.what}" for measure in missed)
    )
    return 1 if missed else 0


def _told(environment: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in environment.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of: {', '.join(GROUPS)} (all)", type=_group
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds (5)")
    parser.add_argument(
        "--vocabulary", choices=("zipf", "uniform"), default="zipf", help="how frequent words are"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's values there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the results into that document")
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="draw there (build/benchmarks, if all is measured)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where to make databases (the temporary folder)"
    )
    return parser


def _group(name: str) -> str:
    if name not in GROUPS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(GROUPS)}")
    return name


if __name__ == "__main__":
    sys.exit(main())

"""One line for each thing that was measured, and the table of them."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from benchmarks.timing import ratio


@dataclass(frozen=True)
class Measure:
    """What was measured, its floor, and the bound that it is held to.

    ``passed`` is ``None`` for what has no bound or could not be measured. A ``timed`` one depends on the machine's
    speed, the others give the same result on every machine.
    """

    what: str
    measured: str
    floor: str = ""
    ratio: float | None = None
    bound: str = ""
    passed: bool | None = None
    timed: bool = False
    note: str = ""
    value: float | None = None
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    group: str = ""

    @property
    def verdict(self) -> str:
        return {True: "PASS", False: "FAIL", None: "-"}[self.passed]


# ── how a measure comes about ─────────────────────────────────────────────────────────────────────


def within_floor(
    what: str,
    measured: list[float],
    floor: list[float],
    limit: float,
    *,
    floor_name: str = "floor",
    note: str = "",
) -> Measure:
    """CPU seconds of each round against the floor's of the same round; the median ratio is held to the limit."""
    found = ratio(measured, floor)
    return Measure(
        what,
        duration(median(measured)),
        duration(median(floor)),
        found,
        f"<= {limit:g} x {floor_name}",
        found <= limit,
        timed=True,
        note=note,
        value=found,
        samples={"measured": measured, "floor": floor},
    )


def at_most(
    what: str, value: float, limit: float, unit: str = "", *, timed: bool = False, note: str = ""
) -> Measure:
    """One number held to a limit."""
    return Measure(
        what,
        quantity(value, unit),
        bound=f"<= {quantity(limit, unit)}",
        passed=value <= limit,
        timed=timed,
        note=note,
        value=value,
    )


def fact(what: str, found: str, wanted: str, *, holds: bool | None = None, note: str = "") -> Measure:
    """Something that is so or is not so."""
    return Measure(what, found, bound=wanted, passed=found == wanted if holds is None else holds, note=note)


def not_measured(what: str, why: str) -> Measure:
    return Measure(what, "not measured", note=why)


def quantity(value: float, unit: str) -> str:
    if unit == "s":
        return duration(value)
    if unit == "B":
        return size(value)
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    return f"{number} {unit}".rstrip()


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def size(count: float) -> str:
    if count >= 10 * 1024**2:
        return f"{count / 1024**2:.1f} MB"
    return f"{count / 1024:.1f} KB" if count >= 1024 else f"{count:.0f} B"


# ── the table ─────────────────────────────────────────────────────────────────────────────────────

_HEADINGS = ("measure", "measured", "floor", "ratio", "bound", "")


def cells(measure: Measure) -> tuple[str, ...]:
    shown = "" if measure.ratio is None else f"{measure.ratio:.2f}"
    return (measure.what, measure.measured, measure.floor, shown, measure.bound, measure.verdict)


def print_table(title: str, measures: Sequence[Measure], stream: TextIO | None = None) -> None:
    """Coloured in a terminal, plain text elsewhere."""
    stream = stream or sys.stdout
    if stream.isatty():
        _print_rich(title, measures, stream)
    else:
        _print_plain(title, measures, stream)


def _print_rich(title: str, measures: Sequence[Measure], stream: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", caption_justify="left")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in {"measured", "floor", "ratio"} else "left")
    colours = {"PASS": "green", "FAIL": "bold red", "-": "dim"}
    for measure in measures:
        *texts, verdict = cells(measure)
        table.add_row(*texts, f"[{colours[verdict]}]{verdict}[/]")
    console = Console(file=stream)
    console.print(table)
    for note in _notes(measures):
        console.print(f"  [dim]{note}[/]")


def _print_plain(title: str, measures: Sequence[Measure], stream: TextIO) -> None:
    rows = [_HEADINGS, *map(cells, measures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    print(f"{title}\n", file=stream)
    for row in rows:
        columns = zip(row, widths, strict=True)
        shown = [text.rjust(w) if 0 < n < 4 else text.ljust(w) for n, (text, w) in enumerate(columns)]
        print("  " + "  ".join(shown).rstrip(), file=stream)
    for note in _notes(measures):
        print(f"  {note}", file=stream)
    print(file=stream, flush=True)


def _notes(measures: Iterable[Measure]) -> list[str]:
    return [f"{measure.what}: {measure.note}" for measure in measures if measure.note]


def write_json(path: Path, conditions: Mapping[str, str], measures: Sequence[Measure]) -> None:
    """All of it, with every round's value."""
    document: dict[str, Any] = {
        "conditions": conditions,
        "measures": [asdict(measure) for measure in measures],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ── the results in a document ─────────────────────────────────────────────────────────────────────

_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"


def write_markdown(path: Path, preface: str, measures: Sequence[Measure]) -> None:
    """Put the results into a document, in place of those between its two marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, mark, after = rest.partition(_END)
    if not mark:
        raise ValueError(f"{path} has no lines {_BEGIN!r} and {_END!r} to put the results between")
    table = ["| measure | measured | floor | ratio | bound | |", "|---|---:|---:|---:|---|---|"]
    table += ["| " + " | ".join(cells(measure)) + " |" for measure in measures]
    notes = [f"- {note}" for note in _notes(measures)]
    text = "\n".join([_BEGIN, preface, "", *table, "", *notes, _END])
    path.write_text(before + text + after, encoding="utf-8")

"""``import holdfast`` in a fresh interpreter: what it costs, and what it does not import."""

import os
import resource
import subprocess
import sys

from benchmarks.report import Measure, at_most, duration, fact
from benchmarks.settings import Settings, progress
from benchmarks.timing import interleaved

HEAVY = ("pydantic", "asyncio", "numpy", "sqlite3")
LIMIT = 0.030


def run(settings: Settings) -> list[Measure]:
    """The measures of importing."""
    from statistics import median

    progress("importing: fresh interpreters")
    _start("import holdfast")  # compiles what was not
    rounds = interleaved(
        {"bare": lambda _: _start("pass"), "holdfast": lambda _: _start("import holdfast")},
        2 * settings.repeat + 1,
    )
    bare, whole = median(rounds["bare"]), median(rounds["holdfast"])
    extra = median(w - b for w, b in zip(rounds["holdfast"], rounds["bare"], strict=True))
    loaded = f"import sys; import holdfast; print(*(name for name in {HEAVY} if name in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True, env=_plain()
    )
    return [
        at_most(
            "CPU of `import holdfast`, the interpreter's own start taken off",
            max(extra, 0.0),
            LIMIT,
            "s",
            timed=True,
            note=f"{duration(whole)} with the interpreter's start, which alone takes {duration(bare)}",
        ),
        fact(f"imported with it, of {', '.join(HEAVY)}", found.stdout.strip() or "none", "none"),
    ]


def _start(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=_plain())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _plain() -> dict[str, str]:
    """Without hooks of a debugger or a coverage tool, which import things of their own."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}

"""Running an example as its reader would: in a process of its own, with nothing set in the environment."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def bare_environment(**variables: str) -> dict[str, str]:
    """The environment without whatever would choose a model or a database."""
    chosen = ("HOLDFAST_", "ORACLE_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(chosen) and not name.endswith("_API_KEY")
    }
    return {**kept, "PYTHONIOENCODING": "utf-8", **variables}


def run_example(name: str, *arguments: str, code: int = 0, **variables: str) -> str:
    """What it prints; it must end with that code. Errors are part of it where one is expected."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=bare_environment(**variables),
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")

"""How often the disk is waited for, counted from outside: once for each commit, and not at all if so chosen."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.children import ROOT

SAVES = 50

PROGRAM = """
import os, sys
from holdfast.memory.backends.sqlite import SQLiteSyncCheckpointer
from tests.reliability.jobs import state_of

with SQLiteSyncCheckpointer(sys.argv[1], durability=sys.argv[2]) as twin:
    twin.save(state_of(1), "t")
    os.write(1, b"the saves begin\\n")
    for number in range(2, 2 + int(sys.argv[3])):
        twin.save(state_of(number), "t")
    os.write(1, b"the saves end\\n")
"""


def _syncs(folder: Path, durability: str) -> list[str]:
    """The files that were synced, in order, between the first save and the last."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace: to count what the process asks of the disk")
    trace = folder / "trace"
    command = [strace, "-f", "-y", "-e", "trace=fsync,fdatasync,sync_file_range,write", "-o", str(trace)]
    run = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, str(folder / "synced.db"), durability, str(SAVES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode and ("ptrace" in run.stderr.lower() or "Operation not permitted" in run.stderr):
        pytest.skip("needs strace with the right to trace")
    assert run.returncode == 0, run.stderr
    text = trace.read_text()
    between = text[text.index("the saves begin") : text.index("the saves end")]
    return [
        Path(name).name for name in re.findall(r"(?:fsync|fdatasync|sync_file_range)\(\d+<([^>]*)>", between)
    ]


def test_a_durable_save_waits_for_the_disk_once(tmp_path: Path) -> None:
    assert _syncs(tmp_path, "full") == ["synced.db-wal"] * SAVES


def test_a_save_of_normal_durability_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    assert _syncs(tmp_path, "normal") == []

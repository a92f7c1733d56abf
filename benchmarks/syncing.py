"""One fsync for each commit, checkpoints of the write-ahead log apart.

Counted by a small library that stands before libc's fsync and fdatasync in a process of its own. A commit that
makes SQLite fold its log into the file also syncs for that, and the one after it for the log's new header: these are
the checkpoints that the count leaves apart.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

from benchmarks.conversation import THREAD, as_messages, save_all
from benchmarks.report import Measure, fact, not_measured
from benchmarks.settings import ROOT, Settings, progress
from benchmarks.tracing import traced
from benchmarks.workload import conversation
from holdfast.memory.backends.sqlite import SQLiteCheckpointer

_WHAT = "fsyncs of a commit, WAL checkpoints apart"
_COMMIT = "commit"

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(int fd) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 2);
    const char *log = getenv("BENCH_SYNC_LOG");
    if (length <= 0 || log == NULL) return;
    name[length] = '\n';
    int out = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (out >= 0) { if (write(out, name, length + 1) < 0) abort(); close(out); }
}

int fsync(int fd) {
    static int (*real)(int);
    if (real == NULL) real = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    note(fd);
    return real(fd);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (real == NULL) real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    note(fd);
    return real(fd);
}
"""


def run(settings: Settings) -> list[Measure]:
    """The measures of syncing."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return [not_measured(_WHAT, "needs Linux and a C compiler, for a library that counts")]
    progress("syncing: counting")
    folder = settings.place("syncing")
    source, library, log = folder / "count.c", folder / "count.so", folder / "syncs.txt"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "BENCH_SYNC_LOG": str(log)}
    command = [
        sys.executable,
        "-m",
        "benchmarks.syncing",
        str(folder / "ours.db"),
        str(log),
        str(settings.turns),
    ]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    return [_verdict(log.read_text().splitlines())]


def _verdict(lines: list[str]) -> Measure:
    commits = _commits(lines)
    apart = [bool({"file"} & set(syncs)) for syncs in commits]
    plain = [
        len(syncs)
        for number, syncs in enumerate(commits)
        if not apart[number] and not (number and apart[number - 1])
    ]
    counts = sorted(set(plain))
    return fact(
        _WHAT,
        " or ".join(map(str, counts)) or "none seen",
        "1",
        note=f"{len(commits):,} commits, {sum(map(len, commits)):,} fsyncs, {sum(apart)} checkpoints",
    )


def _commits(lines: list[str]) -> list[list[str]]:
    """What was synced after each commit began: "wal", "file" or "other"."""
    commits: list[list[str]] = []
    for line in lines:
        if line == _COMMIT:
            commits.append([])
        elif commits:
            kind = "wal" if line.endswith("-wal") else "file" if line.endswith(".db") else "other"
            commits[-1].append(kind)
    return commits


async def _save_counted(path: Path, log: Path, turns: int) -> None:
    """In the counting process: save, and write down in the same log when a commit begins."""
    with log.open("a", buffering=1) as marks, traced(lambda: _CommitListener(marks)):
        checkpointer = SQLiteCheckpointer(path)
        await checkpointer.exists(THREAD)
        marks.truncate(0)  # to make the files takes syncs of its own
        await save_all(checkpointer, as_messages(conversation(turns)))


class _CommitListener:
    """Notes the commits of a connection. Those of transactions that only read sync nothing and don't count."""

    def __init__(self, marks: TextIO) -> None:
        self._marks = marks
        self._writes = False

    def __call__(self, sql: str) -> None:
        if sql.startswith("BEGIN"):
            self._writes = sql == "BEGIN IMMEDIATE"
        elif sql == "COMMIT" and self._writes:
            self._marks.write(f"{_COMMIT}\n")


if __name__ == "__main__":
    asyncio.run(_save_counted(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))

"""Short-lived processes: forked from a server that has imported everything and has opened no database.

A child runs one function of `tests.reliability.jobs`, reports lines on a pipe, and may be killed. Starting one costs a
few milliseconds instead of half a second.
"""

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
JOBS = "tests.reliability.jobs"
LONGEST_SECONDS = 60.0
NEEDED = {"oracle": "tests.oracle.crossing"}
"""What a child imports that is given an address of that kind: its server does, before the first of them."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What a child reported until its end, and how it ended (``None``: by itself, and well)."""

    lines: list[str]
    killed: bool
    failure: str | None

    @property
    def acknowledged(self) -> list[str]:
        """What follows "ack " in the lines."""
        return [line.removeprefix("ack ") for line in self.lines if line.startswith("ack ")]


class Children:
    """The client's side: starts the server with the first child. ``module`` is what is run as the server."""

    module = "tests.reliability.children"

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-m", self.module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def run(self, job: str, *, kill_after: float | None = None, **arguments: Any) -> Outcome:
        """One child. ``kill_after``: so many seconds after it said "ready" it is killed."""
        return self.run_all(job, [arguments], kill_after=kill_after)[0]

    def run_all(
        self, job: str, arguments: list[dict[str, Any]], *, kill_after: float | None = None
    ) -> list[Outcome]:
        """Several children at the same time."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"job": job, "kill_after": kill_after, "each": arguments}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the server of children ended"
        return [Outcome(**outcome) for outcome in json.loads(answer)]

    def must(self, job: str, **arguments: Any) -> list[str]:
        """One child that has to end by itself, and well; returns its lines."""
        outcome = self.run(job, **arguments)
        assert outcome.failure is None, outcome.failure
        return outcome.lines


# ── the server's side ─────────────────────────────────────────────────────────────────────────────


class _Child:
    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.pipe = pipe
        self.text = b""
        self.deadline = time.monotonic() + LONGEST_SECONDS

    def take(self, kill_after: float | None) -> bool:
        """Read what is there; ``False`` at the end of the pipe, which is the end of the child."""
        data = os.read(self.pipe, 65536)
        if kill_after is not None and b"ready\n" in data:
            self.deadline = time.monotonic() + kill_after
        self.text += data
        return bool(data)

    def outcome(self) -> dict[str, Any]:
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        lines = self.text.decode().splitlines()
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        failure = None if status == 0 or killed else f"status {status}: " + "\n".join(lines)
        return {"lines": lines, "killed": killed, "failure": failure}


def serve() -> None:
    """Answer requests on the standard input, one line each, until it ends."""
    jobs = importlib.import_module(JOBS)
    while line := sys.stdin.readline():
        request = json.loads(line)
        job = getattr(jobs, request["job"])
        for arguments in request["each"]:
            if module := NEEDED.get(str(arguments.get("url", "")).partition(":")[0]):
                importlib.import_module(module)
        children = [_start(job, arguments) for arguments in request["each"]]
        _watch(children, request["kill_after"])
        print(json.dumps([child.outcome() for child in children]), flush=True)


def _watch(children: list[_Child], kill_after: float | None) -> None:
    running = {child.pipe: child for child in children}
    while running:
        wait = min(child.deadline for child in running.values()) - time.monotonic()
        ready, _, _ = select.select(list(running), [], [], max(0.0, wait))
        for pipe in ready:
            if not running[pipe].take(kill_after):
                del running[pipe]
        for child in running.values():
            if time.monotonic() >= child.deadline:
                os.kill(child.pid, signal.SIGKILL)
                child.deadline += LONGEST_SECONDS


def _start(job: Callable[..., None], arguments: dict[str, Any]) -> _Child:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(pid, reading)
    status = 1
    try:
        os.close(reading)
        sys.stdin.close()
        os.dup2(2, 1)  # what a job prints must not reach the client as an answer

        def report(line: str) -> None:
            os.write(writing, line.encode() + b"\n")

        try:
            job(report, **arguments)
            status = 0
        except BaseException:
            report(traceback.format_exc())
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve()

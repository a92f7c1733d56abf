"""Threads that are forked, go on, and are deleted in any order leave nothing behind, and nothing dangling."""

import random
import sqlite3
from pathlib import Path

import pytest

from holdfast.core.messages import Message
from holdfast.core.state import AgentState
from holdfast.memory.backends.sqlite import SQLiteSyncCheckpointer
from tests.reliability.invariants import assert_sound


def _live(threads: SQLiteSyncCheckpointer, draw: random.Random, steps: int) -> dict[str, AgentState]:
    """Do something to a random thread, again and again; returns what each one's newest state is."""
    states = {"root": AgentState()}
    threads.save(states["root"], "root")
    for number in range(steps):
        name = draw.choice(sorted(states))
        kind = draw.choices(("save", "fork", "delete", "drop", "prune"), (6, 5, 3, 2, 1))[0]
        if kind == "save":
            states[name] = states[name].with_message(Message.user(f"{number}"))
            threads.save(states[name], name)
        elif kind == "fork":
            at = draw.choice(threads.list_checkpoints(name, 100))
            threads.fork(name, at, f"fork {number}")
            states[f"fork {number}"] = threads.load(f"fork {number}") or AgentState()
        elif kind == "delete" and len(states) > 1:
            threads.delete(name)
            del states[name]
        elif kind == "drop" and len(ids := threads.list_checkpoints(name, 100)) > 1:
            threads.delete(name, draw.choice(ids))
            states[name] = threads.load(name) or AgentState()
        elif kind == "prune":
            threads.prune(keep_last=3)
    return states


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_after_forks_and_deletions_is_needed_and_whole(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "forks.db"
    with SQLiteSyncCheckpointer(path, durability="normal") as threads:
        states = _live(threads, random.Random(seed), 90)
        assert {name: threads.load(name) for name in threads.list_threads(1000)} == states
        assert_sound(path)
        counted = sum(len(threads.list_checkpoints(name, 1000)) for name in states)
        assert threads.stats().checkpoints == counted
        for name in random.Random(seed).sample(sorted(states), len(states)):
            threads.delete(name)
    connection = sqlite3.connect(path)
    try:
        left = {
            table: connection.execute(f"SELECT COUNT(*) FROM holdfast_{table}").fetchone()[0]
            for table in ("threads", "lives", "ghosts", "hidden", "checkpoints", "entries", "writes")
        }
    finally:
        connection.close()
    assert set(left.values()) == {0}, left

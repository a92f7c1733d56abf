"""How large and how often: the sizes that the bounds are for, and small ones for a quick look."""

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workload import Vocabulary

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Settings:
    """``folder`` is where databases are made: on a real disk, or durability costs nothing."""

    folder: Path
    repeat: int = 5
    quick: bool = False
    vocabulary: Vocabulary = "zipf"
    turns: int = 1000
    peer_turns: int = 500
    fork_lengths: tuple[int, ...] = (10, 100, 1000, 5000)
    forks: int = 15
    generations: int = 40
    threads: int = 10_000
    checkpoints: int = 10
    tasks: int = 16
    processes: int = 8
    appends: int = 20
    items: int = 100_000
    queries: int = 50
    memories: int = 100_000
    users: int = 1000
    agent_turns: int = 150
    conversations: int = 200
    conversation_turns: int = 12
    lengths: tuple[int, int] = (10, 1000)
    memory_turns: int = 10_000
    memory_threads: int = 100

    @classmethod
    def small(cls, folder: Path, repeat: int, vocabulary: Vocabulary) -> "Settings":
        """Sizes for a quick look. Timings at these sizes prove nothing."""
        return cls(
            folder=folder,
            repeat=repeat,
            quick=True,
            vocabulary=vocabulary,
            turns=150,
            peer_turns=60,
            fork_lengths=(10, 100, 200),
            forks=3,
            generations=3,
            threads=300,
            checkpoints=5,
            processes=3,
            appends=4,
            items=3000,
            queries=10,
            memories=2000,
            users=20,
            agent_turns=20,
            conversations=20,
            conversation_turns=5,
            lengths=(5, 30),
            memory_turns=100,
            memory_threads=10,
        )

    def place(self, name: str) -> Path:
        """A new folder under that name."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def progress(text: str) -> None:
    """Tell a person who watches what is being done."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {text}", end="", file=sys.stderr, flush=True)


def progress_done() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)

"""Measuring side by side: what is compared takes turns within each round, so that a busy moment hits both.

Only the standard library is imported here, so that a peer's environment can use it too.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Run:
    """One conversation that was saved: CPU of each save, and of all of it up to the end of close."""

    saves: list[float] = field(default_factory=list)
    total: float = 0.0


def interleaved(subjects: Mapping[str, Callable[[int], T]], repeat: int) -> dict[str, list[T]]:
    """Call every subject once a round, with the round's number; each round begins with another one."""
    names = list(subjects)
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(repeat):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            gc.collect()
            results[name].append(subjects[name](number))
    return results


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU, of all threads of this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def ratio(measured: list[float], floor: list[float]) -> float:
    """The median of the rounds' ratios."""
    return median(ours / theirs for ours, theirs in zip(measured, floor, strict=True))

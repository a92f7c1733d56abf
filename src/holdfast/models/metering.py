"""Count the tokens of model calls that somebody makes on the way, for who wants to know."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.models.base import Usage

__all__ = ["Meter", "count", "metered"]


class Meter:
    """What was used while it ran, and in how many calls."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.calls = 0

    def add(self, usage: Usage) -> None:
        self.usage += usage
        self.calls += 1


_meter: ContextVar[Meter | None] = ContextVar("holdfast_meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """A meter for the calls of `complete_as` inside the block; one inside another has its calls to itself."""
    meter = Meter()
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def count(usage: Usage) -> None:
    """Tell the meter that runs here, if one does."""
    meter = _meter.get()
    if meter is not None:
        meter.add(usage)

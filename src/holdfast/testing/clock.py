"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime

from holdfast.core.clock import from_us, to_us

_START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class FrozenClock:
    """Tells the same time until it is told otherwise. It may be moved backwards, as real clocks are."""

    def __init__(self, start: datetime = _START) -> None:
        self._now_us = to_us(start)

    def now_us(self) -> int:
        return self._now_us

    @property
    def now(self) -> datetime:
        """The time, as an aware datetime."""
        return from_us(self._now_us)

    def advance(self, seconds: float = 0.0, *, days: float = 0.0) -> None:
        """Move by so many seconds and days; negative moves back."""
        self._now_us += round((seconds + days * 86_400) * 1_000_000)

    def set(self, moment: datetime) -> None:
        """Move to that moment. A naive datetime is taken as UTC."""
        self._now_us = to_us(moment)

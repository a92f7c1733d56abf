"""Time as an argument: everything that needs the time asks a :class:`Clock`."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Tells the time in whole microseconds since 1970, UTC."""

    def now_us(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


SYSTEM_CLOCK = SystemClock()


def from_us(microseconds: int) -> datetime:
    """The aware UTC datetime of a number of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def to_us(moment: datetime) -> int:
    """Microseconds since 1970. A naive datetime is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND

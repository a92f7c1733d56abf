"""Another try after a failure that may pass, for the SDKs that don't do it themselves."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Final, TypeVar

__all__ = ["LONGEST_WAIT", "RETRIED_STATUSES", "retry", "retry_after", "retry_status"]

T = TypeVar("T")

LONGEST_WAIT: Final = 60.0
"""Seconds. A service that asks for more is not waited for."""

RETRIED_STATUSES: Final = frozenset({408, 409, 429, *range(500, 600)})
"""HTTP statuses of failures that may pass by themselves."""

_FIRST_WAIT: Final = 0.5
_LONGEST_BACKOFF: Final = 8.0


async def retry(
    call: Callable[[], Awaitable[T]],
    *,
    max_retries: int,
    is_retryable: Callable[[Exception], bool | float],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """What `call` gives, tried up to ``1 + max_retries`` times; the last failure is raised as it is.

    `is_retryable` says of a failure: ``False``, it is final; ``True``, try again after a pause that doubles each
    time, shortened by up to a quarter at random; a number, the service asked for a pause of so many seconds.
    """
    tries = 0
    while True:
        try:
            return await call()
        except Exception as error:
            again = is_retryable(error)
            if again is False or tries >= max_retries:
                raise
            wait = _backoff(tries) if again is True else max(0.0, again)
            if wait > LONGEST_WAIT:
                raise
        tries += 1
        await sleep(wait)


def _backoff(tries: int) -> float:
    wait = min(_FIRST_WAIT * 2.0 ** min(tries, 16), _LONGEST_BACKOFF)
    return wait * (1 - 0.25 * random.random())  # noqa: S311 - spreads the load, keeps no secret


def retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds that a response's headers ask to wait: ``Retry-After-Ms``, or ``Retry-After`` as seconds or a date."""
    given = {name.lower(): value for name, value in (headers or {}).items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(given[name]) * unit)
        except (KeyError, ValueError):
            continue
    moment = parsedate_tz(given.get("retry-after", ""))
    return None if moment is None else max(0.0, mktime_tz(moment) - time.time())


def retry_status(status: int, headers: Mapping[str, str] | None) -> bool | float:
    """What `retry` wants to know of a response that is an error."""
    if status not in RETRIED_STATUSES:
        return False
    wait = retry_after(headers)
    return True if wait is None else wait

"""Another try: how often, after what, and how long between."""

import asyncio
import time
from collections.abc import Sequence
from email.utils import formatdate

import pytest

from holdfast.models.retrying import LONGEST_WAIT, retry, retry_after, retry_status


class Failure(Exception):
    def __init__(self, again: bool | float) -> None:
        super().__init__(again)
        self.again = again


def attempt(
    outcomes: Sequence[bool | float | str], *, max_retries: int
) -> tuple[str | None, list[float], int]:
    """The result if there is one, the pauses, and the number of calls."""
    waits: list[float] = []
    left = list(outcomes)

    async def call() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, str):
            return outcome
        raise Failure(outcome)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def is_retryable(error: Exception) -> bool | float:
        assert isinstance(error, Failure)
        return error.again

    async def main() -> str | None:
        try:
            return await retry(call, max_retries=max_retries, is_retryable=is_retryable, sleep=sleep)
        except Failure:
            return None

    return asyncio.run(main()), waits, len(outcomes) - len(left)


def test_a_success_is_not_repeated() -> None:
    assert attempt(["done", "again"], max_retries=3) == ("done", [], 1)


def test_a_passing_failure_is_tried_again_and_the_last_one_raised() -> None:
    assert attempt([True, True, "done"], max_retries=2)[::2] == ("done", 3)
    assert attempt([True, True, True, "done"], max_retries=2)[::2] == (None, 3)
    assert attempt([True, "done"], max_retries=0) == (None, [], 1)


def test_a_final_failure_is_raised_at_once() -> None:
    assert attempt([False, "done"], max_retries=5) == (None, [], 1)


def test_pauses_double_up_to_a_limit_and_are_spread() -> None:
    _, waits, _ = attempt([True] * 9 + ["done"], max_retries=9)
    full = [0.5, 1, 2, 4, 8, 8, 8, 8, 8]
    assert all(0.75 * most <= wait <= most for wait, most in zip(waits, full, strict=True))
    others = [tuple(attempt([True] * 4 + ["done"], max_retries=4)[1]) for _ in range(3)]
    assert len(set(others)) > 1


def test_a_pause_that_the_service_asks_for_is_kept_to() -> None:
    assert attempt([2.5, 0.0, -1.0, "done"], max_retries=3) == ("done", [2.5, 0.0, 0.0], 4)


def test_a_pause_that_is_too_long_is_not_made() -> None:
    assert attempt([LONGEST_WAIT + 1, "done"], max_retries=3) == (None, [], 1)


def test_a_cancellation_is_not_tried_again() -> None:
    calls = []

    async def call() -> None:
        calls.append(1)
        raise asyncio.CancelledError

    async def main() -> None:
        await retry(call, max_retries=3, is_retryable=lambda error: True)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert calls == [1]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"Retry-After-Ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Retry-After-Ms": "soon", "Retry-After": "9"}, 9.0),
        ({"Retry-After": "-4"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": formatdate(0, usegmt=True)}, 0.0),
        ({}, None),
        (None, None),
    ],
)
def test_what_headers_ask_for(headers: dict[str, str] | None, seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_is_a_time_from_now() -> None:
    wait = retry_after({"Retry-After": formatdate(time.time() + 3600, usegmt=True)})
    assert wait is not None
    assert 3000 < wait <= 3600


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_these_statuses_pass(status: int) -> None:
    assert retry_status(status, {}) is True
    assert retry_status(status, {"Retry-After": "0"}) == 0.0
    assert retry_status(status, {"Retry-After": "0"}) is not False


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 422])
def test_these_do_not(status: int) -> None:
    assert retry_status(status, {"Retry-After": "1"}) is False

"""How a conformance suite runs: under pytest, or in-process to see which of its tests fail."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest


def bounded(most: int = 5_000) -> Iterator[int]:
    """For loops that wait for something to happen: a backend with which it never does fails, and doesn't hang."""
    yield from range(most)
    raise AssertionError(f"there was no end after {most:,} rounds")


class Suite:
    """Base of the conformance suites.

    Tests may be coroutines: each is wrapped so that pytest sees a plain function with the same fixtures, and
    runs on an event loop of its own. Two bases may not have a test of the same name: one would never run.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherited: dict[str, type] = {}
        for base in cls.__bases__:
            for name in filter(_is_test, dir(base)):
                if getattr(inherited.setdefault(name, base), name) is not getattr(base, name):
                    raise TypeError(f"{cls.__name__} inherits {name} twice: rename one of them")
        for name, function in list(vars(cls).items()):
            if _is_test(name) and inspect.iscoroutinefunction(function):
                setattr(cls, name, _blocking(function))


def _is_test(name: str) -> bool:
    return name.startswith("test_")


def _blocking(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(function)  # pytest reads the fixtures from the wrapped function's signature
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(function(*args, **kwargs))

    return run


def run_suite(
    suite: type[Suite], open_factory: Callable[[], Any], *, only: str | None = None
) -> dict[str, BaseException | None]:
    """Run the tests of a suite (or one) without pytest; says what each raised, ``None`` if it passed.

    ``open_factory`` makes, for each test, what the suite's fixture gives (a function that opens a backend on
    fresh storage). Tests that skip themselves are left out. Marks are ignored, parameters are not supported.
    """
    outcomes: dict[str, BaseException | None] = {}
    for name in filter(_is_test, dir(suite)) if only is None else [only]:
        test = getattr(suite(), name)
        wanted = len(inspect.signature(test).parameters)
        try:
            test(*[open_factory() for _ in range(min(wanted, 1))])
        except pytest.skip.Exception:
            continue
        except (Exception, asyncio.CancelledError, pytest.fail.Exception) as error:  # two are no `Exception`
            outcomes[name] = error
        else:
            outcomes[name] = None
    return outcomes


def failures(suite: type[Suite], open_factory: Callable[[], Any]) -> dict[str, BaseException]:
    """The tests of the suite that fail, with what they raised: what a mutant's test looks at."""
    outcomes = run_suite(suite, open_factory)
    return {name: error for name, error in outcomes.items() if error is not None}

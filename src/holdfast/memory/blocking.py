"""Blocking twins from the same source.

Our coroutines suspend only inside an engine. An engine that runs a plan in place never suspends, so its
coroutines can be run to their end by one ``send(None)``: no event loop, no thread, no second implementation.
"""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def drive(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast(R, stop.value)
    coroutine.close()
    raise RuntimeError("a blocking engine suspended: it must run its plans in place")


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The blocking twin of a coroutine method, for a class that keeps the asynchronous object as ``_inner``."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        coroutine: Coroutine[Any, Any, R] = getattr(self._inner, name)(*args, **kwargs)
        return drive(coroutine)

    return cast(Callable[Concatenate[Any, P], R], call)


def blocking_iterator(
    method: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """The blocking twin of an asynchronous generator method."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        iterator = getattr(self._inner, name)(*args, **kwargs)
        while True:
            try:
                item = drive(iterator.__anext__())
            except StopAsyncIteration:
                return
            yield item

    return cast(Callable[Concatenate[Any, P], Iterator[R]], call)

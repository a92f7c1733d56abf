"""A bar on stderr while somebody watches; nothing otherwise."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


def is_watched() -> bool:
    return sys.stderr.isatty()


@contextmanager
def counted(title: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function that is told how much is done and how much there is in all."""
    if not is_watched():
        yield lambda done, total: None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def progress(
    title: str, total: int | None, *, in_bytes: bool = False, show: bool = True
) -> Iterator[Advance]:
    """Gives a function that is told how much more is done. A ``total`` of None is a bar without an end."""
    if not (show and is_watched()):
        yield lambda amount: None
        return
    from rich import progress as bars
    from rich.console import Console

    count = bars.DownloadColumn() if in_bytes else bars.MofNCompleteColumn()
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), count, bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)

"""`export` and `import`: threads as JSON lines, compressed or not."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Literal, cast

import click

from holdfast.cli import text
from holdfast.cli.app import Session, command
from holdfast.cli.failures import NOTHING
from holdfast.cli.progress import Advance, is_watched, progress
from holdfast.core.errors import Conflict, InvalidInput
from holdfast.core.ids import new_id

_GZIP_MAGIC = b"\x1f\x8b"
_END_OF_THREAD = '{"end":"thread"'
_CHECKPOINT = '{"checkpoint":'


@command(
    "export",
    "export -o backup.jsonl.gz",
    "export 'support-*' -o support.jsonl",
    "export | gzip > all.jsonl.gz",
)
@click.argument("pattern", default="*")
@click.option(
    "-o", "--output", "target", default="-", metavar="FILE", help="Where to; .gz compresses; - is stdout."
)
async def export(session: Session, pattern: str, target: str) -> int:
    """Write threads as JSON lines with checksums; `holdfast import` reads them.

    FILE appears when it is complete, not before.
    """
    threads = checkpoints = 0
    to_stdout = target == "-"
    show = is_watched() and not (to_stdout and sys.stdout.isatty())
    total = await _count(session, pattern) if show else None
    with progress("exporting threads", total, show=show) as advance, written(target) as stream:
        async for line in session.checkpointer.export_threads(pattern):
            stream.write(line + "\n")
            checkpoints += line.startswith(_CHECKPOINT)
            if line.startswith(_END_OF_THREAD):
                threads += 1
                advance(1)
    sentence = f"exported {text.number(threads, 'thread')} with {text.number(checkpoints, 'checkpoint')}"
    if to_stdout:
        session.out.remark(sentence)
    else:
        record = {"threads": threads, "checkpoints": checkpoints, "file": target}
        session.out.done(record, f"{sentence} to {target}")
    return NOTHING if threads == 0 and pattern != "*" else 0


async def _count(session: Session, pattern: str) -> int:
    total, after = 0, None
    while True:
        page = await session.checkpointer.list_threads(1000, pattern, after=after)
        total, after = total + len(page), page.next
        if after is None:
            return total


@contextmanager
def written(target: str) -> Iterator[IO[str]]:
    """A text stream to that file. A regular file is replaced at the end, whole, or not at all."""
    if target == "-":
        yield sys.stdout
        return
    path = Path(target)
    if path.exists() and not path.is_file():  # a device or a pipe: nothing to replace
        with _opened(path, "wb", target) as stream:
            yield stream
        return
    path = path.resolve()  # a link stays a link
    part = path.with_name(f".{path.name[:100]}.{new_id()}.part")
    try:
        with _opened(part, "xb", target) as stream:
            yield stream
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _opened(path: Path, mode: Literal["wb", "xb"], name: str) -> Iterator[IO[str]]:
    with ExitStack() as stack:
        raw: IO[bytes] = stack.enter_context(path.open(mode))
        if name.endswith(".gz"):
            packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6)
            raw = cast(IO[bytes], stack.enter_context(packed))
        stream = stack.enter_context(io.TextIOWrapper(raw, encoding="ascii", newline="\n"))
        yield stream


@command(
    "import",
    "import backup.jsonl.gz",
    "import - --on-conflict skip < backup.jsonl",
    "import backup.jsonl --db sqlite:new.db --user ann",
    create=True,
)
@click.argument("source", metavar="FILE")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="What to do with a thread that exists already.",
)
async def import_(session: Session, source: str, on_conflict: Literal["error", "skip"]) -> None:
    """Restore threads from an export, plain or compressed; - is stdin.

    Each thread is checked, then restored whole or not at all. Fields in a pipe: threads, checkpoints, skipped.
    """
    with ExitStack() as stack:
        raw, total = stack.enter_context(read(source))
        advance = stack.enter_context(progress("importing", total, in_bytes=True))
        try:
            report = await session.checkpointer.import_threads(lines(raw, advance), on_conflict=on_conflict)
        except Conflict as error:
            raise Conflict(
                f"{error}; the threads before it in the file are restored, --on-conflict skip goes on",
                expected=error.expected,
                actual=error.actual,
            ) from error
    skipped = f", skipped {text.number(len(report.skipped), 'thread')} that exist" if report.skipped else ""
    session.out.done(
        {"threads": report.threads, "checkpoints": report.checkpoints, "skipped": list(report.skipped)},
        f"restored {text.number(report.threads, 'thread')} with "
        f"{text.number(report.checkpoints, 'checkpoint')}{skipped}",
    )


@contextmanager
def read(source: str) -> Iterator[tuple[io.BufferedReader, int | None]]:
    """A file and its size, which for stdin nobody knows."""
    if source == "-":
        yield cast(io.BufferedReader, sys.stdin.buffer), None
        return
    with Path(source).open("rb") as raw:
        yield raw, os.fstat(raw.fileno()).st_size


class _Counted(io.RawIOBase):
    """Bytes as they are read, and the bar told of them."""

    def __init__(self, raw: io.BufferedReader, advance: Advance) -> None:
        self._raw, self._advance = raw, advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # narrower than a Buffer
        data = self._raw.read1(len(buffer))  # what there is: a pipe may take its time
        buffer[: len(data)] = data
        self._advance(len(data))
        return len(data)


def lines(raw: io.BufferedReader, advance: Advance) -> Iterator[str]:
    """Text lines of a file that may be compressed: its first bytes say so, not its name."""
    buffered = io.BufferedReader(_Counted(raw, advance), 1 << 16)
    packed = buffered.peek(2)[:2] == _GZIP_MAGIC
    binary = cast(IO[bytes], gzip.GzipFile(fileobj=buffered) if packed else buffered)
    try:
        yield from io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"this is not a Holdfast export: it is not text ({error})") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"the compressed file is damaged or cut off: {error}") from error

"""`migrate`."""

from contextlib import AsyncExitStack
from pathlib import Path

import click

from holdfast.cli import text
from holdfast.cli.app import Command, app, run, settings_now
from holdfast.cli.database import sqlite_file
from holdfast.cli.failures import CONFLICT, OK, USAGE, Failure
from holdfast.cli.importing import import_named
from holdfast.cli.output import Column, Output
from holdfast.cli.progress import counted, is_watched
from holdfast.connection import Connection, chroma_path, connect
from holdfast.core.errors import SchemaMismatch
from holdfast.memory.migrating import Difference, Progress, Tally, ThreadMigration
from holdfast.memory.migrating_items import ItemMigration

_COUNTS = ("found", "copied", "replaced", "skipped", "conflicts", "verified")
_COLUMNS = (Column("kind", ""), *(Column(name, name, right=True) for name in _COUNTS))

Parts = tuple[bool, bool]
"""Whether threads are meant, and whether items."""


@app.command(
    "migrate",
    cls=Command,
    examples=(
        "migrate sqlite:bot.db postgresql://bot@db.example/bot --dry-run",
        "migrate sqlite:bot.db postgresql://bot@db.example/bot",
        "migrate chroma:./memories sqlite:bot.db --memory-only --json",
    ),
)
@click.argument("urls", nargs=-1, metavar="SOURCE DESTINATION")
@click.option("--threads-only", is_flag=True, help="Conversations, not what is remembered.")
@click.option("--memory-only", is_flag=True, help="Items of the store, no conversations.")
@click.option("--overwrite", is_flag=True, help="Replace what the destination has and differs.")
@click.option(
    "--types",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Registers types of your own. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def migrate(
    urls: tuple[str, ...],
    threads_only: bool,
    memory_only: bool,
    overwrite: bool,
    modules: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Copy everything from one database into another, then read both and compare.

    All threads of all scopes and all items of all namespaces. It can be stopped at any point: running it again goes
    on. What is there already and equal is skipped; what is there and differs is a conflict and stays as it is. The
    source is only read. Fields in a pipe: kind, found, copied, replaced, skipped, conflicts, verified. The exit code
    is 3 if anything differs in the end.
    """
    settings = settings_now()
    if len(urls) != 2:  # not left to click: its message would show what may hold a password
        raise Failure("migrate takes two URLs: that of the source and that of the destination", USAGE)
    if threads_only and memory_only:
        raise Failure("--threads-only and --memory-only leave nothing: give one of them", USAGE)
    if settings.scope is not None:
        raise Failure("migrate takes all scopes: --scope and --user can't be given", USAGE)
    if _place(urls[0]) == _place(urls[1]):
        raise Failure("the source and the destination are the same database", USAGE)
    for module in modules:
        import_named(module, f"--types {module}")
    out = settings.output()

    async def work() -> int:
        async with AsyncExitStack() as stack:
            parts = not memory_only, not threads_only
            source = await _open_source(stack, urls[0], parts)
            if parts[0] and not source.keeps_threads:
                if not parts[1]:
                    raise Failure("the source keeps no threads", USAGE)
                out.remark("the source keeps no threads: only items are copied")
                parts = False, True
            destination = await _open_destination(stack, urls[1], parts, dry_run=dry_run)
            options = {"overwrite": overwrite, "dry_run": dry_run}
            threads = (
                ThreadMigration(source.checkpointer, destination.checkpointer, **options)
                if parts[0]
                else None
            )
            items = ItemMigration(source.store, destination.store, **options) if parts[1] else None
            await _run(threads, "threads", dry_run=dry_run)
            await _run(items, "items", dry_run=dry_run)
            return _report(out, threads, items, dry_run=dry_run)

    return run(work())


async def _run(migration: ThreadMigration | ItemMigration | None, what: str, *, dry_run: bool) -> None:
    if migration is None:
        return

    def watching(tell: Progress) -> list[Progress]:
        return [tell] if is_watched() else []  # to know the total takes counting

    with counted(f"{'looking at' if dry_run else 'copying'} {what}") as tell:
        await migration.copy(*watching(tell))
    if not dry_run:
        with counted(f"comparing {what}") as tell:
            await migration.verify(*watching(tell))


# ── opening ───────────────────────────────────────────────────────────────────────────────────────────


def _place(url: str) -> object:
    """What says whether two URLs name one database, as far as that can be told."""
    file = _path(url)
    return url if file is None else file.resolve()


def _path(url: str) -> Path | None:
    if url.startswith("chroma:"):
        path = chroma_path(url)
        return None if path == ":memory:" else Path(path)
    return sqlite_file(url)


async def _open_source(stack: AsyncExitStack, url: str, parts: Parts) -> Connection:
    file = _path(url)
    if file is not None and not file.exists():
        raise Failure(f"no database at {file}")
    connection = await stack.enter_async_context(connect(url, auto_create_table=False))
    problems = await _problems(connection, parts)
    found = [problem for problem in problems if problem is not None]
    if len(found) == len(problems) and found:
        raise found[0]
    if found:
        # A database of ours that was only used for the one: it gets the empty tables of the other.
        connection = await stack.enter_async_context(connect(url))
    return connection


async def _open_destination(stack: AsyncExitStack, url: str, parts: Parts, *, dry_run: bool) -> Connection:
    if not dry_run:
        connection = await stack.enter_async_context(connect(url))
    else:
        file = _path(url)
        is_there = file is None or file.exists()
        connection = await stack.enter_async_context(
            connect(url, auto_create_table=False) if is_there else connect("memory:")
        )
    if parts[0] and not connection.keeps_threads:
        raise Failure("the destination keeps no threads: --memory-only copies the items", USAGE)
    problems = await _problems(connection, parts) if dry_run else []
    if not any(problems):
        return connection
    # What has no tables yet is as good as empty.
    empty = await stack.enter_async_context(connect("memory:"))
    lacking = iter(problems)
    threads = empty if parts[0] and next(lacking) else connection
    items = empty if parts[1] and next(lacking) else connection
    return Connection(threads.checkpointer if threads.keeps_threads else None, items.store)


async def _problems(connection: Connection, parts: Parts) -> list[SchemaMismatch | None]:
    """For each part that is meant: what says that its tables are not there yet."""
    found: list[SchemaMismatch | None] = []
    for meant, look in zip(parts, (_look_at_threads, _look_at_items), strict=True):
        if not meant:
            continue
        try:
            await look(connection)
        except SchemaMismatch as error:
            if not error.ddl:
                raise
            found.append(error)
        else:
            found.append(None)
    return found


async def _look_at_threads(connection: Connection) -> None:
    if connection.keeps_threads:
        await connection.checkpointer.list_threads(1)


async def _look_at_items(connection: Connection) -> None:
    await connection.store.list_namespaces(None, 1)


# ── reporting ─────────────────────────────────────────────────────────────────────────────────────────


def _report(
    out: Output, threads: ThreadMigration | None, items: ItemMigration | None, *, dry_run: bool
) -> int:
    tallies: dict[str, Tally] = {}
    if threads is not None:
        tallies |= {"threads": threads.threads, "checkpoints": threads.checkpoints}
    if items is not None:
        tallies["items"] = items.items
    done = [each for each in (threads, items) if each is not None]
    conflicts = sum(each.conflicts.count for each in done)
    differences = sum(each.differences.count for each in done)
    shown = [each for one in done for each in (one.conflicts.shown if dry_run else one.differences.shown)]
    shown += [each for one in done for each in one.conflicts.shown if not dry_run and each.kind == "vectors"]
    records = [
        {"kind": kind, **{name: getattr(tally, name) for name in _COUNTS}} for kind, tally in tallies.items()
    ]
    if out.as_json:
        out.json(
            {
                "dry_run": dry_run,
                **{record.pop("kind"): record for record in records},
                "conflicts": conflicts,
                "differences": differences,
                "different": [{"kind": d.kind, "place": list(d.place), "why": d.why} for d in shown],
            }
        )
    else:
        out.records(records, _COLUMNS)
        for difference in shown:
            out.remark(_sentence(difference))
    if not conflicts and not differences:
        if not out.as_json:
            out.remark("this is what would be done" if dry_run else "both sides were read, and are the same")
        return OK
    if not out.as_json:
        out.remark(_verdict(conflicts, differences, dry_run=dry_run))
    return CONFLICT


def _sentence(difference: Difference) -> str:
    place = " ".join(text.to_json(part) for part in difference.place if part is not None)
    what = "differs" if difference.why == "differs" else "is missing in the destination"
    noun = "vectors of another kind in" if difference.kind == "vectors" else difference.kind
    return f"{noun} {place} {what}" if difference.kind != "vectors" else f"{noun} {place}"


def _verdict(conflicts: int, differences: int, *, dry_run: bool) -> str:
    if dry_run:
        return f"{text.number(conflicts, 'conflict')}: --overwrite would replace what differs"
    return (
        f"{text.number(differences, 'difference')}, {text.number(conflicts, 'conflict')}: stop what writes to either"
        " side and run it again; --overwrite replaces what the destination has"
    )

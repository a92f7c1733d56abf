"""`stats` and `version`."""

import platform
from dataclasses import asdict
from typing import Any

import click

from holdfast._version import __version__
from holdfast.cli import text
from holdfast.cli.app import Command, Session, Settings, app, command
from holdfast.cli.output import Column


@command("stats", "stats", "stats --all", "stats --user ann --json")
@click.option("--all", "every", is_flag=True, help="Every scope, not just one.")
async def stats(session: Session, every: bool) -> None:
    """Count threads, checkpoints and what they hold.

    Fields in a pipe: scope (empty: the default one), threads, checkpoints, entries, pending writes, bytes.
    """
    if every:
        counts = await session.checkpointer.admin().stats()
    else:
        counts = {session.checkpointer.scope: await session.checkpointer.stats()}
    records: list[dict[str, Any]] = [{"scope": scope, **asdict(count)} for scope, count in counts.items()]
    columns = [
        Column("scope", "scope", "bold cyan"),
        Column("threads", "threads", right=True),
        Column("checkpoints", "checkpoints", right=True),
        Column("entries", "entries", right=True),
        Column("pending_writes", "pending writes", right=True),
        Column("bytes", "bytes", right=True),
    ]
    if session.out.in_terminal:
        records = [{**record, "scope": record["scope"] or "(default)"} for record in records]
    session.out.records(records, columns)
    if session.out.in_terminal and session.file is not None:
        session.out.facts([("file", f"{text.escape(str(session.file))}, {text.size(_disk(session))}")])


def _disk(session: Session) -> int:
    """What the file takes, its write-ahead log included."""
    assert session.file is not None
    parts = (session.file, session.file.with_name(session.file.name + "-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


@app.command("version", cls=Command, examples=("version", "version --json"))
@click.pass_obj
def version(settings: Settings | None) -> None:
    """Print the version."""
    out = (settings or Settings()).output()
    if out.as_json:
        out.json({"holdfast": __version__, "python": platform.python_version()})
    else:
        out.line(f"holdfast {__version__}")

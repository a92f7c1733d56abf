"""`search`."""

import re

import click

from holdfast.cli.app import Session, command
from holdfast.cli.failures import NOTHING
from holdfast.cli.output import Column
from holdfast.cli.reading import LIMIT


@command("search", "search 'late delivery'", "search refund --limit 3 --json")
@click.argument("query")
@click.option("--limit", type=LIMIT, default=10, show_default=True, help="At most so many.")
async def search(session: Session, query: str, limit: int) -> int:
    """Find messages that have words of QUERY, best first.

    Fields in a pipe: score, thread, checkpoint, snippet.
    """
    hits = await session.checkpointer.search(query, limit)
    words = tuple(re.findall(r"\w+", query))
    columns = [
        Column("score", "score", "dim", right=True),
        Column("thread_id", "thread", "bold cyan"),
        Column("checkpoint_id", "first at", "dim"),
        Column("snippet", "message", highlight=words),
    ]
    if hits or session.out.as_json:
        session.out.records(hits, columns)
    if not hits:
        session.out.remark(f"no message has a word of {query!r}")
    return 0 if hits else NOTHING

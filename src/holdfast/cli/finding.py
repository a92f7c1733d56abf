"""`search`."""

from typing import Any

import click

from holdfast.cli import text
from holdfast.cli.app import Session, command
from holdfast.cli.failures import NOTHING
from holdfast.cli.output import Column, Output
from holdfast.cli.reading import LIMIT
from holdfast.memory.text import query_terms


@command("search", "search 'late delivery'", "search refund --limit 3 --json")
@click.argument("query")
@click.option("--limit", type=LIMIT, default=10, show_default=True, help="At most so many.")
async def search(session: Session, query: str, limit: int) -> int:
    """Find messages that have words of QUERY, best first.

    Each comes with the first checkpoint that has it. Fields in a pipe: score, thread, checkpoint, snippet.
    """
    out = session.out
    hits = await session.checkpointer.search(query, limit)
    if hits and out.in_terminal:
        _print(out, hits, query)
    elif hits or out.as_json:
        out.records(hits, [Column(key, None) for key in ("score", "thread_id", "checkpoint_id", "snippet")])
    if not hits:
        out.remark(f"no message has a word of {query!r}")
    return 0 if hits else NOTHING


def _print(out: Output, hits: list[dict[str, Any]], query: str) -> None:
    """For people: the place, and under it the message with the words that were found."""
    terms = query_terms(query)
    for hit in hits:
        place = (text.escape(hit["thread_id"]), "bold cyan")
        out.paragraph([place, (f"  {text.escape(hit['checkpoint_id'])}  {hit['score']:.2f}", "dim")])
        out.paragraph([(text.escape(hit["snippet"]), "")], 2, highlight=terms)

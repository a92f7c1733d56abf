"""`diff`: what changed between two checkpoints."""

import json
from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli import text
from holdfast.cli.app import Session, command
from holdfast.cli.conversation import short
from holdfast.cli.reading import as_record
from holdfast.cli.refs import no_thread, resolve
from holdfast.core.state import encode_element
from holdfast.memory.records import CheckpointDiff, CheckpointInfo, ListChange

_LIST_NAMES = {"tool_executions": "tool runs", "confidence_history": "confidences"}


@command(
    "diff",
    "diff support-42 head~1",
    "diff support-42 01k7m2 01k7m9",
    "diff support-42 head --other-thread support-42-retry",
)
@click.argument("thread")
@click.argument("a")
@click.argument("b", default="head")
@click.option("--other-thread", metavar="THREAD", help="B is a checkpoint of this thread.")
async def diff(session: Session, thread: str, a: str, b: str, other_thread: str | None) -> None:
    """Show what changed from checkpoint A to checkpoint B (the head, if it is left out)."""
    before = await resolve(session.checkpointer, thread, a)
    after = await resolve(session.checkpointer, other_thread or thread, b)
    found = await session.checkpointer.diff(thread, before, after, after_thread=other_thread)
    if found is None:  # deleted just now
        raise no_thread(thread)
    if session.out.as_json:
        session.out.json(_document(found))
    else:
        _print(session, found)


def _document(found: CheckpointDiff) -> dict[str, Any]:
    return {
        "before": as_record(found.before),
        "after": as_record(found.after),
        "identical": found.identical,
        "fields": {
            name: {"before": change.before, "after": change.after} for name, change in found.fields.items()
        },
        "lists": {
            name: {
                "common": change.common,
                "removed": _elements(name, change.removed),
                "added": _elements(name, change.added),
            }
            for name, change in found.lists.items()
        },
    }


def _elements(name: str, elements: Sequence[Any]) -> list[Any]:
    return [json.loads(encode_element(name, element)) for element in elements]


def _print(session: Session, found: CheckpointDiff) -> None:
    out = session.out
    out.paragraph([("--- ", "red"), *_title(found.before)])
    out.paragraph([("+++ ", "green"), *_title(found.after)])
    if found.identical:
        out.paragraph([("no difference", "dim")])
    for name, change in found.fields.items():
        # Every save changes it: it says something only when nothing else does.
        if name == "updated_at" and len(found.fields) + len(found.lists) > 1:
            continue
        old, new = text.to_json(change.before), text.to_json(change.after)
        out.paragraph([(f"{name}: ", "bold"), (old, "red"), (" → ", "dim"), (new, "green")])
    for name, grown in found.lists.items():
        _print_list(session, _LIST_NAMES.get(name, name), grown)


def _title(info: CheckpointInfo) -> list[tuple[str, str]]:
    place = f"{text.escape(info.thread_id)}  {text.escape(info.checkpoint_id)}"
    return [(place, "bold"), (f"  save {info.sequence}, {text.moment(info.created_at)}", "dim")]


def _print_list(session: Session, name: str, change: ListChange) -> None:
    session.out.paragraph([(f"{name}: ", "bold"), (f"{change.common} in common", "dim")])
    for sign, style, elements in (("-", "red", change.removed), ("+", "green", change.added)):
        for element in elements:
            session.out.paragraph([(f"{sign} {short(element)}", style)], 2)

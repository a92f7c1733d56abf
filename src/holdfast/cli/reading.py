"""`threads`, `history` and `show`."""

from typing import Any

import click

from holdfast.cli import text
from holdfast.cli.app import Session, command
from holdfast.cli.conversation import print_messages
from holdfast.cli.failures import NOTHING
from holdfast.cli.output import Column
from holdfast.cli.refs import no_thread, resolve
from holdfast.memory.records import Checkpoint, CheckpointInfo, PendingWrite

LIMIT = click.IntRange(min=1)


@command("threads", "threads", "threads 'support-*' --limit 20", "threads --json | jq -r '.[].thread_id'")
@click.argument("pattern", default="*")
@click.option("--limit", type=LIMIT, default=50, show_default=True, help="At most so many.")
async def threads(session: Session, pattern: str, limit: int) -> int:
    r"""List threads, last saved first.

    In PATTERN, * and ? are special, \ makes them ordinary. Fields in a pipe: thread, saves, last saved, head, metadata.
    """
    found: list[dict[str, Any]] = []
    page = await session.checkpointer.list_threads(limit, pattern)
    for thread_id in page:
        head = await session.checkpointer.head(thread_id)
        if head is not None:  # else it was deleted just now
            found.append(
                {
                    "thread_id": thread_id,
                    "saves": head.sequence,
                    "saved_at": head.created_at,
                    "head": head.checkpoint_id,
                    "metadata": head.metadata,
                }
            )
    columns = [
        Column("thread_id", "thread", "bold cyan"),
        Column("saves", "saves", right=True),
        Column("saved_at", "last saved"),
        Column("head", "head", "dim"),
        Column("metadata", None),
    ]
    return _listed(session, found, columns, "threads", more=page.next is not None)


@command("history", "history support-42", "history support-42 --limit 500 | cut -f2")
@click.argument("thread")
@click.option("--limit", type=LIMIT, default=50, show_default=True, help="At most so many.")
async def history(session: Session, thread: str, limit: int) -> int:
    """List a thread's checkpoints, newest first.

    Fields in a pipe: number, checkpoint, saved, parent, metadata.
    """
    page = await session.checkpointer.history(thread, limit)
    if not page:
        raise no_thread(thread)
    columns = [
        Column("sequence", "#", "dim", right=True),
        Column("checkpoint_id", "checkpoint", "cyan"),
        Column("created_at", "saved"),
        Column("parent_id", None),
        Column("metadata", "metadata"),
    ]
    return _listed(
        session, [as_record(info) for info in page], columns, "checkpoints", more=page.next is not None
    )


def _listed(
    session: Session, found: list[dict[str, Any]], columns: list[Column], noun: str, *, more: bool
) -> int:
    if found or session.out.as_json:
        session.out.records(found, columns)
    if more:
        session.out.remark(f"there are more {noun}: raise --limit")
    if not found:
        session.out.remark(f"no {noun}")
    return 0 if found else NOTHING


@command("show", "show support-42", "show support-42 head~3", "show support-42 01k7m2 --json")
@click.argument("thread")
@click.argument("checkpoint", default="head")
async def show(session: Session, thread: str, checkpoint: str) -> None:
    """Show the conversation at the head, or as it was at a checkpoint."""
    checkpoint_id = await resolve(session.checkpointer, thread, checkpoint)
    found = await session.checkpointer.get(thread, checkpoint_id)
    if found is None:  # deleted just now
        raise no_thread(thread)
    writes: list[PendingWrite] = []
    if session.checkpointer.capabilities.pending_writes:
        writes = await session.checkpointer.get_writes(thread, checkpoint_id)
    if session.out.as_json:
        session.out.json(
            {
                **as_record(found.info),
                "state": found.state.to_checkpoint(),
                "pending_writes": [
                    {
                        "task_id": write.task_id,
                        "idx": write.idx,
                        "channel": write.channel,
                        "value": write.value,
                    }
                    for write in writes
                ],
            }
        )
        return
    session.out.facts(_facts(found, writes))
    print_messages(session.out, found.state.messages)


def as_record(info: CheckpointInfo) -> dict[str, Any]:
    """A checkpoint for JSON and tables."""
    return {
        "thread_id": info.thread_id,
        "checkpoint_id": info.checkpoint_id,
        "parent_id": info.parent_id,
        "sequence": info.sequence,
        "created_at": info.created_at,
        "metadata": info.metadata,
    }


def _facts(found: Checkpoint, writes: list[PendingWrite]) -> list[tuple[str, str]]:
    """What is known of a checkpoint beside its messages; what says nothing is left out."""
    info, state = found.info, found.state
    facts = [
        ("thread", text.escape(info.thread_id)),
        ("checkpoint", text.escape(info.checkpoint_id)),
        ("save", str(info.sequence)),
        ("parent", text.escape(info.parent_id or "")),
        ("saved", text.moment(info.created_at)),
        ("metadata", text.pairs(info.metadata)),
        ("agent", text.escape(state.agent_id)),
        ("run", text.escape(state.run_id)),
        ("iteration", str(state.iteration or "")),
        ("confidence", f"{state.confidence:g}" if state.confidence_history else ""),
        ("tokens", str(state.total_tokens or "")),
        ("tools run", ", ".join(text.escape(name) for name in state.tool_history)),
        ("state", text.pairs(state.metadata)),
        ("messages", str(len(state.messages))),
    ]
    facts += [("error", text.escape(error)) for error in state.errors]
    facts += [
        (
            "pending",
            f"{text.escape(write.task_id)}[{write.idx}] {text.escape(write.channel)}={text.to_json(write.value)}",
        )
        for write in writes
    ]
    return [(name, value) for name, value in facts if value]

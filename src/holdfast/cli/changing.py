"""`fork`, `rm` and `vacuum`: what changes the database."""

import math
import sys
from datetime import timedelta

import click

from holdfast.cli import text
from holdfast.cli.app import Session, command
from holdfast.cli.failures import NOTHING, USAGE, Failure
from holdfast.cli.output import Column
from holdfast.cli.refs import no_thread, resolve
from holdfast.memory.records import PruneReport

YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@command("fork", "fork support-42 support-42-retry", "fork support-42 what-if --at head~3")
@click.argument("thread")
@click.argument("new")
@click.option("--at", metavar="CHECKPOINT", default="head", show_default=True, help="Where to branch off.")
async def fork(session: Session, thread: str, new: str, at: str) -> None:
    """Start thread NEW as THREAD was at a checkpoint. Both go on independently.

    Fields in a pipe: new thread, its head.
    """
    checkpoint_id = await resolve(session.checkpointer, thread, at)
    head = await session.checkpointer.fork(thread, checkpoint_id, new)
    session.out.done({"thread_id": new, "head": head}, f"{new} begins as {thread} was at {head}")


@command("rm", "rm support-42", "rm support-42 head --yes")
@click.argument("thread")
@click.argument("checkpoint", required=False)
@YES
async def rm(session: Session, thread: str, checkpoint: str | None, yes: bool) -> int:
    """Delete a thread, or one checkpoint of it. What a fork inherited stays in the fork."""
    head = await session.checkpointer.head(thread)
    if head is None:
        raise no_thread(thread)
    target = None if checkpoint is None else await resolve(session.checkpointer, thread, checkpoint)
    if target is None:
        what = f"thread {thread!r}, last saved {text.moment(head.created_at)} (save {head.sequence})"
    else:
        what = f"checkpoint {target!r} of thread {thread!r}"
    if not agreed(f"Delete {what}?", yes=yes):
        session.out.remark("nothing was deleted")
        return NOTHING
    if not await session.checkpointer.delete(thread, target):
        raise Failure(f"{what}: already gone")
    session.out.done({"thread_id": thread, "checkpoint_id": target}, f"deleted {what}")
    return 0


@command(
    "vacuum",
    "vacuum --older-than-days 30 --dry-run",
    "vacuum --keep-last 20 --yes",
    "vacuum --older-than-days 365 --stale-threads",
)
@click.option(
    "--older-than-days", type=click.FloatRange(min=0), metavar="N", help="What is older than N days."
)
@click.option("--keep-last", type=click.IntRange(min=1), metavar="N", help="All but each thread's newest N.")
@click.option("--stale-threads", is_flag=True, help="Also whole threads that were last saved before then.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@YES
async def vacuum(
    session: Session,
    older_than_days: float | None,
    keep_last: int | None,
    stale_threads: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete old checkpoints.

    With both limits, what is beyond both of them goes. Never a thread's head, what a fork still reads, or a
    checkpoint with pending writes. Fields in a pipe: thread, checkpoint, one line for each that went.
    """
    if older_than_days is None and (keep_last is None or stale_threads):
        needed = "--older-than-days" if stale_threads else "--older-than-days or --keep-last"
        raise Failure(f"vacuum needs {needed}: nothing else says what may go", USAGE)
    if older_than_days is not None and not math.isfinite(older_than_days):
        raise Failure(f"--older-than-days must be a finite number, got {older_than_days}", USAGE)
    if not dry_run and not yes:
        require_somebody()
        plan = await _prune(session, older_than_days, keep_last, stale_threads, dry_run=True)
        if plan.removed and not agreed(f"Delete {_extent(plan)}?", yes=False):
            session.out.remark("nothing was deleted")
            return NOTHING
    report = await _prune(session, older_than_days, keep_last, stale_threads, dry_run=dry_run)
    records = [{"thread_id": thread, "checkpoint_id": found} for thread, found in report.removed]
    if session.out.as_json:
        session.out.json({"dry_run": dry_run, "count": report.count, "removed": records})
        return 0
    if records:
        session.out.records(
            records, [Column("thread_id", "thread", "bold cyan"), Column("checkpoint_id", "checkpoint")]
        )
    session.out.remark(f"{'would delete' if dry_run else 'deleted'} {_extent(report)}")
    return 0


async def _prune(
    session: Session, days: float | None, keep_last: int | None, stale: bool, *, dry_run: bool
) -> PruneReport:
    age = None if days is None else timedelta(days=min(days, 999_999))
    return await session.checkpointer.prune(
        keep_last=keep_last, older_than=age, stale_threads=stale, dry_run=dry_run
    )


def _extent(report: PruneReport) -> str:
    threads = len({thread for thread, _ in report.removed})
    return f"{text.number(report.count, 'checkpoint')} of {text.number(threads, 'thread')}"


def is_interactive() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_somebody() -> None:
    if not is_interactive():
        raise Failure("nobody is there to confirm: add --yes", USAGE)


def agreed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    require_somebody()
    sys.stderr.write(f"{text.escape(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

"""`memory forget`, `memory export` and `memory import`: what a user may ask for."""

from contextlib import ExitStack
from datetime import datetime
from typing import Any

import click

from holdfast.cli import text
from holdfast.cli.changing import YES, agreed
from holdfast.cli.failures import CONFLICT, NOTHING, USAGE, Failure
from holdfast.cli.memory_group import EMBEDDER, MemorySession, memory_command, moment_option
from holdfast.cli.moving import lines, read, written
from holdfast.cli.output import Column
from holdfast.cli.progress import progress
from holdfast.cli.remembered import count
from holdfast.memory.embedder.base import space_of_embedder
from holdfast.memory.embedder.sticky import StickyEmbedder


@memory_command(
    "forget",
    "forget --user alice",
    "forget --user alice --session trip --yes",
    "forget --user alice --before 2025-01-01",
    "forget --user alice --threads",
)
@click.option("--session", "session_id", metavar="ID", help="Only this session.")
@moment_option("--before", "Only what happened before.")
@click.option("--threads", is_flag=True, help="Also the user's threads, or the thread of that session.")
@YES
async def forget(
    session: MemorySession, session_id: str | None, before: datetime | None, threads: bool, yes: bool
) -> int:
    """Remove what is kept of a user: all of it, a session, or what is older. Conditions are ANDed.

    Facts that come from removed episodes go too; blocks go with the whole user. The receipt comes from looking again
    afterwards: if anything was found, the exit code is 3. Fields in a pipe: kind, removed, remaining.
    """
    if threads and before is not None:
        raise Failure(
            "--threads can't be combined with --before: holdfast vacuum removes threads by age", USAGE
        )
    if threads and session.whose is None and session_id is None:
        raise Failure("--threads with --anonymous needs --session: the other threads are everybody's", USAGE)
    what = await _extent(session, session_id, before)
    also = " and their threads" if threads and session_id is None else " and its thread" if threads else ""
    if not agreed(f"Forget {what}{also}? It can't be undone.", yes=yes):
        session.out.remark("nothing was forgotten")
        return NOTHING
    memory = session.with_threads() if threads else session.memory
    receipt = await memory.forget(
        user_id=session.whose, session_id=session_id, before=before, threads=threads
    )
    kinds = sorted({*receipt.removed, *receipt.remaining})
    records: list[dict[str, Any]] = [
        {"kind": kind, "removed": receipt.removed.get(kind, 0), "remaining": receipt.remaining.get(kind, 0)}
        for kind in kinds
    ]
    if session.out.as_json:
        session.out.json(
            {
                "user": session.whose,
                "namespace": session.namespace,
                "removed": receipt.removed,
                "remaining": receipt.remaining,
                "complete": receipt.complete,
            }
        )
    elif records:
        columns = [Column("kind", "kind", "bold cyan")]
        columns += [Column(key, key, right=True) for key in ("removed", "remaining")]
        session.out.records(records, columns)
    if not receipt.complete:
        session.out.remark("something was written meanwhile and is still there: run it again")
        return CONFLICT
    gone = sum(receipt.removed.values())
    session.out.remark("a second look found nothing" if gone else f"nothing is kept of {session.them}")
    return 0 if gone else NOTHING


async def _extent(session: MemorySession, session_id: str | None, before: datetime | None) -> str:
    """What will go, in words."""
    if session_id is None and before is None:
        episodes = text.number(await count(session.store, session.at("episodes")), "episode")
        blocks = text.number(await count(session.store, session.at("blocks")), "block")
        return f"all of {session.them} in {session.namespace!r} ({episodes}, {blocks}, all facts)"
    part = "" if session_id is None else f" session {session_id!r} of"
    when = "" if before is None else f" from before {text.moment(before)}"
    return f"what is kept of{part} {session.them} in {session.namespace!r}{when}"


@memory_command("export", "export --user alice alice.jsonl.gz", "export --anonymous > nobody.jsonl")
@click.argument("target", metavar="[FILE]", default="-")
async def export(session: MemorySession, target: str) -> int:
    """Write all that is kept of a user as JSON lines; `memory import` reads them.

    FILE appears when it is complete, not before; .gz compresses; - is stdout.
    """
    items = -1  # the first line says what it is
    user = session.whose
    with written(target) as stream:
        async for line in session.memory.export(user_id=user):
            stream.write(line + "\n")
            items += 1
    sentence = f"exported {text.number(items, 'item')} of {session.them}"
    if target == "-":
        session.out.remark(sentence)
    else:
        session.out.done({"user": user, "items": items, "file": target}, f"{sentence} to {target}")
    return 0 if items else NOTHING


@memory_command(
    "import",
    "import alice.jsonl.gz --user alice",
    "import - --user alice-copy --embedder none < alice.jsonl",
    create=True,
)
@click.argument("source", metavar="FILE")
@EMBEDDER
async def import_(session: MemorySession, source: str, embedder: str) -> None:
    """Put an export back, plain or compressed; - is stdin. What is there under the same key is written over.

    All of it is checked before the first item is written. Vectors are made anew. Fields in a pipe: user, items.
    """
    from holdfast.memory.embedder.resolve import is_automatic, resolve_embedder

    if is_automatic(embedder):
        memory = session.with_embedder(StickyEmbedder(session.store, session.namespace))
    else:
        found = resolve_embedder(embedder)
        if found is not None:
            session.store._open_space(space_of_embedder(found))
        memory = session.with_embedder(found)
    user = session.whose
    with ExitStack() as stack:
        raw, total = stack.enter_context(read(source))
        advance = stack.enter_context(progress("reading", total, in_bytes=True))
        given = list(lines(raw, advance))
    items = await memory.import_(given, user_id=user)
    session.out.done(
        {"user": user, "items": items}, f"restored {text.number(items, 'item')} of {session.them}"
    )

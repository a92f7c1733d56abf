"""`reembed`."""

import click

from holdfast.cli import text
from holdfast.cli.app import Command, app, run, settings_now
from holdfast.cli.failures import USAGE, Failure
from holdfast.cli.memory_group import MemorySession, add_common, open_memory
from holdfast.cli.progress import counted
from holdfast.memory.embedder.base import Embedder
from holdfast.memory.reembedding import Reembedded


@app.command(
    "reembed",
    cls=Command,
    examples=(
        "reembed --embedder openai-large --dry-run",
        "reembed --embedder local",
        "reembed --embedder ollama:bge-m3 --user alice --json",
    ),
)
@click.option(
    "--embedder", metavar="NAME", required=True, help="openai, openai-large, ollama:MODEL, local, ..."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@add_common
def reembed(embedder: str, dry_run: bool, namespace: str, anonymous: bool) -> int:
    """Give the episodes of a memory vectors of another embedder, and those that have none a vector.

    All users', or one's. It can be stopped at any point: running it again goes on, and if all is done, does nothing.
    Name the same embedder in your program: vectors of two are never compared. Fields in a pipe: embedder, users,
    vectors given up, episodes embedded, episodes without text.
    """
    from holdfast.memory.embedder.resolve import resolve_embedder

    settings = settings_now()
    found = resolve_embedder(embedder)
    if found is None:
        raise Failure(f"--embedder {embedder!r} is none: name one, such as local or openai", USAGE)

    async def work() -> None:
        async with open_memory(settings, namespace, anonymous, embedder=found) as session:
            await _reembed(session, found, dry_run=dry_run)

    return run(work())


async def _reembed(session: MemorySession, embedder: Embedder, *, dry_run: bool) -> None:
    memory = session.with_embedder(embedder)
    with counted("embedding episodes") as tell:
        watched = None if dry_run else tell
        done = await memory.reembed(user_id=session.user, progress=watched, dry_run=dry_run)
    record = {
        "embedder": done.embedder,
        "users": done.users,
        "dropped": done.dropped,
        "embedded": done.embedded,
        "skipped": done.skipped,
    }
    if session.out.as_json:
        record["dry_run"] = dry_run
    session.out.done(record, _sentence(done))
    if not session.out.in_terminal:
        session.out.remark(_sentence(done))


def _sentence(done: Reembedded) -> str:
    left = f"; {text.number(done.skipped, 'episode')} without text" if done.skipped else ""
    if not done.users:
        return f"nothing to do: every episode has a vector of {done.embedder}{left}"
    verb, given = ("would embed", "would be") if done.dry_run else ("embedded", "were")
    dropped = (
        f"; {text.number(done.dropped, 'vector')} of another one {given} given up" if done.dropped else ""
    )
    episodes, users = text.number(done.embedded, "episode"), text.number(done.users, "user")
    return f"{verb} {episodes} of {users} with {done.embedder}{dropped}{left}"

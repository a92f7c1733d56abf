"""`memory list` and `memory search`."""

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import text
from holdfast.cli.failures import NOTHING
from holdfast.cli.memory_group import EMBEDDER, MemorySession, memory_command
from holdfast.cli.output import Column, Output
from holdfast.cli.reading import LIMIT
from holdfast.core.clock import from_us
from holdfast.core.errors import InvalidInput, MissingExtra
from holdfast.core.unset import UNSET
from holdfast.memory.buckets import bucket_of
from holdfast.memory.embedder.base import Embedder, space_of_embedder
from holdfast.memory.store import BaseStore
from holdfast.memory.text import query_terms

if TYPE_CHECKING:
    from holdfast.memory.agent_memory import AgentMemory
    from holdfast.memory.episodes import Episode, RecalledEpisode

_PAGE = 1000
_KINDS = click.Choice(["episodes", "sessions", "blocks"])


@memory_command("list", "list", "list --user alice --limit 5", "list --user alice --show blocks --json")
@click.option("--show", "kind", type=_KINDS, default="episodes", show_default=True, help="What of a user.")
@click.option("--session", "session_id", metavar="ID", help="Only episodes of this session.")
@click.option("--limit", type=LIMIT, default=50, show_default=True, help="At most so many.")
async def list_(session: MemorySession, kind: str, session_id: str | None, limit: int) -> int:
    """List users and how much is kept of each; of one user, the episodes, newest first.

    Fields in a pipe: of users: user (empty: nobody), sessions, episodes, facts, blocks, last change; of episodes: time,
    session, speaker, text, id; of sessions: session, episodes, first, last; of blocks: name, text.
    """
    if session.user is UNSET and kind == "episodes" and session_id is None:
        return await _list_users(session, limit)
    memory = session.memory
    if kind == "blocks":
        blocks = sorted((await memory.working(user_id=session.whose)).items())
        records: list[dict[str, Any]] = [{"name": name, "text": content} for name, content in blocks]
        columns = [Column("name", "block", "bold cyan"), Column("text", "text", cut=True)]
    elif kind == "sessions":
        records, columns = await _sessions(session), _SESSION_COLUMNS
    else:
        found = await memory.latest(limit + 1, user_id=session.whose, session_id=session_id)
        records, columns = [as_record(episode) for episode in found], _EPISODE_COLUMNS
    if records or session.out.as_json:
        session.out.records(records[:limit], columns)
    if len(records) > limit:
        session.out.remark(f"there are more {kind}: raise --limit")
    if not records:
        session.out.remark(f"no {kind} of {session.them}")
    return 0 if records else NOTHING


_EPISODE_COLUMNS = [
    Column("occurred_at", "when", "dim", show=text.moment),
    Column("session_id", "session", "cyan"),
    Column("speaker", "speaker", "bold"),
    Column("text", "text", cut=True),
    Column("id", None),
]
_SESSION_COLUMNS = [
    Column("session_id", "session", "bold cyan"),
    Column("episodes", "episodes", right=True),
    Column("first", "first", show=text.moment),
    Column("last", "last"),
]
_USER_COLUMNS = [
    Column("user", "user", "bold cyan"),
    Column("sessions", "sessions", right=True),
    Column("episodes", "episodes", right=True),
    Column("facts", "facts", right=True),
    Column("blocks", "blocks", right=True),
    Column("changed_at", "last change"),
]


async def _list_users(session: MemorySession, limit: int) -> int:
    page = await session.memory.users(limit)
    records = [await _overview(session.memory, session.namespace, user) for user in page]
    if session.out.in_terminal:
        records = [{**record, "user": record["user"] or "(anonymous)"} for record in records]
    if records or session.out.as_json:
        session.out.records(records, _USER_COLUMNS)
    if page.next is not None:
        session.out.remark("there are more users: raise --limit")
    if not records:
        session.out.remark(f"nothing is remembered in namespace {session.namespace!r}")
    return 0 if records else NOTHING


async def _overview(memory: "AgentMemory", namespace: str, user: str | None) -> dict[str, Any]:
    bucket = bucket_of(namespace, user)
    newest = await memory.store.search(bucket, None, 1, prefix=True)
    assert memory.facts is not None
    return {
        "user": user,
        "sessions": await count(memory.store, (*bucket, "sessions")),
        "episodes": await count(memory.store, (*bucket, "episodes")),
        "facts": len(await memory.facts.query(user_id=user)),
        "blocks": await count(memory.store, (*bucket, "blocks")),
        "changed_at": newest[0].updated_at if newest else None,
    }


async def count(store: BaseStore, namespace: tuple[str, ...]) -> int:
    """How many items there are."""
    total, after = 0, None
    while True:
        page = await store.list_keys(namespace, _PAGE, after=after)
        total, after = total + len(page), page.next
        if after is None:
            return total


async def _sessions(session: MemorySession) -> list[dict[str, Any]]:
    """Each session, the last to go on first."""
    found: dict[str, dict[str, Any]] = {}
    async for item in session.store.iterate(session.at("episodes")):
        name, moment = item.metadata["group"], from_us(item.metadata["at"])
        record = found.setdefault(name, {"session_id": name, "episodes": 0, "first": moment, "last": moment})
        record["episodes"] += 1
        record["first"], record["last"] = min(record["first"], moment), max(record["last"], moment)
    return sorted(found.values(), key=lambda record: record["last"], reverse=True)


def as_record(episode: "Episode") -> dict[str, Any]:
    """An episode for JSON and tables."""
    return {
        "id": episode.id,
        "occurred_at": episode.occurred_at,
        "session_id": episode.session_id,
        "ordinal": episode.ordinal,
        "speaker": episode.speaker,
        "text": episode.text,
        "checkpoint": episode.checkpoint,
        "metadata": episode.metadata,
    }


@memory_command(
    "search",
    "search 'What is the dog called?' --user alice",
    "search 'last week' --user alice --explain",
    "search oslo --anonymous --embedder none --json",
)
@click.argument("question")
@click.option("--session", "session_id", metavar="ID", help="Only episodes of this session.")
@click.option("--limit", type=LIMIT, default=10, show_default=True, help="At most so many.")
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@EMBEDDER
async def search(
    session: MemorySession, question: str, session_id: str | None, limit: int, explain: bool, embedder: str
) -> int:
    """Recall what answers QUESTION, best first, as an agent would.

    If the vectors that are stored can't be compared with the question's, it goes by words alone and says so.
    Fields in a pipe: score, time, session, speaker, text, id, parts of the score.
    """
    memory = session.with_embedder(await _embedder_for(session, embedder))
    hits = await memory.recall_scored(question, limit, user_id=session.whose, session_id=session_id)
    out = session.out
    if hits and out.in_terminal:
        _print(out, hits, question, explain=explain)
    elif hits or out.as_json:
        records = [{"score": hit.score, "parts": hit.parts, **as_record(hit.episode)} for hit in hits]
        keys = ("score", "occurred_at", "session_id", "speaker", "text", "id", "parts")
        out.records(records, [Column(key, None) for key in keys])
    if not hits:
        out.remark(f"nothing that {session.them} said has to do with {question!r}")
    return 0 if hits else NOTHING


async def _embedder_for(session: MemorySession, spec: str) -> Embedder | None:
    """What makes the question's vector. ``None``, said aloud, where it would not fit what is stored."""
    from holdfast.memory.embedder.resolve import embedder_by_record, is_automatic, resolve_embedder

    stored = await session.store.space_of(session.at("episodes"))
    automatic = is_automatic(spec)
    found: Embedder | None = None
    try:
        if not automatic:
            found = resolve_embedder(spec)
        elif stored is not None:
            found = embedder_by_record(stored)
    except (InvalidInput, MissingExtra) as error:
        if not automatic:
            raise
        session.out.remark(f"by words alone: the stored vectors are of {stored}, and {error}")
    if found is None:
        return None
    space = space_of_embedder(found)
    if stored is None or not space.fits(stored):
        there = "there are no vectors" if stored is None else f"the stored vectors are of {stored}"
        session.out.remark(f"by words alone: {there}, not of {space}; holdfast reembed would change that")
        return None
    session.store._open_space(space)
    return found


def _print(out: Output, hits: "list[RecalledEpisode]", question: str, *, explain: bool) -> None:
    """For people: when and who, and under it what was said, with the words of the question."""
    terms = query_terms(question)
    for hit in hits:
        episode = hit.episode
        when = "" if episode.occurred_at is None else text.moment(episode.occurred_at)
        speaker = text.escape(episode.speaker or "somebody")
        out.paragraph(
            [
                (f"{hit.score:.2f}  ", "bold green"),
                (speaker, "bold cyan"),
                (f"  {when}  {text.escape(episode.session_id)}", "dim"),
            ]
        )
        out.paragraph([(text.escape(episode.text), "")], 2, highlight=terms)
        if explain:
            parts = "  ".join(f"{name} {value:+.2f}" for name, value in hit.parts.items())
            out.paragraph([(parts, "dim")], 2)

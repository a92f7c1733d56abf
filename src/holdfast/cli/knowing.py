"""`memory facts` and `memory blame`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import text
from holdfast.cli.failures import NOTHING, USAGE, Failure
from holdfast.cli.memory_group import MemorySession, memory_command, moment_option
from holdfast.cli.output import Column
from holdfast.cli.reading import LIMIT

if TYPE_CHECKING:
    from holdfast.memory.facts import Change, Fact

_SHORT = 8
_LEAST = 4
_PAGE = 500


def _beginning(fact_id: str) -> str:
    return fact_id[:_SHORT]


_COLUMNS = [
    Column("id", "fact", "dim", show=_beginning),
    Column("subject", "subject", "bold cyan"),
    Column("predicate", "predicate"),
    Column("object", "object", "bold", cut=True),
    Column("confidence", "sure", right=True),
    Column("valid_from", "from", show=text.moment),
    Column("valid_until", "until", show=text.moment),
    Column("recorded_at", None),
    Column("invalidated_at", None),
    Column("sources", None),
]


@memory_command(
    "facts",
    "facts --user alice",
    "facts --user alice --valid-at 2025-06-01",
    "facts --user alice --subject user --predicate lives_in --history",
    "facts --user alice --known-at 2026-01-01T12:00Z --json",
)
@click.option("--subject", metavar="NAME", help="Only of whom or what.")
@click.option("--predicate", metavar="NAME", help="Only this: lives_in, has_pet, ...")
@moment_option("--valid-at", "What was true then.  [now]")
@moment_option("--known-at", "What was believed then.  [now]")
@click.option("--history", is_flag=True, help="All that was ever stated, what is over or retracted too.")
@click.option("--limit", type=LIMIT, default=100, show_default=True, help="At most so many.")
async def facts(
    session: MemorySession,
    subject: str | None,
    predicate: str | None,
    valid_at: datetime | None,
    known_at: datetime | None,
    history: bool,
    limit: int,
) -> int:
    """List what is known of a user, surest first; with --history, in the order of time.

    Fields in a pipe: id, subject, predicate, object, confidence, valid from, valid until, recorded, invalidated,
    sources.
    """
    if history and valid_at is not None:
        raise Failure("--history tells of all times: it can't be combined with --valid-at", USAGE)
    user = session.whose
    if history:
        found = await _history(session, subject, predicate, known_at)
    else:
        found = await session.facts.query(
            subject=subject, predicate=predicate, valid_at=valid_at, known_at=known_at, user_id=user
        )
    if found or session.out.as_json:
        session.out.records([as_record(fact) for fact in found[:limit]], _COLUMNS)
    if len(found) > limit:
        session.out.remark("there are more facts: raise --limit")
    if not found:
        session.out.remark(f"no such fact of {session.them}")
    return 0 if found else NOTHING


async def _history(
    session: MemorySession, subject: str | None, predicate: str | None, known_at: datetime | None
) -> "list[Fact]":
    """Of each subject and predicate that anything was said about."""
    from holdfast.memory.facts.words import predicate_of

    user, store = session.whose, session.facts
    wanted = None if predicate is None else predicate_of(predicate)
    if subject is not None and predicate is not None:
        return await store.history(subject, predicate, known_at=known_at, user_id=user)
    pairs: dict[tuple[str, str], None] = {}
    after: str | None = None
    while True:
        page = await store.changes(user_id=user, limit=_PAGE, after=after)
        pairs |= {(change.subject, change.predicate): None for change in page if change.kind == "add"}
        after = page.next
        if after is None:
            break
    found: dict[str, Fact] = {}
    for about, name in sorted(pairs):
        if wanted in (None, name):
            for fact in await store.history(subject or about, name, known_at=known_at, user_id=user):
                found[fact.id] = fact
    return list(found.values())


def as_record(fact: "Fact") -> dict[str, Any]:
    """A fact for JSON and tables."""
    return {column.key: getattr(fact, column.key) for column in _COLUMNS}


@memory_command("blame", "blame 3f2a --user alice", "blame 3f2a --user alice --json")
@click.argument("fact")
async def blame(session: MemorySession, fact: str) -> int:
    """Tell who said so: every change of FACT, with the episodes that it comes from.

    FACT is the id that `memory facts` shows, or its beginning (4 characters or more). Fields in a pipe: kind, recorded,
    author, confidence, reason, checkpoint, source, its time, session, speaker, text; one line for each source.
    """
    fact_id = await _resolve(session, fact)
    changes = await session.facts.blame(fact_id, user_id=session.whose)
    told = [await _told(session, change) for change in changes]
    whole, after = await _standing(session, fact_id, changes)
    if session.out.as_json:
        record = None if whole is None else as_record(whole)
        session.out.json(
            {"fact": record, "superseded_by": [as_record(other) for other in after], "changes": told}
        )
    elif session.out.in_terminal:
        _print(session, whole, after, told)
    else:
        lines = [line for record in told for line in _lines(record)]
        session.out.records(lines, [Column(key, None) for key in _FIELDS])
    return 0


async def _resolve(session: MemorySession, reference: str) -> str:
    """The id of the fact that is meant. A whole id wins."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await session.facts.changes(user_id=session.whose, limit=_PAGE, after=after)
        for change in page:
            if change.kind == "add" and change.id == reference:
                return change.id
            if change.kind == "add" and change.id.startswith(reference):
                found.append(change.id)
        after = page.next
        if after is None:
            break
    if not found:
        raise Failure(f"no fact {reference!r} of {session.them}")
    if len(reference) < _LEAST:
        raise Failure(f"use at least {_LEAST} characters of a fact's id, got {reference!r}", USAGE)
    if len(found) > 1:
        raise Failure(
            f"{reference!r} is the beginning of several facts, such as {found[0]!r} and {found[1]!r}: say more",
            USAGE,
        )
    return found[0]


async def _told(session: MemorySession, change: "Change") -> dict[str, Any]:
    """A change, and what its sources say, as far as they are still there."""
    from holdfast.memory.episodes import as_episode

    sources: list[dict[str, Any]] = []
    for name in change.sources:
        item = await session.store.get_item(session.at("episodes"), name)
        source: dict[str, Any] = {"id": name}
        if item is not None:
            episode = as_episode(item)
            source |= {
                "occurred_at": episode.occurred_at,
                "session_id": episode.session_id,
                "speaker": episode.speaker,
                "text": episode.text,
            }
        sources.append(source)
    return {
        "id": change.id,
        "kind": change.kind,
        "recorded_at": change.recorded_at,
        "author": change.author,
        "confidence": change.confidence if change.kind == "add" else None,
        "object": change.object or None,
        "reason": change.reason,
        "checkpoint": change.checkpoint,
        "targets": change.targets,
        "sources": sources,
    }


async def _standing(
    session: MemorySession, fact_id: str, changes: "Sequence[Change]"
) -> "tuple[Fact | None, list[Fact]]":
    """The fact as it is believed now, and what took its place."""
    said = next(change for change in changes if change.id == fact_id)
    ids = {change.id for change in changes}
    history = await session.facts.history(said.subject, said.predicate, user_id=session.whose)
    whole = next((fact for fact in history if fact.id in ids), None)
    if whole is None or whole.invalidated_at is None or whole.valid_until is None:
        return whole, []
    return whole, [fact for fact in history if fact.id != whole.id and fact.valid_from == whole.valid_until]


_FIELDS = (
    "kind recorded_at author confidence reason checkpoint source occurred_at session_id speaker text".split()
)


def _lines(record: dict[str, Any]) -> list[dict[str, Any]]:
    empty = dict.fromkeys(_FIELDS)
    sources = record["sources"] or [{"id": None}]
    return [{**empty, **record, **source, "source": source["id"]} for source in sources]


def _print(
    session: MemorySession, fact: "Fact | None", after: "list[Fact]", told: list[dict[str, Any]]
) -> None:
    out = session.out
    if fact is not None:
        until = "" if fact.valid_until is None else text.moment(fact.valid_until)
        lines = [
            ("fact", text.escape(f"{fact.subject} {fact.predicate} {fact.object}")),
            ("id", fact.id),
            ("sure", f"{fact.confidence:.2f}"),
            ("from", "" if fact.valid_from is None else text.moment(fact.valid_from)),
            ("until", until),
            ("recorded", "" if fact.recorded_at is None else text.moment(fact.recorded_at)),
            ("invalidated", "" if fact.invalidated_at is None else text.moment(fact.invalidated_at)),
        ]
        lines += [("superseded by", text.escape(f"{other.object} ({other.id[:_SHORT]})")) for other in after]
        out.facts([(name, value) for name, value in lines if value])
    for record in told:
        out.line()
        who = f"by {text.escape(record['author'])}" if record["author"] else "by nobody named"
        sure = "" if record["confidence"] is None else f", {record['confidence']:.2f} sure"
        where = f", at checkpoint {text.escape(record['checkpoint'])}" if record["checkpoint"] else ""
        out.paragraph(
            [
                (record["kind"], "bold yellow"),
                (f"  {text.moment(record['recorded_at'])}  {who}{sure}{where}", ""),
            ]
        )
        if record["reason"]:
            out.paragraph([(f"because: {text.escape(record['reason'])}", "")], 2)
        for source in record["sources"]:
            out.paragraph([(_source(source), "dim")], 2)
            if "text" in source:
                out.paragraph([(text.escape(source["text"]), "")], 4)


def _source(source: dict[str, Any]) -> str:
    if "text" not in source:
        return f"{text.escape(source['id'])}  (no such episode)"
    when = "" if source["occurred_at"] is None else text.moment(source["occurred_at"])
    speaker = text.escape(source["speaker"] or "somebody")
    return f"{text.escape(source['id'])}  {when}  {text.escape(source['session_id'])}  {speaker}:"

"""Conversations from a file: checked, so that a wrong file is named by the field that is wrong.

A JSON list of conversations, each with ``turns`` and ``questions``. A turn has an ``id`` and a ``text``; ``session``,
``speaker`` and ``when`` (ISO 8601) may be missing or null. A question has a ``question`` and the ``evidence``, ids of
turns; ``category`` may be missing.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.recall_data.building import Conversation, Question, Turn


class BadFile(ValueError):
    """Says which field, what it is and what it should be."""


def read_file(path: Path) -> list[Conversation]:
    """The conversations of a file, with ``None`` for what is missing."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadFile(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise BadFile(f"{path} is not JSON: {error}") from error
    conversations = [
        _conversation(entry, f"[{index}]", index) for index, entry in enumerate(_list(found, "the file"))
    ]
    counted = [
        q for c in conversations for q in c["questions"] if q["category"] != "adversarial" and q["evidence"]
    ]
    if not counted:
        raise BadFile(f"{path} has no question that counts: one with evidence and not adversarial")
    return conversations


def _conversation(given: Any, place: str, index: int) -> Conversation:
    entry = _object(given, place)
    turns = [_turn(turn, at) for turn, at in _each(entry, "turns", place)]
    ids = [turn["id"] for turn in turns]
    if len(set(ids)) < len(ids):
        twice = next(name for number, name in enumerate(ids) if name in ids[:number])
        raise BadFile(f"{place}.turns must have different ids, {twice!r} is there twice")
    if not turns:
        raise BadFile(f"{place}.turns must not be empty")
    return {
        "id": str(entry.get("id", index)),
        "speakers": sorted({turn["speaker"] for turn in turns if turn["speaker"] is not None}),
        "turns": turns,
        "questions": [_question(question, at) for question, at in _each(entry, "questions", place)],
    }


def _turn(given: Any, place: str) -> Turn:
    turn = _object(given, place)
    when = _optional(turn, "when", place)
    if when is not None:
        try:
            datetime.fromisoformat(when)
        except ValueError:
            raise BadFile(f"{place}.when must be a time as 2024-05-03T10:00:00, got {when!r}") from None
    session = turn.get("session")
    if session is not None and not isinstance(session, int | str):
        raise BadFile(f"{place}.session must be a number, a string or null, got {type(session).__name__}")
    return {
        "id": _string(turn, "id", place),
        "session": session,
        "speaker": _optional(turn, "speaker", place),
        "when": when,
        "text": _string(turn, "text", place),
    }


def _question(given: Any, place: str) -> Question:
    question = _object(given, place)
    evidence = _list(_field(question, "evidence", place), f"{place}.evidence")
    for index, name in enumerate(evidence):
        if not isinstance(name, str):
            raise BadFile(f"{place}.evidence[{index}] must be the id of a turn, got {type(name).__name__}")
    return {
        "question": _string(question, "question", place),
        "evidence": evidence,
        "category": _optional(question, "category", place) or "all",
    }


def _each(entry: dict[str, Any], name: str, place: str) -> Iterator[tuple[Any, str]]:
    for index, found in enumerate(_list(_field(entry, name, place), f"{place}.{name}")):
        yield found, f"{place}.{name}[{index}]"


def _field(entry: dict[str, Any], name: str, place: str) -> Any:
    if name not in entry:
        raise BadFile(f"{place}.{name} is missing")
    return entry[name]


def _string(entry: dict[str, Any], name: str, place: str) -> str:
    found = _field(entry, name, place)
    if not isinstance(found, str):
        raise BadFile(f"{place}.{name} must be a string, got {type(found).__name__}")
    return found


def _optional(entry: dict[str, Any], name: str, place: str) -> str | None:
    return None if entry.get(name) is None else _string(entry, name, place)


def _list(found: Any, place: str) -> list[Any]:
    if not isinstance(found, list):
        raise BadFile(f"{place} must be a list, got {type(found).__name__}")
    return found


def _object(found: Any, place: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise BadFile(f"{place} must be an object, got {type(found).__name__}")
    return found

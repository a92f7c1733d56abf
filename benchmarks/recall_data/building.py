"""What the kinds share: the shape of a conversation, and a hand that writes turns down."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypedDict


class Turn(TypedDict):
    """One memory."""

    id: str
    session: int | str | None
    speaker: str | None
    when: str | None
    text: str


class Question(TypedDict):
    """What is asked later, and the turns that answer it."""

    question: str
    evidence: list[str]
    category: str


class Conversation(TypedDict):
    """What one user's memory holds, and what is asked of it."""

    id: str
    speakers: list[str]
    turns: list[Turn]
    questions: list[Question]


class Writer:
    """Writes turns and questions of one kind. Without a start there are no times."""

    def __init__(self, kind: str, start: datetime | None = None) -> None:
        self._kind = kind
        self._now = start
        self._session: int | None = None
        self._turns: list[Turn] = []
        self._questions: list[Question] = []

    def session(self, gap: timedelta = timedelta(days=1)) -> None:
        """What follows belongs to a new session, so much later."""
        if self._session is not None and self._now is not None:
            self._now += gap
        self._session = (self._session or 0) + 1

    def at(self, moment: datetime) -> None:
        """What follows is said then."""
        self._now = moment

    def say(self, speaker: str | None, text: str) -> str:
        """Write a turn; returns its id."""
        number = f"{self._kind}:{len(self._turns) + 1}"
        when = None if self._now is None else self._now.isoformat()
        self._turns.append(
            {"id": number, "session": self._session, "speaker": speaker, "when": when, "text": text}
        )
        if self._now is not None:
            self._now += timedelta(seconds=40)
        return number

    def ask(self, question: str, evidence: Sequence[str]) -> None:
        """Note a question that is answered by those turns."""
        self._questions.append({"question": question, "evidence": list(evidence), "category": self._kind})

    def done(self) -> Conversation:
        speakers = dict.fromkeys(turn["speaker"] for turn in self._turns)
        return {
            "id": self._kind,
            "speakers": [speaker for speaker in speakers if speaker is not None],
            "turns": self._turns,
            "questions": self._questions,
        }

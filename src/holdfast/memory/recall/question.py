"""What a question says about the memories that answer it."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.memory.recall.dates import Span, span_words, spans
from holdfast.memory.text import query_terms

MAX_TERMS: Final = 64
"""Of a longer text (a pasted log) the first so many different words are looked up."""

_RECENT: Final = frozenset("latest newest recently currently current lately nowadays".split())
_RECENT_PHRASES: Final = re.compile(r"\b(?:most recent|these days|up to date)\b")
_FIRST_PERSON: Final = frozenset({"i", "me", "my", "mine", "myself"})
_SECOND_PERSON: Final = frozenset({"you", "your", "yours", "yourself"})
_WORD: Final = re.compile(r"\w+")
# What the two sides of a chat with an assistant are called.
_ASKING: Final = frozenset({"user", "human"})
_ASKED: Final = frozenset({"assistant", "ai"})


@dataclass(frozen=True, slots=True)
class Question:
    """``terms`` of our analyser, the times it names, and who speaks in it."""

    terms: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    recent: bool = False
    roles: frozenset[str] = frozenset()

    @property
    def time_terms(self) -> list[str]:
        """What memories of the named times have in the text index, if they were given `dates.time_words`."""
        return list(dict.fromkeys(word for span in self.spans for word in span_words(span)))


def parse(text: str, now: datetime) -> Question:
    """Read a question. ``now`` is what "yesterday" counts from."""
    lower = text.lower()
    words = frozenset(_WORD.findall(lower))
    first, second = not words.isdisjoint(_FIRST_PERSON), not words.isdisjoint(_SECOND_PERSON)
    # "What did you tell me?" names both sides, so neither.
    roles = (_ASKING if first else _ASKED) if first != second else frozenset[str]()
    return Question(
        terms=tuple(query_terms(text)[:MAX_TERMS]),
        spans=tuple(spans(text, now)),
        recent=not words.isdisjoint(_RECENT) or _RECENT_PHRASES.search(lower) is not None,
        roles=roles,
    )

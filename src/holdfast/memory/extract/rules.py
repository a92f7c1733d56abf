"""What people say about themselves in so many words, found without a model. Careful rather than complete."""

import re
from dataclasses import dataclass
from typing import Final

from holdfast.memory.extract.gate import has_secret, is_junk
from holdfast.memory.recall.dates import without_time

__all__ = ["Statement", "statements"]

_END: Final = (
    r"(?=\s*(?:[.;!?\n,]|\s(?:and|but|so|because|which|who|that|since|for|when|while(?!\s+ago)|though)\b|$))"
)
_VALUE: Final = rf"(?P<value>[^.;!?\n,]{{2,80}}?){_END}"
_I: Final = r"\b(?:i|we)\s+(?:(?:also|now|really|usually|mostly|always|currently|still)\s+)*"
_IM: Final = r"\bi(?:'m|\s+am)\s+(?:(?:also|now|really|currently)\s+)*"


@dataclass(frozen=True, slots=True)
class Statement:
    """What a user said of themselves: ``user <predicate> <object>``, and the sentence that says so for a reader.

    ``single``: a newer one takes its place.
    """

    predicate: str
    object: str
    sentence: str
    single: bool


# Predicate, whether there is one at a time, the sentence for it, the pattern.
_RULES: Final = tuple(
    (predicate, single, sentence, re.compile(pattern, re.IGNORECASE))
    for predicate, single, sentence, pattern in (
        ("name", True, "The user's name is {}.", rf"\bmy\s+name\s+is\s+{_VALUE}"),
        ("name", True, "The user's name is {}.", rf"\b(?:please\s+)?call\s+me\s+{_VALUE}"),
        (
            "lives_in",
            True,
            "The user lives in {}.",
            rf"{_I}(?:live|moved|have\s+moved)\s+(?:in|to)\s+{_VALUE}",
        ),
        ("works_at", True, "The user works at {}.", rf"{_I}work\s+(?:at|for)\s+{_VALUE}"),
        ("works_as", True, "The user works as {}.", rf"{_I}work\s+as\s+{_VALUE}"),
        ("works_on", False, "The user works on {}.", rf"{_I}(?:work\s+on|build|maintain|own)\s+{_VALUE}"),
        ("allergic_to", False, "The user is allergic to {}.", rf"{_IM}allergic\s+to\s+{_VALUE}"),
        ("prefers", False, "The user prefers {}.", rf"{_I}prefer\s+{_VALUE}"),
        ("likes", False, "The user likes {}.", rf"{_I}(?:like|love|enjoy)\s+{_VALUE}"),
        ("dislikes", False, "The user does not like {}.", rf"{_I}(?:hate|dislike|don't\s+like)\s+{_VALUE}"),
        ("speaks", False, "The user speaks {}.", rf"{_I}speak\s+{_VALUE}"),
        ("birthday", True, "The user's birthday is {}.", rf"\bmy\s+birthday\s+is\s+(?:on\s+)?{_VALUE}"),
        (
            "favourite",
            True,
            "The user's favourite {thing} is {}.",
            rf"\bmy\s+favou?rite\s+(?P<thing>\w+(?:\s\w+)?)\s+(?:is|are)\s+{_VALUE}",
        ),
        (
            "told",
            False,
            "The user asked to remember: {}.",
            r"\b(?:remember|note)(?:\s+that|\s*:)\s+(?P<value>[^\n]{4,200})",
        ),
    )
)
_TRAILING: Final = re.compile(
    r"\s+(?:now|nowadays|currently|today|recently|lately|again|too|as\s+well|anymore|these\s+days|at\s+the\s+moment"
    r"|(?:a|some|a\s+long)\s+(?:while|time)\s+ago)$",
    re.IGNORECASE,
)
# What is so since a time that may be said behind it.
_TIMED: Final = frozenset({"lives_in", "works_at", "works_as", "works_on"})
# What a clause goes on with when its object stands before it ("which region I prefer for inference").
_NO_VALUE: Final = re.compile(
    r"(?:for|to|in|on|at|with|of|from|by|and|or|that|which|it|this|them|most|best|least)\b", re.IGNORECASE
)
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]*|\n")


def statements(text: str) -> list[Statement]:
    """What the text says of its author, in the order in which it says so. Questions, quotes of code and secrets don't
    count."""
    found: dict[tuple[str, str], Statement] = {}
    for sentence in _SENTENCE.findall(text):
        if is_junk(sentence) or has_secret(text):
            continue
        for predicate, single, words, pattern in _RULES:
            for match in pattern.finditer(sentence):
                value = _TRAILING.sub("", match["value"].strip().rstrip(".!?,;: "))
                value = without_time(value) if predicate in _TIMED else value
                thing = match.groupdict().get("thing")
                name = predicate if thing is None else f"{predicate}_{'_'.join(thing.lower().split())}"
                if value and not _NO_VALUE.match(value):
                    said = words.format(value, thing=thing)
                    found.setdefault((name, value.casefold()), Statement(name, value, said, single))
    return list(found.values())

"""When a sentence takes the place of another one: both say of the same subject what it has one of. Careful: what is not
clear is nothing."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from holdfast.memory.facts.words import USER, plain, predicate_of, subject_of, usual
from holdfast.memory.text import analyse

__all__ = ["Slot", "slot_of"]


@dataclass(frozen=True, slots=True)
class Slot:
    """``subject`` and ``attribute`` tell what it is about. ``value`` are the words of what is said of it."""

    subject: str
    attribute: str
    value: frozenset[str]

    def same_as(self, other: "Slot | None") -> bool:
        """Whether both are about the same thing."""
        return other is not None and (self.subject, self.attribute) == (other.subject, other.attribute)


_SUBJECT: Final = r"(?P<subject>(?:[\w'’.-]+\s+){0,3}?)"
_NOW: Final = r"(?:(?:now|currently|still|also|today)\s+)?"
_IS: Final = rf"(?:is|are|was\s+changed\s+to)\s+{_NOW}"
_WORDS: Final = r"(?:[^.;:!?()]|\.(?=\S))+?"
_VALUE: Final = rf"(?P<value>{_WORDS})"
_VERBS: Final = (
    ("lives_in", rf"(?:lives?|resides?|is\s+{_NOW}(?:based|living|located))\s+{_NOW}in"),
    ("lives_in", r"(?:(?:has\s+|have\s+)?(?:moved|relocated))\s+to"),
    ("works_at", rf"(?:works?|is\s+{_NOW}(?:working|employed))\s+{_NOW}(?:at|for|by)"),
    ("works_as", rf"(?:works?|is\s+{_NOW}working)\s+{_NOW}as(?:\s+an?)?"),
    ("married_to", rf"is\s+{_NOW}married\s+to"),
    ("name", r"(?:is\s+called|goes\s+by|wants\s+to\s+be\s+called)"),
    ("born_in", r"was\s+born\s+in"),
    ("born_on", r"was\s+born\s+on"),
)
_RULES: Final = tuple(
    (attribute, re.compile(rf"{_SUBJECT}{_NOW}{verb}\s+{_VALUE}", re.IGNORECASE))
    for attribute, verb in _VERBS
)
_HAS: Final = re.compile(
    rf"(?:(?P<subject>(?:[\w.-]+\s+){{0,3}}?[\w.-]+)['’]s?|(?P<mine>my|their|his|her))\s+"
    rf"(?P<attribute>(?:[\w-]+\s+){{0,3}}?[\w-]+)\s+{_IS}{_VALUE}",
    re.IGNORECASE,
)
_AGE: Final = re.compile(rf"{_SUBJECT}is\s+{_NOW}(?P<value>\d{{1,3}})\s+years\s+old", re.IGNORECASE)
_PREFERS: Final = re.compile(
    rf"{_SUBJECT}{_NOW}prefers?\s+{_VALUE}\s+for\s+(?P<purpose>{_WORDS})", re.IGNORECASE
)
_RATHER: Final = re.compile(
    rf"{_SUBJECT}{_NOW}(?:prefers?|likes?)\s+{_VALUE}\s+(?:over|more\s+than|to)\s+(?P<other>{_WORDS})",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(
    r"(?:\s*,?\s+(?:now|nowadays|currently|today|again|these\s+days|at\s+the\s+moment|since\s+.*|as\s+of\s+.*))+$",
    re.IGNORECASE,
)
# What makes it more than one statement, or one with a condition: then it says more than the slot.
_MORE: Final = re.compile(
    r"\b(?:and|or|but|who|which|that|because|while|when|if|although|though|not|never|no|n't|during|until|before|after"
    r"|with|without|in|on|at|from|for|every|each|sometimes|often|usually|mostly|part|half|except|also)\b|[\"“”]",
    re.IGNORECASE,
)
_UNCLEAR_SUBJECT: Final = re.compile(
    r"\b(?:he|she|they|it|we|you|this|that|who|someone|everyone|nobody|not|never|no|longer|used|may|might|would|could"
    r"|wants?|plans?|hopes?|and|or|if|when|both|formerly|previously|once)\b",
    re.IGNORECASE,
)
# Names of regions, versions, models: of two that look alike one is preferred; dark mode and large fonts can both be.
_NAME: Final = re.compile(r"\S*[\d_-]\S*")
_MANY: Final = re.compile(r"(?:.*\s)?[\w-]+[^s\W]s", re.IGNORECASE)  # they may be in two places
_MOST_WORDS: Final = 6


@lru_cache(maxsize=1024)
def slot_of(content: str) -> Slot | None:
    """What the sentence is about, if it states one thing of which there is one at a time; else ``None``."""
    text = " ".join(content.split()).rstrip(".! ")
    found = _RATHER.fullmatch(text)
    if found is not None and not _MORE.search(found["value"] + " " + found["other"]):
        pair = sorted((plain(found["value"]), plain(found["other"])))
        return _slot(found["subject"], f"prefers of {pair[0]} and {pair[1]}", found["value"])
    found = _PREFERS.fullmatch(text)
    if found is not None and not _MORE.search(found["purpose"]) and _NAME.fullmatch(found["value"]):
        purpose = " ".join(sorted(analyse(_TRAILING.sub("", found["purpose"]))))
        return _slot(found["subject"], f"prefers for {purpose} {_shape(found['value'])}", found["value"])
    found = _AGE.fullmatch(text)
    if found is not None:
        return _slot(found["subject"], "age", found["value"])
    for attribute, pattern in _RULES:
        found = pattern.fullmatch(text)
        if found is not None:
            return _slot(found["subject"], attribute, found["value"])
    found = _HAS.fullmatch(text)
    if found is None or (found["mine"] or "my").lower() != "my":
        return None
    attribute = predicate_of(found["attribute"])
    if usual(attribute) != "one":
        return None
    return _slot(found["subject"] or "", attribute.replace("favorite", "favourite"), found["value"])


def _shape(name: str) -> str:
    """The same for ``us-chicago-1`` and ``eu-frankfurt-1``: names of one kind."""
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", name))


def _slot(subject: str, attribute: str, value: str) -> Slot | None:
    about, said = subject.strip(), _TRAILING.sub("", value).strip(" ,")
    many = _MANY.fullmatch(about) is not None and subject_of(about) not in (USER, "users")
    if many or _UNCLEAR_SUBJECT.search(about) or _MORE.search(said) or len(said.split()) > _MOST_WORDS:
        return None
    words = frozenset(analyse(said)) or frozenset([plain(said)])
    return Slot(subject_of(about) if about else USER, attribute, words)

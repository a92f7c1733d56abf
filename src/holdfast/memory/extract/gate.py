"""What does not belong in long-term memory: small talk, questions, what was itself recalled, and secrets."""

import re
from typing import Final

from holdfast.memory.fence import is_fenced

__all__ = ["has_secret", "is_junk"]

_SECRETS: Final = re.compile(
    r"""
      \b(?:sk|pk|rk)[-_](?:[a-z]+[-_])*[A-Za-z0-9]{16,}       # keys of model vendors and payment services
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                            # cloud access keys
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}      # code hosts
    | \bxox[abprs]-[A-Za-z0-9-]{10,}                           # chat services
    | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+  # signed tokens
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    | \b[a-z][a-z0-9+.-]*://[^\s/@:]+:[^\s/@]+@                # a password in an address
    | \b(?:pass(?:word|phrase|wd|code)?|pwd|pin|secret|api[\s_-]?key|access[\s_-]?(?:key|token)|auth[\s_-]?token
        |bearer|token|credentials?|cvv|cvc)\b
      (?:\s+\w+){0,3}?\s*(?:is|are|was|=|:|to)\s*["'`]?(?=\S*[\d\W_]|\S{8})\S{3,}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CARD: Final = re.compile(r"\b(?:\d[ -]?){12,18}\d\b")
_SMALL_TALK: Final = re.compile(
    r"""(?:hi|hello|hey|good\ (?:morning|afternoon|evening|night)|thanks?(?:\ you)?(?:\ (?:so|very)\ much)?|thx
    |ok(?:ay)?|yes|no|yep|nope|sure|great|cool|nice|perfect|bye|goodbye|see\ you|please|sorry|lol|haha+
    |how\ are\ you(?:\ today)?|you(?:'re|\ are)\ welcome|no\ problem|got\ it|sounds\ good
    |there|everyone|all|then|again|\W)+""",
    re.VERBOSE | re.IGNORECASE,
)


def has_secret(text: str) -> bool:
    """Whether the text seems to hold a key, a password or the number of a card."""
    return _SECRETS.search(text) is not None or any(_is_card(found) for found in _CARD.findall(text))


def is_junk(text: str) -> bool:
    """Whether the text says nothing to remember."""
    stripped = text.strip()
    if len(stripped) < 4 or is_fenced(stripped) or has_secret(stripped):
        return True
    return stripped.endswith("?") or _SMALL_TALK.fullmatch(stripped) is not None


def _is_card(text: str) -> bool:
    """The check digit that numbers of cards have."""
    digits = [int(character) for character in text if character.isdigit()]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0

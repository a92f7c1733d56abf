"""Our analyser: what a word is, on every backend.

Text is lower-cased, cut into words, English words are reduced to their stem, and English function words are
dropped. Chinese, Japanese, Korean, Thai and other characters that are written without spaces are words by
themselves. Stop words are not indexed, so a query of stop words alone finds nothing.
"""

import re
import threading
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import Stemmer

from holdfast.core import registry

if TYPE_CHECKING:
    from holdfast.core.messages import Message

ANALYSER_VERSION: Final = 1
"""Changes whenever the same text would give other terms: indexes made by another version are built anew."""
MAX_WORD: Final = 64
"""Longer runs (keys, encoded data) are words of their first 64 characters."""
_MAX_CACHED: Final = 50_000

STOP_WORDS: Final = frozenset(
    """
    a about above after again against all am an and any are aren't as at be because been before being
    below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't
    down during each few for from further had hadn't has hasn't have haven't having he he'd he'll he's
    her here here's hers herself him himself his how how's i i'd i'll i'm i've if in into is isn't it
    it's its itself let's me more most mustn't my myself no nor not of off on once only or other ought
    our ours ourselves out over own same shan't she she'd she'll she's should shouldn't so some such
    than that that's the their theirs them themselves then there there's these they they'd they'll
    they're they've this those through to too under until up very was wasn't we we'd we'll we're we've
    were weren't what what's when when's where where's which while who who's whom why why's with won't
    would wouldn't you you'd you'll you're you've your yours yourself yourselves
    """.split()
)

# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han, Hangul.
_ALONE = (
    "\u0e01-\u0e4e\u0e81-\u0ecd\u1000-\u109f\u1780-\u17d3\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that belong to the letter before them but are not letters for `re`: vowel signs, accents, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83\u0abc-\u0acd"
    "\u0b01-\u0b03\u0b3c-\u0b4d\u0b82\u0bbe-\u0bcd\u0c00-\u0c03\u0c3e-\u0c4d\u0c81-\u0c83\u0cbc-\u0ccd"
    "\u0d00-\u0d03\u0d3b-\u0d4d\u0dca-\u0ddf\u200c\u200d"
)
_LETTER = rf"[^\W_{_ALONE}]"
_ASCII_WORDS: Final = {
    code: chr(code).lower() if chr(code).isalnum() or chr(code) == "'" else " " for code in range(128)
}
_ASCII_WORD: Final = re.compile("[a-z0-9]+(?:'[a-z0-9]+)*")
# The same as _ANY_WORD, and twice as fast, where no special character occurs.
_SPACED_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_SPECIAL: Final = re.compile(f"[{_ALONE}{_MARKS}]")
_ANY_WORD: Final = re.compile(rf"[{_ALONE}]|{_LETTER}[{_MARKS}]*(?:['’]?{_LETTER}[{_MARKS}]*)*")


class _Terms(dict[str, str]):
    """The term of each word met so far; the empty string for a stop word. Safe to share between threads."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()  # a stemmer keeps state while it works

    def __missing__(self, word: str) -> str:
        bare = word.strip("'")
        term = "" if not bare or bare in STOP_WORDS else self._stem(bare[:MAX_WORD])
        if len(word) <= MAX_WORD:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[word] = term
        return term

    def _stem(self, word: str) -> str:
        # Numbers, ids and other scripts have no English endings.
        if len(word) < 3 or not word.isascii() or not word.replace("'", "").isalpha():
            return word
        try:
            stemmer = self._local.stemmer
        except AttributeError:
            stemmer = self._local.stemmer = Stemmer.Stemmer("english", 0)  # the cache is ours
        return str(stemmer.stemWord(word))


_terms: Final = _Terms()


def analyse(text: str) -> list[str]:
    """The terms of a text, in order, repeated as often as they occur."""
    if not text.isascii():
        text = _normal(text)
        words = (_ANY_WORD if _SPECIAL.search(text) else _SPACED_WORD).findall(text)
    elif "''" in text:
        words = _ASCII_WORD.findall(text.lower())
    else:  # the same, and several times as fast; apostrophes around a word are taken off with its ending
        words = text.translate(_ASCII_WORDS).split()
    return list(filter(None, map(_terms.__getitem__, words)))


def query_terms(text: str) -> list[str]:
    """The different terms of a query, in order. Empty if it has no words, or stop words only."""
    return list(dict.fromkeys(analyse(text)))


def snippet(text: str, terms: Collection[str], width: int = 160) -> str:
    """At most ``width`` characters around the first word that has one of the terms, on one line."""
    at = _first_match(text, frozenset(terms))
    # Only the neighbourhood is looked at: the text may be long. Runs of white space shrink, hence the margin.
    reach = 4 * width
    before, after = text[max(0, at - reach) : at], text[at : at + reach]
    left, right = " ".join(before.split()), " ".join(after.split())
    if left and before[-1].isspace():
        left += " "
    room = max(width // 3, width - len(right))
    if len(left) > room or at > reach:
        left = "…" + _from_word(left, room - 1)
    if len(left) + len(right) > width or at + reach < len(text):
        right = _to_word(right, width - len(left) - 1) + "…"
    return left + right


def _first_match(text: str, terms: frozenset[str]) -> int:
    """Where the first word with one of the terms begins; 0 if none has."""
    if text.isascii():
        words = _ASCII_WORD.finditer(text.lower())
        return next((word.start() for word in words if _terms[word[0]] in terms), 0)
    words = _ANY_WORD.finditer(text)
    return next((word.start() for word in words if not terms.isdisjoint(analyse(word[0]))), 0)


def value_text(value: Any) -> str:
    """All strings in a value, at any depth, on a line each: what text search looks into. Keys are not."""
    return value if type(value) is str else "\n".join(_strings(value))


def message_text(message: "Message") -> str:
    """What text search looks into: the content, names of tool calls and strings in their arguments."""
    if not message.tool_calls:
        return message.content or ""
    parts = [message.content] if message.content else []
    for call in message.tool_calls:
        parts.append(call.name)
        parts.extend(_strings(call.arguments))
    return "\n".join(parts)


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).replace("’", "'")  # casefolding may undo composition


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, set | frozenset):
        yield from sorted(text for item in value for text in _strings(item))
    elif registry.name_of(type(value)) is not None:  # a dataclass or model that the codec can store
        yield from _strings(registry.describe(value)[1])


def _from_word(text: str, room: int) -> str:
    """The end of the text, from the start of a word if there is one."""
    tail = text[len(text) - room :]
    starts = tail.find(" ", 0, -1)
    return tail[starts + 1 :] if starts >= 0 else tail


def _to_word(text: str, room: int) -> str:
    """The beginning of the text, to the end of a word if there is one."""
    ends = text.rfind(" ", 0, room + 1)
    return text[:ends] if ends > 0 else text[:room]

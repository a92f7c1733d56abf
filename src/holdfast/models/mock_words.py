"""How the mock model reads: words, stems, verbs, sentences. English only, and small on purpose."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = [
    "class_of",
    "command_of",
    "content_stems",
    "is_how_to",
    "is_question",
    "name_words",
    "sentences",
    "stem",
    "without_courtesy",
    "words",
]

STOP_WORDS: Final = frozenset(
    """a about all also am an and any are as at be been but by call called can could did do does for from had has
    have he her here him his how i i'd i'll i'm i've if in into is it it's its just let's me might my now of off ok
    okay on one or our out over please shall she should so some than that that's the their them then there these they
    this those to today too tool up us use using was we were what what's when where which who whom whose why will with
    would you your you're yes no not don't remind tell know remember give show""".split()
)

# Verbs that mean the same to a tool. A verb may be in several classes.
_CLASSES: Final = {
    "get": """get list show read fetch find search lookup look query recall retrieve view display check tell give see
        load describe count remind""",
    "save": "save store record remember keep note write persist log add create put insert append memorize jot",
    "delete": "delete remove clear drop erase forget cancel",
    "update": "update change edit modify rename replace set",
    "send": "send email post notify mail message",
    "sum": "add sum plus total",
    "multiply": "multiply times product",
    "subtract": "subtract minus difference",
    "divide": "divide quotient",
    "compute": "calculate compute evaluate solve",
    "run": "run execute start launch perform",
}
_OTHER_VERBS: Final = """answer approve ask book build buy call close convert copy deploy download draft explain
    generate help make move open order pay plan pick print reserve restart say schedule stop summarise summarize
    transfer translate turn try upload use wait""".split()

_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z]+)?")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\s*\n+\s*")
_COURTESY: Final = re.compile(
    r"""^(?:(?:please|kindly|hello|hi|hey|ok|okay|now|also|and|so|first|next|finally|lastly|thanks|thank\ you
        |good\ (?:morning|evening|day))\b[\s,.!:—–-]*
        |(?:can|could|would|will)\ (?:you|we)\b\s*
        |i(?:\ would|'d)?\ (?:want|need|like)\ (?:you\ )?to\b\s*
        |(?:let's|let\ us|go\ ahead\ and|i\ want\ you\ to)\s+)+""",
    re.IGNORECASE | re.VERBOSE,
)
_QUESTION: Final = re.compile(
    r"""^(?:what|who|whom|whose|when|where|which|why|how|is|are|am|was|were|do|does|did|has|have|should|can|could
        |remind\ me|tell\ me|what's|who's|where's|when's|how's)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_HOW_TO: Final = re.compile(r"^(?:how|why)\s+(?:do|does|can|could|should|would|to)\b", re.IGNORECASE)


def words(text: str) -> list[str]:
    """The words of a text in lower case, apostrophes included, curly ones as plain ones."""
    return [word.lower() for word in _WORD.findall(text.replace("\u2019", "'"))]


def stem(word: str) -> str:
    """A word without its ending: "Saved", "saves" and "saving" are one."""
    word = word.lower().removesuffix("'s")
    for ending, rest in (("ies", "y"), ("ence", ""), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending) + rest
            break
    return word.removesuffix("e") if len(word) > 3 else word


def content_stems(text: str) -> list[str]:
    """The stems of the words that carry meaning, in order."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def name_words(name: str) -> list[str]:
    """The words of a tool's or a parameter's name: ``getNotes``, ``get_notes`` and ``get-notes`` are alike."""
    return [part.lower() for part in _CAMEL.split(name) if part]


def _classes() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for name, verbs in _CLASSES.items():
        for verb in verbs.split():
            found.setdefault(stem(verb), set()).add(name)
    return {verb: frozenset(names) for verb, names in found.items()}


_CLASS_OF: Final = _classes()
_VERBS: Final = frozenset(_CLASS_OF) | {stem(verb) for verb in _OTHER_VERBS}


def class_of(word: str) -> frozenset[str]:
    """What a verb means: names of classes, none for an unknown one."""
    return _CLASS_OF.get(stem(word), frozenset())


def without_courtesy(text: str) -> str:
    """A sentence without its "please", "can you" and "hello"."""
    text = text.strip().replace("\u2019", "'")
    return text[match.end() :] if (match := _COURTESY.match(text)) else text


def command_of(text: str, verbs: Iterable[str] = ()) -> str | None:
    """The verb that a sentence begins with if it is a request, else None. `verbs` are more that may be one."""
    said = words(without_courtesy(text))
    first = said[0] if said else None
    if (
        first is None
        or said[:2] == ["call", "me"]
        or not (stem(first) in _VERBS or stem(first) in {stem(verb) for verb in verbs})
    ):
        return None
    return first


def is_question(text: str) -> bool:
    """Whether a sentence asks for something to be told."""
    bare = without_courtesy(text)
    # "Can you save a note?" is a request, mark or not.
    return bool(_QUESTION.match(bare)) or (bare.rstrip().endswith("?") and command_of(bare) is None)


def is_how_to(text: str) -> bool:
    """Whether a question asks for an explanation, which no tool gives."""
    return bool(_HOW_TO.match(without_courtesy(text)))


def sentences(text: str) -> Iterator[str]:
    """The sentences and lines of a text, without the ends of lists and spaces around them."""
    for sentence in _SENTENCE_END.split(text):
        bare = sentence.strip().lstrip("-*•# ").strip()
        if bare:
            yield bare

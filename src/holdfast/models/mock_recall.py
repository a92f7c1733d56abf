"""How the mock model answers without a tool: from what was said before, or with a polite acknowledgement."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.core.messages import Message, Role
from holdfast.models.mock_rules import about_user
from holdfast.models.mock_words import (
    command_of,
    content_stems,
    is_how_to,
    is_question,
    sentences,
    stem,
    without_courtesy,
    words,
)

__all__ = ["acknowledge", "as_told", "converse", "second_person"]

# Words that stand for each other in questions and facts about a person.
_ALIKE: Final = tuple(
    frozenset(stem(word) for word in group.split())
    for group in (
        "adore enjoy fan favor favorite favourite like love prefer",
        "career do employed job occupation profession role work",
        "based city country from home hometown live moved town where",
        "age birthday born old",
    )
)
_NAME: Final = re.compile(
    r"\b(?:my name(?:'s| is)|call me|(?:user's |their )?name(?:'s| is|:)|i'm|i am|this is)\s+"
    r"([A-Z][\w-]*(?:'\w+)?(?:\s+[A-Z][\w-]*)*)"
)
_NAME_LEAD: Final = re.compile(r"\b(My|Call|I)\b(?= (?:name|me|am)\b)|\bI'm\b|\bThis is\b|\bName\b")
_CLAUSE: Final = re.compile(
    r"(?:,\s*(?:and\s+)?|\s+and\s+|;\s*|\s+but\s+)(?=(?:i|i'm|my|i've|we|our)\b)", re.IGNORECASE
)
_PARTS: Final = re.compile(r",?\s+and\s+(?=(?:what|which|who|where|when|how)\b)", re.IGNORECASE)
_ORDER: Final = re.compile(
    r"^(?:you\b|always|never|whenever|when|if|be\b|do\b|don't|use\b|call\b|keep\b|follow|respond|reply|answer"
    r"|treat|these are|the following)",
    re.IGNORECASE,
)
_LEAD: Final = re.compile(
    r"^(?:(?:remember|note|fyi|keep in mind)\b(?:\s+(?:this|that))?[\s:,—–-]*)", re.IGNORECASE
)
_SWAPS: Final = {
    "i'm": "you're",
    "i've": "you've",
    "i'll": "you'll",
    "i'd": "you'd",
    "i": "you",
    "my": "your",
    "mine": "yours",
    "me": "you",
    "myself": "yourself",
    "am": "are",
}
# The two forms of a line that an agent with a memory shows: a fact, and what was said in an earlier conversation.
_FACT: Final = re.compile(r"user (?P<predicate>\w+) (?P<rest>.+?)(?: \(since \d{4}-\d\d-\d\d\))?")
_EPISODE: Final = re.compile(r"(?:\d{4}-\d\d-\d\d, )?(?P<speaker>user|assistant): (?P<text>.+)")
_THANKS: Final = frozenset("thanks thank".split())
_GREETINGS: Final = frozenset("hello hi hey good greetings".split())


def as_told(lines: Iterable[str]) -> list[Message]:
    """What an agent remembers, line by line, as if it had been said before: facts last, for they are what is so now."""
    facts: list[Message] = []
    said: list[Message] = []
    for line in lines:
        if fact := _FACT.fullmatch(line):
            facts.append(Message.user(_first_person(fact["predicate"], fact["rest"])))
        elif episode := _EPISODE.fullmatch(line):
            if episode["speaker"] != "assistant":
                said.append(Message.user(episode["text"]))
        else:
            said.append(Message.system(line))
    return [*said, *facts]


def _first_person(predicate: str, rest: str) -> str:
    if predicate == "name" or predicate.startswith(("favorite", "favourite")):
        return f"My {predicate} is {rest}".replace("  ", " ")
    verb = {"is": "am", "has": "have"}.get(predicate) or predicate.removesuffix("s")
    return f"I {verb} {rest}"


def converse(prompt: str, earlier: Sequence[Message]) -> str:
    """An answer to a prompt that no tool fits, from the messages before it."""
    asked = [part for one in sentences(prompt) if is_question(one) for part in _PARTS.split(one)]
    if asked:
        found = [answer for question in asked if (answer := _answer(question, earlier))]
        return " ".join(dict.fromkeys(found)) or "I don't know: nothing in this conversation tells me."
    verb = command_of(prompt)
    if verb is not None and stem(verb) in {"summaris", "summariz"}:
        return _summary(prompt, earlier)
    return acknowledge(prompt)


def acknowledge(prompt: str) -> str:
    """A reply to a statement: it says back what it heard."""
    first = next(iter(words(prompt)), "")
    plain = prompt.strip().replace("\u2019", "'")
    told = _LEAD.sub("", without_courtesy(plain))
    if name := _name(told):
        return f"Nice to meet you, {name}."
    if told != without_courtesy(plain) and words(told):
        return f"I'll remember: {_sentence(second_person(told))}"
    if facts := about_user(prompt):
        return f"Good to know: {_ended(_lower(second_person(facts)))}"
    if first in _THANKS:
        return "You're welcome."
    if first in _GREETINGS and not words(told):
        return "Hello! How can I help?"
    if command_of(prompt) is not None:
        return f"I'm a mock model, and no tool of mine fits: {_sentence(plain)}"
    return f"Understood: {_sentence(plain)}" if words(plain) else "I'm here. What can I do?"


def second_person(text: str) -> str:
    """What somebody said about themselves, said to them: "My name is Alice" is "Your name is Alice"."""

    def swap(match: re.Match[str]) -> str:
        word = match[0]
        other = _SWAPS.get(word.lower())
        if other is None:
            return word
        return other[:1].upper() + other[1:] if word[0].isupper() and match.start() == 0 else other

    swapped = re.sub(r"[A-Za-z]+(?:'[A-Za-z]+)?", swap, text.replace("\u2019", "'"))
    return re.sub(r"\byou was\b", "you were", swapped, flags=re.IGNORECASE)


def _answer(question: str, earlier: Sequence[Message]) -> str:
    if is_how_to(question):
        return ""
    sought = set(content_stems(question))
    plain = " ".join(words(question))
    if re.search(r"\bmy name\b|\bwho am i\b|\bam i called\b", plain):
        told = sorted(_facts(earlier), key=lambda fact: not fact[1])
        if name := next((name for fact, _ in told if (name := _name(fact))), ""):
            return f"Your name is {name}."
        sought.add("nam")
    if re.search(r"\bdo i do\b|\bfor a living\b", plain):
        sought = (sought | {"work"}) - {"liv"}
    if re.search(r"\bwhere\b.*\bi\b", plain):
        sought |= {"liv", "from"}
    if re.search(r"\bhow old\b", plain):
        sought.add("old")
    best, most = "", 0.0
    for fact, mine in _facts(earlier):  # the newest first, so that it wins a tie
        score = _nearness(sought, fact)
        score += 0.5 if mine and score else 0
        if score > most:
            best, most = _sentence(second_person(fact) if mine else fact), score
    return best


def _nearness(sought: set[str], fact: str) -> float:
    said = set(content_stems(fact)) | {word for word in words(fact) if word in {"from", "do"}}
    score = float(len(sought & said))
    for alike in _ALIKE:
        if sought & alike and said & alike:
            score += 0 if sought & said & alike else 0.9
            named = re.search(r"\bmy fav(?:o|ou)rite (\w+)", fact, re.IGNORECASE)
            if named and stem(named[1]) not in sought and sought - alike:
                score -= 1  # their favourite colour is not their favourite food
    return score


def _facts(earlier: Sequence[Message]) -> Iterator[tuple[str, bool]]:
    """What the conversation tells, newest first, and whether the user said it (so that "I" is they)."""
    for message in reversed(earlier):
        if not message.content or message.role is Role.ASSISTANT:
            continue
        mine = message.role is Role.USER
        for sentence in reversed(list(sentences(message.content))):
            bare = _LEAD.sub("", without_courtesy(sentence)) if mine else sentence
            if mine and command_of(bare) is not None:
                bare = bare.partition(": ")[2]  # only what a request is about may be a fact
            if is_question(bare) or (message.role is Role.SYSTEM and _ORDER.match(bare)):
                continue
            for clause in reversed(_CLAUSE.split(bare)):
                if words(clause):
                    yield clause, mine


def _name(fact: str) -> str:
    match = _NAME.search(_NAME_LEAD.sub(lambda found: found[0].lower(), fact))
    return match[1].removesuffix("'s") if match else ""


def _summary(prompt: str, earlier: Sequence[Message]) -> str:
    inside = [Message.user(prompt.partition("\n")[2] or prompt.partition(":")[2])]
    facts = [second_person(fact) if mine else fact for fact, mine in _facts([*earlier, *inside])]
    told = " ".join(_sentence(fact) for fact in reversed(facts[:20]))
    return f"Summary: {told}" if told else "Summary: nothing was said yet."


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[:2] != "I " else text


def _sentence(text: str) -> str:
    text = text.strip()
    return _ended(text[:1].upper() + text[1:])


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text.rstrip(",;:") + "."

"""How the mock model chooses tools: what a prompt asks for, in which order, and what the system prompt orders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.models.base import ToolSpec
from holdfast.models.mock_arguments import fill, head_of
from holdfast.models.mock_schema import properties, required, resolve
from holdfast.models.mock_words import (
    class_of,
    command_of,
    content_stems,
    is_how_to,
    is_question,
    name_words,
    sentences,
    stem,
    without_courtesy,
    words,
)

__all__ = ["Wanted", "about_user", "unfilled", "wanted_steps"]

_CALLING: Final = r"call|use|run|invoke|execute|try|using"
_HIDDEN: Final = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)|\{.*\}|\([^()]*\)", re.DOTALL)
_BREAK: Final = re.compile(
    r"""[,;.]?\s*\b(?:and\s+)?(?:then|after\ that|afterwards|finally|lastly)\b[,:]?\s+   # "a, then b"
        |;\s+|(?<=[.!?])\s+|\n+\s*(?:[-*•]|\d+[.)])?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATED: Final = re.compile(
    r"\b(?:don't|do not|never|not|without|avoid|instead of)\s+(?:\w+\s+){0,3}`?$", re.IGNORECASE
)
_ABOUT_USER: Final = re.compile(
    r"\bmy\s+(?:\w+\s+){1,4}?(?:is|are|was|were)\b|\bi(?:'m|\s+am|'ve|\s+was)\b|\bcall\s+me\b"
    r"|\bi\s+(?!(?:do|did|can|could|should|will|would|may)\b)(?:\w+ly\s+)?[a-z]{2,}",
    re.IGNORECASE,
)
_REMEMBER: Final = re.compile(
    r"^(?:(?:remember|note|know|remind yourself|keep in mind)\b\s*(?:this|that)?[\s:,]*)", re.IGNORECASE
)

# What a system prompt's order may wait for.
_CONDITION: Final = re.compile(r"\b(?:whenever|when|if|each|every|always|after|before|once)\b", re.IGNORECASE)
_ON_FACTS: Final = re.compile(
    r"\b(?:facts?|themsel\w+|personal|preferences?|hobb\w+|introduces?|shares?|tells?|states?)\b",
    re.IGNORECASE,
)
_ON_ASKING: Final = re.compile(r"\b(?:asks?|asked|asking|questions?|requests?|wants?)\b", re.IGNORECASE)
_KEEPS_FACTS: Final = re.compile(
    r"\b(?:facts?|preferences?|details?|information|memor\w+)\b.*\busers?\b|\busers?\b.*\b(?:facts?|preferences?)\b",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tool that is asked for, and the part of the prompt that asks."""

    tool: ToolSpec
    text: str


def wanted_steps(prompt: str, tools: Sequence[ToolSpec], system: str) -> list[list[Wanted]]:
    """The tools to call, step by step; those of one step go together. Empty if none fits."""
    steps = _asked_for(prompt, tools)
    if steps:
        return steps
    ordered = _ordered(prompt, tools, system)
    return [[ordered]] if ordered else []


def unfilled(prompt: str, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, list[str]] | None:
    """The tool that the prompt names but gives too little for, with the arguments that are missing."""
    for begin, end in _clause_spans(prompt, tools):
        clause = prompt[begin:end]
        for wanted in _mentioned(clause, tools, chained=False):
            missing = fill(wanted.tool, clause, prompt=prompt).missing
            if missing:
                return wanted.tool, missing
    return None


def about_user(prompt: str) -> str:
    """What the prompt states about its author, ``""`` if nothing."""
    found = []
    for sentence in sentences(prompt):
        bare = _REMEMBER.sub("", without_courtesy(sentence))
        if not is_question(bare) and command_of(bare) is None and _ABOUT_USER.search(bare):
            found.append(bare[:1].upper() + bare[1:])
    return " ".join(found)


# --- what the prompt asks for ---


def _asked_for(prompt: str, tools: Sequence[ToolSpec]) -> list[list[Wanted]]:
    """One step a clause. A clause without a tool belongs to the one before it: it is part of what that says."""
    steps: list[list[Wanted]] = []
    named = False
    start = 0
    for begin, end in _clause_spans(prompt, tools):
        clause = prompt[begin:end]
        step = _mentioned(clause, tools, chained=named)
        named = named or bool(step)
        if not step and (chosen := _fitting(clause, tools)):
            step = [chosen]
        if step:
            steps.append(step)
            start = begin
        elif steps and len(steps[-1]) == 1:
            steps[-1] = [Wanted(steps[-1][0].tool, prompt[start:end])]
    filled = [[one for one in step if not fill(one.tool, one.text, prompt=prompt).missing] for step in steps]
    return [step for step in filled if step]


def _clause_spans(prompt: str, tools: Sequence[ToolSpec]) -> list[tuple[int, int]]:
    """Where the parts of a prompt begin and end, each of which may ask for something."""
    hidden = _HIDDEN.sub(lambda match: "\0" * len(match[0]), prompt)
    pattern = _BREAK
    if not _mentioned(prompt, tools, chained=False) and (
        verbs := {name_words(tool.name)[0] for tool in tools}
    ):
        # "Charge the card, reserve the stock and ship it": a verb of a tool begins another request.
        spoken = "|".join(map(re.escape, sorted(verbs)))
        pattern = re.compile(
            rf"{_BREAK.pattern}|(?:,\s*(?:and\s+)?|\s+and\s+)(?=(?:{spoken})\b)", re.IGNORECASE | re.VERBOSE
        )
    spans, start = [], 0
    for match in pattern.finditer(hidden):
        spans.append((start, match.start()))
        start = match.end()
    spans.append((start, len(prompt)))
    return [(begin, end) for begin, end in spans if prompt[begin:end].strip()]


def _mentioned(clause: str, tools: Sequence[ToolSpec], *, chained: bool) -> list[Wanted]:
    """The tools that a clause names, in its order. `chained`: an earlier clause named some ("call a, then b")."""
    calling = chained or bool(re.match(rf"(?:{_CALLING})\b", without_courtesy(clause), re.IGNORECASE))
    places = []
    for tool in tools:
        place = _place(tool.name, clause, calling=calling)
        if place is not None:
            places.append((place, tool))
    places.sort(key=lambda place: place[0])
    starts = [0, *(place for place, _ in places[1:]), len(clause)]
    found = []
    for index, (_, tool) in enumerate(places):
        segment = clause[starts[index] : starts[index + 1]]
        short = fill(tool, segment, prompt="").missing
        found.append(Wanted(tool, clause if short else segment))
    return found


def _place(name: str, clause: str, *, calling: bool) -> int | None:
    """Where a clause names a tool. A name that is a plain word must be named as a tool, not just said."""
    found = rf"(?<![\w-])(?P<name>{re.escape(name)})(?![\w-]|\s*=)"
    patterns = [found]
    if re.fullmatch(r"[a-z]+|[A-Z][a-z]*", name):
        leads = rf"`|\b(?:{_CALLING})\s+(?:the\s+)?`?"
        if calling:
            leads += r"|^\s*(?:and\s+)?`?|,\s*(?:and\s+)?`?|\b(?:and|both)\s+`?"
        patterns = [rf"(?:{leads}){found}", rf"{found}(?:`?\s+(?:tool|function)\b|\()"]
    for pattern in patterns:
        match = re.search(pattern, clause, re.IGNORECASE)
        if match and not _NEGATED.search(clause[: match.start("name")]):
            return match.start("name")
    return None


def _fitting(clause: str, tools: Sequence[ToolSpec]) -> Wanted | None:
    """The tool that a request or a question fits best, None if none does. A statement asks for nothing."""
    head = head_of(clause)
    verb = command_of(clause, (name_words(tool.name)[0] for tool in tools if name_words(tool.name)))
    asks = verb is None and is_question(clause)
    if (verb is None and not asks) or is_how_to(clause):
        return None
    payload = head != clause or re.search(r"\d|\w[./@_-]\w", head) is not None
    scored = [(_score(tool, head, verb, payload=payload), -place) for place, tool in enumerate(tools)]
    for score, place in sorted(scored, reverse=True):
        tool = tools[-place]
        if score > 0 and not fill(tool, clause, prompt=clause).missing:
            return Wanted(tool, clause)
    return None


def _score(tool: ToolSpec, head: str, verb: str | None, *, payload: bool) -> int:
    """How well a tool fits: 0 if not at all."""
    parts = name_words(tool.name)
    own_class = class_of(parts[0]) if parts else frozenset()
    said_class = class_of(verb) if verb else frozenset({"get"})
    same_verb = verb is not None and bool(parts) and stem(verb) == stem(parts[0])
    if own_class and said_class and not own_class & said_class:
        own_words = {stem(word) for word in words(head)} & {stem(word) for word in parts}
        spoken = own_words or {name for word in words(head) for name in class_of(word)} & own_class
        if verb is not None or not (own_class & {"sum", "multiply", "subtract", "divide"} and spoken):
            return 0
        return 3  # "What is 6 times 7?" has no other way to say multiply
    said = set(content_stems(head))
    nouns = {stem(part) for part in (parts[1:] if class_of(parts[0]) else parts)} if parts else set()
    told = {one for one in content_stems(tool.description) if not class_of(one)} - nouns
    schema = resolve(tool.parameters, tool.parameters)
    known = {stem(part) for name in properties(schema) for part in name_words(name)} - nouns
    hits = len(said & nouns)
    said -= {stem(verb)} if verb else set()
    hints = min(3, len(said & told)) + len(said & known)
    related = same_verb or bool(own_class & said_class)
    alone = same_verb and (len(parts) == 1 or (payload and "get" not in own_class))
    if not (hits or alone or (hints and related)):
        return 0
    ready = verb is None and not required(schema)
    return 3 * hits + 3 * same_verb + 2 * related + hints + ready


# --- what the system prompt orders ---


def _ordered(prompt: str, tools: Sequence[ToolSpec], system: str) -> Wanted | None:
    """The tool that a standing order calls for this prompt: "Whenever the user shares a fact, call record_fact"."""
    facts = about_user(prompt)
    for tool in tools:
        text = next(
            (text for order in _orders(tool, system) if (text := _due(order, prompt, facts, tool))), ""
        )
        if (
            not text
            and facts
            and "save"
            in class_of(name_words(tool.name)[0]) | class_of(next(iter(words(tool.description)), ""))
        ):
            text = facts if _KEEPS_FACTS.search(tool.description) else ""
        if text and not fill(tool, text, prompt=text).missing:
            return Wanted(tool, text)
    return None


def _orders(tool: ToolSpec, system: str) -> list[str]:
    pattern = re.compile(rf"(?<![\w-]){re.escape(tool.name)}(?![\w-])", re.IGNORECASE)
    found = []
    for sentence in sentences(system):
        match = pattern.search(sentence)
        if match and _CONDITION.search(sentence) and not _NEGATED.search(sentence[: match.start()]):
            found.append(sentence)
    return found


def _due(order: str, prompt: str, facts: str, tool: ToolSpec) -> str:
    """The text that an order is due for, ``""`` if it is not."""
    if _ON_ASKING.search(order):
        own = {stem(word) for word in (*name_words(tool.name), "user", "ask", "question", "request", "want")}
        topics = set(content_stems(order)) - own
        asks = is_question(prompt) or command_of(prompt) is not None
        return prompt if asks and (not topics or topics & set(content_stems(prompt))) else ""
    if _ON_FACTS.search(order):
        return facts
    topics = set(content_stems(order)) & set(content_stems(prompt))
    return prompt if topics or re.search(r"\b(?:always|every|each)\b", order, re.IGNORECASE) else ""

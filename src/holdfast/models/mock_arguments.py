"""How the mock model fills a tool's arguments from a request in plain words."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.models.base import ToolSpec
from holdfast.models.mock_schema import NOTHING, Schema, coerce, properties, required, resolve, type_of
from holdfast.models.mock_words import command_of, is_question, name_words, stem, without_courtesy, words

__all__ = ["Filled", "fill", "head_of"]

# Parameters that take whatever was said; the others take a name, a place, a thing.
_FREE: Final = frozenset(
    """body command comment content description expression fact info information input item memory message note prompt
    query question reason request sentence statement summary task text thought title topic value""".split()
)
_ID: Final = frozenset("code id identifier key number ref reference ticket zip".split())
_ROLES: Final = {
    "from": frozenset("departure from origin sender source start".split()),
    "to": frozenset("address destination email end language recipient target to".split()),
}
_NUMBER_WORDS: Final = "zero one two three four five six seven eight nine ten eleven twelve".split()

_QUOTED: Final = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)|`([^`]+)`")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")
_PAYLOAD: Final = re.compile(r":\s+(?=\S)|:\n+|\s[—–]\s")
_KEY: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*(?:=|:=)\s*(?==*[^=\s])")
_VALUE_END: Final = re.compile(r"\s*(?:[,;\n]|\band\b|\bthen\b|\bplease\b|[.!?)]*\s*$|[.!?]\s)")
_LINK: Final = r"in|for|at|of|about|to|from|with|on|near|named|called|by"
_LINKED: Final = re.compile(
    rf"\b(?:{_LINK})\s+(?:the\s+)?(.+?)(?=[,.;?!]*\s*$|[,;?!]|\.\s|\s(?:{_LINK}|and|please|today|tomorrow|now)\b)"
)
_CAPITALS: Final = re.compile(r"(?<!^)(?<![.!?]\s)\b(?!I\b)[A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*")
_REST: Final = re.compile(
    r"^\w+\s+(?:[\w-]+\s+){0,4}?(?:(?:that|which)\s+says|that|about|saying|for|to|of|on|named|called|titled)\s+(.+)$",
    re.DOTALL,
)


@dataclass
class Filled:
    """The arguments that were found, and the names of the required ones that were not."""

    arguments: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def fill(tool: ToolSpec, text: str, *, prompt: str, previous: str | None = None) -> Filled:
    """A tool's arguments, from the part of the prompt that asks for it.

    `previous` is the result of the step before, for a text that the prompt doesn't give.
    """
    root = tool.parameters
    schema = resolve(root, root)
    known, wanted = properties(schema), required(schema)
    reader = _Reader(text, tool)
    filled = Filled(reader.written(known, root))
    strings = []
    for name in wanted:
        if name in filled.arguments:
            continue
        if (value := reader.guess(name, known.get(name, {}), root)) is not NOTHING:
            filled.arguments[name] = value
        elif type_of(resolve(known.get(name, {}), root)) in {"string", ""} and not _has_choices(
            known, name, root
        ):
            strings.append(name)
        else:
            filled.missing.append(name)
    found = reader.texts(strings, prompt, previous)
    filled.arguments.update(found)
    filled.missing += [name for name in strings if name not in found]
    for name in known:
        if name not in filled.arguments and name not in wanted:
            value = reader.hint(name, known[name], root, alone=not wanted and len(known) == 1)
            if value is not NOTHING:
                filled.arguments[name] = value
    return filled


def head_of(text: str) -> str:
    """A request without what it is about: nothing after a colon, nothing in quotes, no JSON."""
    match = _PAYLOAD.search(text)
    head = text[: match.start()] if match else text
    return _QUOTED.sub(lambda found: found[4] or " ", head.partition("{")[0])


def _has_choices(known: dict[str, Any], name: str, root: Schema) -> bool:
    return bool({"enum", "const"} & resolve(known.get(name, {}), root).keys())


class _Reader:
    """One request. What was used for one argument is not used for the next."""

    def __init__(self, text: str, tool: ToolSpec) -> None:
        self._text = without_courtesy(text)
        self._tool = tool
        verb = command_of(self._text, name_words(tool.name)[:1])
        self._asks = tool.name in self._text or (verb is not None and not is_question(self._text))
        match = _PAYLOAD.search(self._text)
        self._payload = self._text[match.end() :].strip() if match else ""
        self._head = head_of(self._text)
        found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(self._text))
        self._quoted = [text for text in found if text != tool.name]
        self._numbers: list[float | int] = [json.loads(number) for number in _NUMBER.findall(self._text)]
        if not self._numbers:
            spoken = [word for word in words(self._head) if word in _NUMBER_WORDS]
            self._numbers = [_NUMBER_WORDS.index(word) for word in spoken]

    # --- what is written out: JSON, key=value, name(1, 2), "with city Paris" ---

    def written(self, known: dict[str, Any], root: Schema) -> dict[str, Any]:
        raw = self._json(known) or self._called(list(known)) or self._pairs() or {}
        for name in known:
            if name not in raw and (value := self._with(name)):
                raw[name] = value
        found = {name: coerce(raw[name], known[name], root) for name in known if name in raw}
        found = {name: value for name, value in found.items() if value is not NOTHING}
        used = list(found.values())
        self._quoted = [text for text in self._quoted if text not in used]
        self._numbers = [number for number in self._numbers if number not in used and str(number) not in used]
        return found

    def _json(self, known: dict[str, Any]) -> dict[str, Any]:
        start = self._text.find("{")
        while start >= 0:
            try:
                value, _ = json.JSONDecoder().raw_decode(self._text, start)
            except ValueError:
                value = None
            if isinstance(value, dict) and value.keys() & known.keys():
                return value
            start = self._text.find("{", start + 1)
        return {}

    def _called(self, names: list[str]) -> dict[str, Any]:
        match = re.search(rf"\b{re.escape(self._tool.name)}`?\(([^()]*)\)", self._text)
        if match is None or "=" in match[1] or not match[1].strip():
            return {}
        return dict(zip(names, (_unquoted(part) for part in match[1].split(",")), strict=False))

    def _pairs(self) -> dict[str, Any]:
        keys = list(_KEY.finditer(self._text))
        ends = [*(match.start() for match in keys[1:]), len(self._text)]
        pairs = zip(keys, ends, strict=False)  # one end too many if there are no keys
        return {match[1]: _value(self._text[match.end() : end]) for match, end in pairs}

    def _with(self, name: str) -> str:
        spoken = r"[\s_-]".join(map(re.escape, name_words(name)))
        pattern = (
            rf"(?:\b(?:with|and|using|where)|,)\s+(?:the\s+|a\s+|an\s+)?{spoken}\s+(?:is\s+|of\s+|as\s+|set\s+to\s+)?"
            r"(\"[^\"]+\"|'[^']+'|[^\s,;]+)"
        )
        match = re.search(pattern, self._head, re.IGNORECASE) or re.search(pattern, self._text, re.IGNORECASE)
        return _unquoted(match[1].rstrip(".!?")) if match else ""

    # --- what is meant ---

    def guess(self, name: str, given: Any, root: Schema) -> Any:
        """A value for a required argument that is no free text, or `NOTHING`."""
        schema = resolve(given, root)
        if "const" in schema:
            return schema["const"]
        if isinstance(choices := schema.get("enum"), list | tuple):
            return choices[0] if len(choices) == 1 else self._choice(choices)
        kind = type_of(schema)
        if kind in {"integer", "number"}:
            return self._number(whole=kind == "integer")
        if kind == "boolean":
            return self._flag(name)
        if kind == "array":
            return self._list(resolve(schema.get("items", {}), root), root)
        if kind == "object":
            known, wanted = properties(schema), required(schema)
            values = {inner: self._inner(inner, known.get(inner, {}), root) for inner in wanted}
            return NOTHING if NOTHING in values.values() or not values else values
        return NOTHING

    def _inner(self, name: str, given: Any, root: Schema) -> Any:
        value = self.guess(name, given, root)
        if value is NOTHING and type_of(resolve(given, root)) == "string":
            return self.texts([name], "", None).get(name, NOTHING)
        return value

    def hint(self, name: str, given: Any, root: Schema, *, alone: bool) -> Any:
        """A value for an optional argument, only if the request plainly speaks of it."""
        schema = resolve(given, root)
        kind = type_of(schema)
        if isinstance(choices := schema.get("enum"), list | tuple):
            return self._choice(choices)
        if kind == "boolean":
            return self._flag(name, spoken_only=True)
        if kind in {"integer", "number"}:
            spoken = r"[\s_-]".join(map(re.escape, name_words(name)))
            match = re.search(
                rf"\b{spoken}\s+(?:of\s+|to\s+|is\s+)?(-?\d+(?:\.\d+)?)", self._head, re.IGNORECASE
            )
            return coerce(match[1], schema, root) if match else NOTHING
        if kind == "string" and alone and not is_question(self._text):
            rest = _REST.match(self._head)
            return self._quoted[0] if self._quoted else self._payload or (_tidy(rest[1]) if rest else NOTHING)
        return NOTHING

    def _choice(self, choices: Any) -> Any:
        said = f" {' '.join(words(self._head))} "
        for choice in choices:
            if (spoken := " ".join(words(str(choice).replace("_", " ")))) and f" {spoken} " in said:
                return choice
        return NOTHING

    def _number(self, *, whole: bool) -> Any:
        for index, number in enumerate(self._numbers):
            if not whole or number == int(number):
                del self._numbers[index]
                return int(number) if whole else number
        return NOTHING

    def _flag(self, name: str, *, spoken_only: bool = False) -> Any:
        said = words(self._head)
        own = [stem(word) for word in name_words(name)]
        if all(any(stem(word) == part for word in said) for part in own):
            place = next(index for index, word in enumerate(said) if stem(word) == own[0])
            return not {"no", "not", "without", "don't", "off", "false"} & set(said[max(0, place - 2) :])
        if spoken_only:
            return NOTHING
        answers = [coerce(word, {"type": "boolean"}, {}) for word in said]
        return next((answer for answer in answers if answer is not NOTHING), NOTHING)

    def _list(self, item: Schema, root: Schema) -> Any:
        if type_of(item) in {"integer", "number"}:
            numbers, self._numbers = self._numbers, []
            return numbers or NOTHING
        parts = self._quoted or [part for part in re.split(r"\s*(?:,|;|\band\b)\s*", self._payload) if part]
        values = [coerce(part.strip(" ."), item, root) for part in parts]
        return NOTHING if not values or NOTHING in values else values

    # --- texts ---

    def texts(self, names: list[str], prompt: str, previous: str | None) -> dict[str, str]:
        """Values for the required arguments that are texts, in the order of their certainty."""
        if len(names) == 1:
            text = self._single(names[0]) or previous or _tidy(prompt)
            return {names[0]: text} if text else {}
        found: dict[str, str] = {}
        for name in names:
            if value := self._role(name) or self._beside(name):
                found[name] = value
        left = [name for name in names if name not in found]
        if len(self._quoted) >= len(left):
            return found | dict(zip(left, self._quoted, strict=False))
        free = [name for name in left if self._kind(name) is _FREE]
        named = self._names()
        for name in left:
            if name not in free and named:
                found[name] = named.pop(0)
        body = self._quoted[0] if self._quoted else self._payload or self._rest(found.values())
        if free and body:
            found[free[-1]] = _tidy(body)
        return found

    def _single(self, name: str) -> str:
        if value := self._role(name) or self._beside(name):
            return value
        if self._quoted or self._payload:
            return self._quoted[0] if self._quoted else _tidy(self._payload)
        kind = self._kind(name)
        if kind is _ID and (token := re.search(r"#?([\w-]*\d[\w-]*)", self._head)):
            return token[1]
        if kind is _FREE:
            return self._rest() if self._asks else _tidy(self._text)
        return next(iter(self._names()), "") or self._rest()

    def _kind(self, name: str) -> frozenset[str] | None:
        parts = name_words(name)
        return next(
            (kind for kind in (_ID, _FREE) if parts and (parts[-1] in kind or parts[0] in kind)), None
        )

    def _role(self, name: str) -> str:
        for link, names in _ROLES.items():
            if names & set(name_words(name)) and (
                match := re.search(rf"\b{link}\s+([A-Z@\w][\w.@'-]*)", self._head)
            ):
                return match[1].rstrip(".")
        return ""

    def _beside(self, name: str) -> str:
        """What follows the parameter's own name, if it looks like a value: "version 1.2", "the file notes.txt"."""
        own = name_words(name)[0]
        match = re.search(rf"\b{re.escape(own)}\s+#?([\w./@-]*[\d./@_-][\w./@-]*)", self._head, re.IGNORECASE)
        return match[1].rstrip(".") if match else ""

    def _names(self) -> list[str]:
        """Places, people and things: capitals first, then what a preposition leads to."""
        capitals = _CAPITALS.findall(self._head)
        linked = [_tidy(match) for match in _LINKED.findall(self._head)]
        own = {stem(word) for word in name_words(self._tool.name)}
        found = [name for name in capitals if stem(name) not in own] + linked[::-1]
        return list(dict.fromkeys(name for name in found if name))

    def _rest(self, used: Iterable[str] = ()) -> str:
        """What follows the verb and its object: "Save a note to buy milk" is about "buy milk"."""
        text = re.sub(rf"`?\b{re.escape(self._tool.name)}\b`?(?:\s+tool\b)?", "", self._text).strip()
        for value in used:  # it is another argument's
            text = re.sub(rf"\s+(?:{_LINK})\s+{re.escape(value)}\W*$", "", text)
        if match := _REST.match(text):
            return _tidy(match[1])
        own = {stem(word) for word in name_words(self._tool.name)}
        skipped = own | {
            "a",
            "an",
            "the",
            "my",
            "me",
            "new",
            "call",
            "us",
            "run",
            "invok",
            "down",
            "with",
            "on",
        }
        parts = text.split()
        while parts and (not words(parts[0]) or stem(words(parts[0])[0]) in skipped):
            del parts[0]
        return _tidy(" ".join(parts)) if words(" ".join(parts)) else ""


def _tidy(text: str) -> str:
    text = text.strip().strip(",;").strip()
    return text[:-1].rstrip() if text.endswith((".", "?", "!")) and not text.endswith("..") else text


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" else text


def _value(text: str) -> Any:
    """The value that a ``key=`` is followed by: JSON, quoted, or words up to the next comma or "and"."""
    if text[:1] in {'"', "[", "{"}:
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except ValueError:
            pass
    if quoted := _QUOTED.match(text):
        return next(group for group in quoted.groups() if group)
    end = _VALUE_END.search(text)
    return text[: end.start()] if end else text

"""The conversation that everything is measured with: seeded, English-like, the same in every environment.

Only the standard library is imported here, so that a peer's environment can use it too.
"""

import json
import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, Literal

Vocabulary = Literal["zipf", "uniform"]
Turn = list[dict[str, Any]]
"""The messages of one turn as plain dicts, just as a model's API takes them."""

USER_CHARACTERS: Final = 200
ASSISTANT_CHARACTERS: Final = 800
TOOL_CHARACTERS: Final = 2048
_WORDS: Final = 4000

_FUNCTION_WORDS: Final = """
    the of and to a in is that it for was on are as with they be at one have this from or had by but some what there
    we can out other were all your when up use how said an each she which do their time if will way about many then
    them would like so these her long make thing see him two has look more day could go come did my no most who over
    know than call first people may down side been now find any new work part take get place made where after back
    little only round year came show every good me give our under very through just form much great think say help
    low line before turn cause same mean differ move right boy old too does tell sentence set three want air well
    also play small end put home read hand port large spell add even land here must big high such follow act why ask
""".split()
_ONSETS: Final = (
    "b br c ch cl cr d dr f fl fr g gr h j l m n p pl pr qu r s sh sl sp st str t th tr v w".split()
)
_VOWELS: Final = "a e i o u ai ea ee io ou oa".split()
_CODAS: Final = [
    "",
    "",
    "b",
    "ck",
    "ct",
    "d",
    "ft",
    "l",
    "ld",
    "m",
    "n",
    "nd",
    "ng",
    "nt",
    "p",
    "r",
    "rk",
    "rm",
    "s",
    "st",
    "t",
]
_ENDINGS: Final = ["", "", "", "", "s", "s", "ed", "ing", "er", "ly", "ment", "tion", "able", "ness"]


class Writer:
    """Writes sentences. Words follow Zipf's law, as they do in languages; or all are equally frequent, which no
    language is but which is the hardest for a text index."""

    def __init__(self, vocabulary: Vocabulary = "zipf", seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._words = [*_FUNCTION_WORDS, *self._content_words(_WORDS - len(_FUNCTION_WORDS))]
        zipf = vocabulary == "zipf"
        self._weights = list(
            accumulate(1 / (rank + 2.7) if zipf else 1.0 for rank in range(len(self._words)))
        )

    def text(self, length: int) -> str:
        """Sentences, cut to exactly so many characters."""
        sentences: list[str] = []
        size = 0
        while size <= length:
            words = self._random.choices(
                self._words, cum_weights=self._weights, k=self._random.randint(6, 18)
            )
            sentences.append(" ".join(words).capitalize() + self._random.choice("....?,"))
            size += len(sentences[-1]) + 1
        return " ".join(sentences)[:length]

    def document(self, length: int) -> str:
        """A tool's answer: JSON text of exactly so many characters."""
        found: list[dict[str, Any]] = []
        while len(json.dumps({"found": found, "note": ""})) < length - 220:
            score = round(self._random.random(), 3)
            found.append(
                {
                    "id": self._random.randrange(10**6),
                    "title": self.text(30),
                    "score": score,
                    "text": self.text(90),
                }
            )
        missing = length - len(json.dumps({"found": found, "note": ""}))
        return json.dumps({"found": found, "note": self.text(missing)})

    def _content_words(self, count: int) -> list[str]:
        pick = self._random.choice
        words: dict[str, None] = {}
        while len(words) < count:
            syllables = [pick(_ONSETS) + pick(_VOWELS) + pick(_CODAS) for _ in range(pick((1, 1, 2, 2, 3)))]
            words["".join(syllables) + pick(_ENDINGS)] = None
        return list(words)


def conversation(turns: int, vocabulary: Vocabulary = "zipf") -> list[Turn]:
    """A user's 200 characters and an assistant's 800 a turn; every third turn a tool call with a 2 KB result too."""
    writer = Writer(vocabulary)
    made: list[Turn] = []
    for number in range(1, turns + 1):
        turn: Turn = [{"role": "user", "content": writer.text(USER_CHARACTERS)}]
        if number % 3 == 0:
            call = {
                "id": f"call-{number}",
                "name": "look_up",
                "arguments": {"query": writer.text(40), "limit": 10},
            }
            turn.append({"role": "assistant", "tool_calls": [call]})
            result = writer.document(TOOL_CHARACTERS)
            turn.append({"role": "tool", "content": result, "tool_call_id": call["id"], "name": "look_up"})
        turn.append({"role": "assistant", "content": writer.text(ASSISTANT_CHARACTERS)})
        made.append(turn)
    return made


def plain_conversation(turns: int, characters: int, vocabulary: Vocabulary = "zipf") -> list[Turn]:
    """So many characters a turn, a fifth of them by the user, and no tools: small talk, where rows' own cost shows."""
    writer = Writer(vocabulary)
    asked = characters // 5
    return [
        [
            {"role": "user", "content": writer.text(asked)},
            {"role": "assistant", "content": writer.text(characters - asked)},
        ]
        for _ in range(turns)
    ]


encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Compact JSON, by an encoder that is made once: the least that JSON costs."""


def json_bytes(turns: Sequence[Turn]) -> int:
    """The size of all messages as compact JSON."""
    return sum(len(encode(message).encode()) for turn in turns for message in turn)


def text_bytes(turns: Sequence[Turn]) -> int:
    """The size of what was said, and of nothing around it."""
    return sum(len(str(message.get("content", "")).encode()) for turn in turns for message in turn)

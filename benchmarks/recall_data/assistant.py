"""A user at work with an assistant: long answers with code and logs, three huge sessions.

The assistant repeats the user's words in every answer, and its general advice uses the words of all topics. What is
asked later is what the user asked or told.
"""

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.recall_data.building import Conversation, Writer


@dataclass(frozen=True)
class Topic:
    """What the user writes, what is specific in the answer, an excerpt, and what is asked later."""

    ask: str
    answer: str
    excerpt: str
    later: tuple[str, ...]


_WRITTEN = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
TOPICS = tuple(Topic(**{**topic, "later": tuple(topic["later"])}) for topic in _WRITTEN["topics"])
ADVICE: list[str] = _WRITTEN["advice"]
FOLLOW_UPS: list[tuple[str, str]] = _WRITTEN["follow_ups"]
PROJECTS = ("billing", "search", "warehouse", "portal", "payroll")


def build(seed: int) -> Conversation:
    rng = random.Random(f"assistant {seed}")
    writer = Writer("assistant", datetime(2024, 2, 5, 9, tzinfo=UTC))
    rounds = [(topic, project) for topic in TOPICS for project in PROJECTS]
    rng.shuffle(rounds)
    for start in range(0, len(rounds), -(-len(rounds) // 3)):
        writer.session(timedelta(days=6))
        for topic, project in rounds[start : start + -(-len(rounds) // 3)]:
            _round(writer, rng, topic, project)
    return writer.done()


def _round(writer: Writer, rng: random.Random, topic: Topic, project: str) -> None:
    evidence = [writer.say("user", topic.ask.format(p=project))]
    advice = rng.sample(ADVICE, rng.randint(2, 6))
    middle = rng.randint(0, len(advice))
    echo = (
        "You ask about " + project + ": " + " ".join(rng.sample(topic.ask.format(p=project).split(), 8)) + "."
    )
    parts = [echo, *advice[:middle], topic.answer, f"```\n{topic.excerpt}\n```", *advice[middle:]]
    writer.say("assistant", "\n".join(parts))
    if rng.random() < 0.6:
        asked, answered = rng.choice(FOLLOW_UPS)
        writer.say("user", asked)
        writer.say("assistant", answered)
    writer.ask(rng.choice(topic.later).format(p=project), evidence)

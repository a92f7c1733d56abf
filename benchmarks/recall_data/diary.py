"""A diary: one writer, a session a day, similar things again and again; questions name the time."""

import random
from datetime import UTC, date, datetime, timedelta

from benchmarks.recall_data.building import Conversation, Writer

SUBJECTS = {
    "What did I cook {when}?": (
        "Made {x} for dinner, it came out well.",
        (
            "lentil soup",
            "fried rice",
            "a mushroom pie",
            "pancakes",
            "stuffed peppers",
            "gnocchi",
            "a fish stew",
        ),
    ),
    "Where did I walk {when}?": (
        "Walked {x} after work to clear my head.",
        ("along the canal", "up the vineyard hill", "through the old town", "around the lake", "to the mill"),
    ),
    "Whom did I phone {when}?": (
        "Called {x}, we talked for an hour.",
        ("my brother", "the landlord", "an old teacher", "the insurance", "my aunt", "the bank"),
    ),
    "What did I watch {when}?": (
        "Saw {x} in the evening and fell asleep at the end.",
        ("a western", "a film about whales", "the chess final", "a cooking show", "an old comedy"),
    ),
    "What broke {when}?": (
        "The {x} broke, of course on the worst day.",
        ("washing machine", "zip of my coat", "doorbell", "left headlight", "kitchen tap", "umbrella"),
    ),
}
FILLERS = (
    "Slept badly, up at six.",
    "Quiet day at work, two meetings.",
    "Cold outside, first coat of the season.",
    "Bought bread and flowers on the way home.",
    "Read a few pages before bed.",
    "The evening was nice, dinner on the balcony.",
)
START = date(2023, 9, 4)


def build(seed: int) -> Conversation:
    rng = random.Random(f"diary {seed}")
    writer = Writer("diary", datetime(2023, 9, 4, 21, tzinfo=UTC))
    for day in (START + timedelta(days=number) for number in range(150)):
        writer.session()
        writer.at(datetime(day.year, day.month, day.day, 21, tzinfo=UTC))
        written = rng.sample(sorted(SUBJECTS), 2)
        for question in written:
            text, things = SUBJECTS[question]
            turn = writer.say(None, text.format(x=rng.choice(things)))
            if rng.random() < 0.2:
                writer.ask(question.format(when=_named(day, rng)), [turn])
        writer.say(None, rng.choice(FILLERS))
    return writer.done()


def _named(day: date, rng: random.Random) -> str:
    """The day as people write it."""
    return rng.choice(
        (
            f"on {day:%B} {day.day}, {day.year}",
            f"on {day.day} {day:%B} {day.year}",
            f"on {day.isoformat()}",
            f"on the {day.day}th of {day:%B}",
        )
    )

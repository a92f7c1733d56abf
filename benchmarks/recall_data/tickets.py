"""Support tickets: many short sessions, the same phrases in all of them, an agent and a customer."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.recall_data.building import Conversation, Writer


@dataclass(frozen=True)
class Case:
    """What the customer writes, the agent's check, the decisive reply, the outcome; and what is asked later."""

    report: str
    check: str
    detail: str
    outcome: str
    later: tuple[tuple[str, str], ...]  # question, name of the turn that answers it


CASES = (
    Case(
        "The {d} I received has a crack along the screen.",
        "I'm sorry to hear that. Was the box damaged too?",
        "No, the carton looked fine, only one corner was soft.",
        "We send you another one, it leaves our warehouse {w}. Keep the old one.",
        (
            ("Was the carton of the cracked {d} fine?", "detail"),
            ("Which part of the {d} has a crack?", "report"),
            ("When do we ship the replacement {d}?", "outcome"),
        ),
    ),
    Case(
        "I was charged twice for my {d}.",
        "Which card did you use?",
        "The Visa that ends in {n}.",
        "I see both payments. The second one is refunded, it takes until {w}.",
        (
            ("Which card paid for the {d} that was charged twice?", "detail"),
            ("Who paid two times for a {d}?", "report"),
            ("When does the buyer of the {d} get the money back?", "outcome"),
        ),
    ),
    Case(
        "The app for my {d} does not start since the update.",
        "What does the screen show?",
        "A white page, then error {n}.",
        "That is a known fault of version 5.2. Please go back to 5.1 until {w}.",
        (
            ("Which error does the {d} app show?", "detail"),
            ("Since when does the {d} app not work?", "report"),
            ("What did we advise until the {d} software is repaired?", "outcome"),
        ),
    ),
    Case(
        "I want to send my {d} back, it is too loud.",
        "Of course. Where shall the courier pick it up?",
        "At my office, floor {n}, the porter knows.",
        "Booked. The courier comes {w} in the morning.",
        (
            ("Where is the loud {d} picked up?", "detail"),
            ("Why does the {d} go back?", "report"),
            ("When is the {d} return picked up?", "outcome"),
        ),
    ),
    Case(
        "My {d} never arrived, tracking says delivered.",
        "Is there a neighbour who may have taken it?",
        "I asked number {n}, they have nothing.",
        "I opened a search with the carrier. If nothing turns up by {w} we send a new one.",
        (
            ("Which neighbour was asked about the {d}?", "detail"),
            ("What does tracking say about the missing {d}?", "report"),
            ("How long does the carrier look for the {d}?", "outcome"),
        ),
    ),
    Case(
        "Can I get an invoice for the {d} with our company's tax number?",
        "Sure, please tell me the number.",
        "It is DE{n}77.",
        "The corrected invoice is in your mailbox {w}.",
        (
            ("What is the tax number for the {d} invoice?", "detail"),
            ("Who needs an invoice for a {d}?", "report"),
            ("When will the new bill for the {d} be there?", "outcome"),
        ),
    ),
)
DEVICES = ("lamp", "heater", "speaker", "camera", "printer", "kettle", "scale", "router", "fan", "toaster")
DAYS = ("on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "tomorrow")
GREETINGS = ("Hello, how can I help you today?", "Hi, thanks for contacting us. What can I do for you?")
CLOSINGS = (
    "Is there anything else I can do for you?",
    "Thank you for your patience. Can I help with something else?",
)
THANKS = ("No, that is all. Thanks!", "Great, thank you for the quick help.", "That's it, bye.")


def build(seed: int) -> Conversation:
    rng = random.Random(f"tickets {seed}")
    writer = Writer("tickets", datetime(2024, 4, 2, 8, tzinfo=UTC))
    pairs = [(case, device) for case in CASES for device in DEVICES]
    rng.shuffle(pairs)
    for case, device in pairs:
        writer.session(timedelta(hours=7))
        slots = {"d": device, "n": str(rng.randint(12, 989)), "w": rng.choice(DAYS)}
        writer.say("agent", rng.choice(GREETINGS))
        turns = {"report": writer.say("customer", case.report.format(**slots))}
        turns["check"] = writer.say("agent", case.check.format(**slots))
        turns["detail"] = writer.say("customer", case.detail.format(**slots))
        turns["outcome"] = writer.say("agent", case.outcome.format(**slots))
        writer.say("agent", rng.choice(CLOSINGS))
        writer.say("customer", rng.choice(THANKS))
        question, answer = rng.choice(case.later)
        writer.ask(question.format(**slots), [turns[answer]])
    return writer.done()

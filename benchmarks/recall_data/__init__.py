"""Data of our own to measure recall on: kinds of memory that differ in what LoCoMo has in common.

Everything is made from hand-written sentences by a fixed seed: the same call gives the same data on every machine.
The format is that of the benchmark's files: conversations with ``turns`` (id, session, speaker, when, text; the
middle three may be ``None``) and ``questions`` (question, evidence, category). The category is the kind.
"""

from benchmarks.recall_data import assistant, diary, notes, people, tickets
from benchmarks.recall_data.building import Conversation

KINDS = {
    "assistant": assistant.build,
    "people": people.build,
    "notes": notes.build,
    "tickets": tickets.build,
    "diary": diary.build,
}


def generate(seed: int = 1) -> list[Conversation]:
    """A conversation of each kind."""
    return [build(seed) for build in KINDS.values()]


def grown(kind: str, memories: int) -> Conversation:
    """So many memories of one kind: as many conversations as that takes, as one."""
    first = KINDS[kind](1)
    turns, questions = list(first["turns"]), list(first["questions"])
    seed = 1
    while len(turns) < memories:
        seed += 1
        more = KINDS[kind](seed)
        turns += [
            {
                **turn,
                "id": f"{seed}:{turn['id']}",
                "session": None if turn["session"] is None else f"{seed}:{turn['session']}",
            }
            for turn in more["turns"]
        ]
        questions += more["questions"]
    return {**first, "turns": turns[:memories], "questions": questions}

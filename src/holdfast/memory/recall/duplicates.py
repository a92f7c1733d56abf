"""What says the same as a better answer makes room for others."""

from collections.abc import Iterable, Sequence

from holdfast.memory.recall.notes import Note
from holdfast.memory.store_requests import StoredCandidate

_Sizes = tuple[int, int, Note]
"""Of a candidate: terms, characters as it is stored, and the rest."""


def repeated(
    pool: Sequence[StoredCandidate], notes: Sequence[Note], best: Iterable[int], limit: int
) -> list[int]:
    """Places in the pool of those that repeat a better one; ``best`` are the places of the best, best first.

    Behind ``limit`` different ones nobody comes among the best, repeated or not.
    """
    better: dict[frozenset[str], list[_Sizes]] = {}
    found: list[int] = []
    for place in best:
        candidate = pool[place]
        one = (candidate.length, len(candidate.item.value), notes[place])
        kin = better.setdefault(frozenset(candidate.frequencies), [])
        if kin and _is_repeated(one, kin):
            found.append(place)
        else:
            kin.append(one)
            limit -= 1
            if not limit:
                break
    return found


def _is_repeated(one: _Sizes, kin: Iterable[_Sizes]) -> bool:
    """Nine words of ten are those of another. Texts are read only if their lengths allow it, and once."""
    length, size, note = one
    shortest, longest = -(-7 * length // 9), 9 * length // 7
    smallest, largest = -(-9 * size // 10), 10 * size // 9
    for other_length, other_size, other in kin:
        if smallest <= other_size <= largest and shortest <= other_length <= longest:
            words, others = note.words, other.words
            both = len(words & others)
            if both and 10 * both >= 9 * (len(words) + len(others) - both):
                return True
    return False

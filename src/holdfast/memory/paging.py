"""Listing threads last saved first, page by page, while others go on saving: pure, for all backends.

Every save (and fork, and import) gives its thread the next number of one counter. A listing goes down from
the counter's value at its beginning, the ``ceiling``. A thread that is saved meanwhile jumps above the
ceiling, where the listing would never meet it again: so, at the bottom, it goes on with a second pass over
what is above the ceiling, and so forth until there is nothing new. A thread that existed at the beginning,
and still does, is in some page; one that was saved in between may be in two.
"""

from dataclasses import dataclass

from holdfast.memory.cursors import decode_numbers, encode_cursor


@dataclass(frozen=True, slots=True)
class RecencyCursor:
    """What is still to be listed: numbers between ``floor`` and ``position``, then those above ``ceiling``.

    Where checkpoints are listed, the thread at ``position`` still has those with a sequence below ``before``.
    """

    floor: int
    ceiling: int
    position: int
    before: int = 0

    @classmethod
    def open(cls, after: str | None, kind: str, newest: int) -> "RecencyCursor":
        """The beginning of a listing if ``after`` is ``None``, else what that text of the same ``kind`` says.

        ``newest`` is the counter's value now: the highest number that a thread can have.
        """
        if after is None:
            return cls(0, newest, newest + 1)
        return cls(*decode_numbers(after, kind, 4))

    def spans(self, newest: int) -> list[tuple[int, int]]:
        """The ranges of numbers, ends included, to read in this order, each of them descending."""
        spans = [
            (self.floor + 1, self.position if self.before else self.position - 1),
            (self.ceiling + 1, newest),
        ]
        return [(lowest, highest) for lowest, highest in spans if lowest <= highest]

    def has(self, number: int, sequence: int) -> bool:
        """Whether that checkpoint of the thread with that number is still to be listed."""
        return number != self.position or sequence < self.before

    def behind(self, number: int, newest: int, *, sequence: int = 0) -> "RecencyCursor":
        """The cursor that goes on after the thread with that number, or after that checkpoint of it.

        ``newest`` is the counter's value that was used for :meth:`spans`.
        """
        if number > self.ceiling:  # the second pass has begun: what comes meanwhile is left for a third
            return RecencyCursor(self.ceiling, newest, number, sequence)
        return RecencyCursor(self.floor, self.ceiling, number, sequence)

    def encode(self, kind: str) -> str:
        return encode_cursor(kind, self.floor, self.ceiling, self.position, self.before)

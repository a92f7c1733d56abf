"""A fact, and a change of what we believe: the two things that the facts of a user are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from holdfast.core.model import FrozenModel, UtcDatetime

DEFAULT_CONFIDENCE = 0.8
MAX_NAME_CHARACTERS = 255

Cardinality = Literal["one", "many"]
Kind = Literal["add", "retract", "undo", "declare"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError(f"must have a visible character, got {text!r}")
    return text.strip()


_Text = Annotated[str, AfterValidator(_not_blank)]
_Name = Annotated[_Text, Field(max_length=MAX_NAME_CHARACTERS)]


class Fact(FrozenModel):
    """``subject predicate object``, true from ``valid_from`` until just before ``valid_until``.

    What is given to :meth:`FactStore.add` needs the first three. Without ``valid_from`` it is true from when it is
    recorded; if ``valid_until`` is then past, only its end is told. ``recorded_at`` is now unless given.

    In what a query gives, ``valid_until`` is its end as far as it is known, ``recorded_at`` when we first heard of it,
    and ``invalidated_at`` when we learned that another value took its place, or that it was wrong. ``sources`` are
    all that say so, and ``confidence`` is theirs together.
    """

    subject: _Name
    predicate: _Name
    object: _Text
    confidence: float = Field(default=DEFAULT_CONFIDENCE, ge=0.0, le=1.0)
    valid_from: UtcDatetime | None = None
    valid_until: UtcDatetime | None = None
    recorded_at: UtcDatetime | None = None
    invalidated_at: UtcDatetime | None = None
    sources: tuple[_Name, ...] = ()
    id: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            subject: str,
            predicate: str,
            object: str,
            *,
            confidence: float = ...,
            valid_from: datetime | None = ...,
            valid_until: datetime | None = ...,
            recorded_at: datetime | None = ...,
            invalidated_at: datetime | None = ...,
            sources: Sequence[str] = ...,
            id: str = ...,
        ) -> None: ...
    else:

        def __init__(self, *named: str, **fields: Any) -> None:
            super().__init__(**dict(zip(("subject", "predicate", "object"), named, strict=False)), **fields)

    @model_validator(mode="after")
    def _in_order(self) -> Fact:
        if self.valid_from and self.valid_until and self.valid_until < self.valid_from:
            raise ValueError(
                f"valid_until ({self.valid_until}) must not be before valid_from ({self.valid_from})"
            )
        return self


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that somebody said about the facts: nothing else is stored, and it is never altered.

    ``add`` states a fact (``object`` and the times as they were given). ``retract`` and ``undo`` name other changes
    in ``targets``. ``declare`` says in ``object`` whether a predicate has "one" value or "many". ``author`` is who did
    it, ``sources`` the episodes that it comes from, ``checkpoint`` the state of the thread in which it was learned.
    ``dated``: its caller said when it was recorded.
    """

    id: str
    kind: Kind
    recorded_at: datetime
    subject: str = ""
    predicate: str = ""
    object: str = ""
    confidence: float = 0.0
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    dated: bool = False
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    author: str | None = None
    checkpoint: str | None = None
    reason: str | None = None

    @property
    def begins(self) -> datetime | None:
        """From when a stated fact is true. ``None``: only its end is told."""
        if self.valid_from is not None:
            return self.valid_from
        if self.valid_until is not None and self.valid_until <= self.recorded_at:
            return None
        return self.recorded_at
